// Any bytes over a vocabulary that has every byte: text survives encoding and decoding, whole and
// streamed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/utf8.h"
#include "model/byte_level.h"
#include "model/stream_decoder.h"
#include "model/tokenizer.h"

namespace {

std::unique_ptr<paceline::Tokenizer> make_tokenizer(const char* pre_tokenizer) {
  paceline::TokenizerSpec spec;
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.push_back(paceline::byte_level_char(static_cast<uint8_t>(byte)));
  }
  for (const char* merged : {"ab", "abc", "th", "the", "12", "aa", "aaaa"}) {
    spec.tokens.emplace_back(merged);
  }
  spec.merges = {"t h", "th e", "a b", "ab c", "1 2", "a a", "aa aa"};
  spec.pre_tokenizer = pre_tokenizer;
  return paceline::Tokenizer::create(std::move(spec)).value();
}

void check(const paceline::Tokenizer& tokenizer, std::string_view text) {
  const std::string repaired = paceline::repair_utf8(text);
  const auto ids = tokenizer.encode(text, {.parse_special = false});
  if (!ids.ok() || tokenizer.decode(*ids) != repaired) {
    std::abort();
  }
  paceline::StreamDecoder decoder(tokenizer);
  std::string streamed;
  for (const int32_t id : *ids) {
    streamed += decoder.push(id);
  }
  if (streamed + decoder.flush() != repaired) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto kTokenizers = [] {
    std::vector<std::unique_ptr<paceline::Tokenizer>> all;
    for (const char* name : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
      all.push_back(make_tokenizer(name));
    }
    return all;
  }();
  for (const auto& tokenizer : kTokenizers) {
    check(*tokenizer, {reinterpret_cast<const char*>(data), size});
  }
  return 0;
}
