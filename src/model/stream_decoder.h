// Text of tokens as they come.
#pragma once

#include <cstdint>
#include <string>

namespace paceline {

class Tokenizer;

// All that push and flush give, joined, is Tokenizer::decode(ids, skip_special = true).
class StreamDecoder {
 public:
  // The tokenizer must outlive this.
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  // The characters that the token completes: valid UTF-8, with U+FFFD for bytes that can never be
  // part of a character. Special tokens give nothing.
  std::string push(int32_t id);

  // U+FFFD if a character was left incomplete. The next push starts afresh.
  std::string flush();

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;  // the start of a character
};

}  // namespace paceline
