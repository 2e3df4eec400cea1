// Runs an engine until all prompts are done, and shows what comes out.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "model/stream_decoder.h"
#include "model/tokenizer.h"
#include "prompts.h"

namespace paceline::cli {

struct OutputOptions {
  bool parse_special = true;  // control tokens written in a prompt are tokens
  bool json = false;          // an object for each prompt
  bool quiet = false;         // no progress
};

// Text goes to stdout: of one prompt as it comes, of many in their order as each is done.
class GenerationSession {
 public:
  GenerationSession(const OutputOptions& options, const Tokenizer& tokenizer, Engine& engine)
      : options_(options), tokenizer_(tokenizer), engine_(engine) {}

  // Errors name the prompt.
  Status add(const std::vector<Prompt>& prompts, const SamplingParams& sampling);
  // Until all is done or `interrupted` is set. What was generated until then is shown in any case.
  // kDataLoss when logits were not numbers, kInternal when the output could not be written.
  Status run(const std::atomic<bool>& interrupted);
  // On stderr: tokens, time to first token, tokens per second.
  void print_statistics() const;

 private:
  using Clock = std::chrono::steady_clock;

  // A prompt and what became of it.
  struct Generation {
    explicit Generation(const Tokenizer& tokenizer) : decoder(tokenizer) {}

    std::string prompt;
    size_t prompt_tokens = 0;
    std::vector<int32_t> tokens;
    std::string text;
    StreamDecoder decoder;
    FinishReason finish_reason = FinishReason::kNone;
  };

  bool streaming() const { return generations_.size() == 1 && !options_.json; }
  void take(const TokenEvent& event);
  void print_generation(size_t index) const;
  void print_finished();
  void print_rest();
  void print_progress();
  Status outcome() const;

  const OutputOptions options_;
  const Tokenizer& tokenizer_;
  Engine& engine_;
  std::vector<Generation> generations_;
  uint64_t first_id_ = 0;
  size_t next_to_print_ = 0;
  size_t num_finished_ = 0;
  size_t num_tokens_ = 0;
  bool shows_progress_ = false;
  Clock::time_point start_;
  Clock::time_point last_progress_;
  double first_token_seconds_ = 0.0;
  double last_token_seconds_ = 0.0;
  double seconds_ = 0.0;
};

}  // namespace paceline::cli
