// Splits text into the words within which BPE merges.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/status.h"

namespace paceline {

// Immutable, and safe to use from many threads; each takes a Splitter of its own.
class PreTokenizer {
 public:
  // `name` is GGUF's tokenizer.ggml.pre. kUnsupported for an unknown one, with those that are
  // known.
  static Result<std::unique_ptr<PreTokenizer>> create(std::string_view name);

  ~PreTokenizer();
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;

  // A word that is a token as a whole becomes that token, even where the merges lead elsewhere.
  bool whole_words_first() const { return whole_words_first_; }

  // The state of matching; not to be shared by threads. Must not outlive its PreTokenizer.
  class Splitter {
   public:
    ~Splitter();
    Splitter(Splitter&&) noexcept;
    Splitter& operator=(Splitter&&) = delete;

    // The words of `text`, which must be valid UTF-8, in order and without gaps; they are parts
    // of `text`. Replaces what `words` held.
    Status split(std::string_view text, std::vector<std::string_view>& words);

   private:
    friend class PreTokenizer;
    struct State;
    explicit Splitter(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };
  Result<Splitter> make_splitter() const;

 private:
  struct Stage;
  PreTokenizer();

  std::vector<Stage> stages_;  // each splits the pieces of the one before
  bool whole_words_first_ = false;
};

}  // namespace paceline
