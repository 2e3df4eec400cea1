// Cuts text into the pieces inside which byte pairs are merged.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/status.h"

namespace paceline {

// Thread-safe: split() keeps no state.
class PreTokenizer {
 public:
  // By the name that GGUF gives in tokenizer.ggml.pre. kUnsupported, with the names that are possible, otherwise.
  static Result<std::unique_ptr<PreTokenizer>> create(std::string_view name);
  ~PreTokenizer();
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;

  const std::string& name() const { return name_; }
  // Pieces of valid UTF-8 text, in order; together they are the text.
  Result<std::vector<std::string_view>> split(std::string_view text) const;

 private:
  struct Pattern;
  PreTokenizer();

  std::string name_;
  std::vector<std::unique_ptr<Pattern>> patterns_;  // each cuts the pieces of the one before
};

}  // namespace paceline
