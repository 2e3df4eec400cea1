#include "generation_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/status_macros.h"
#include "cli.h"

namespace paceline::cli {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Status GenerationSession::add(const std::vector<Prompt>& prompts, const SamplingParams& sampling) {
  for (const Prompt& prompt : prompts) {
    Generation& generation = generations_.emplace_back(tokenizer_);
    generation.prompt = prompt.text;
    PACELINE_ASSIGN_OR_RETURN(
        std::vector<int32_t> ids,
        tokenizer_.encode(prompt.text, {.parse_special = options_.parse_special}));
    generation.prompt_tokens = ids.size();
    const auto id = engine_.add_request(std::move(ids), sampling);
    if (!id.ok()) {
      return {id.status().code(), fmt::format("{}: {}", prompt.where, id.status().message())};
    }
    first_id_ = generations_.size() == 1 ? *id : first_id_;
  }
  return {};
}

Status GenerationSession::run(const std::atomic<bool>& interrupted) {
  start_ = Clock::now();
  while (engine_.has_unfinished() && !interrupted.load()) {
    PACELINE_ASSIGN_OR_RETURN(const std::vector<TokenEvent> events, engine_.step());
    for (const TokenEvent& event : events) {
      take(event);
    }
    print_finished();
    print_progress();
  }
  seconds_ = seconds_since(start_);
  print_rest();
  PACELINE_RETURN_IF_ERROR(flush_output());
  return outcome();
}

Status GenerationSession::outcome() const {
  const auto failed = std::count_if(generations_.begin(), generations_.end(), [](const auto& g) {
    return g.finish_reason == FinishReason::kError;
  });
  if (failed == 0) {
    return {};
  }
  return {StatusCode::kDataLoss,
          fmt::format("{} of {} prompts: the logits are not finite numbers (corrupt weights?)",
                      failed, generations_.size())};
}

void GenerationSession::take(const TokenEvent& event) {
  Generation& generation = generations_[event.request_id - first_id_];
  generation.finish_reason = event.finish_reason;
  std::string piece;
  if (event.finish_reason != FinishReason::kError) {
    last_token_seconds_ = seconds_since(start_);
    if (num_tokens_++ == 0) {
      first_token_seconds_ = last_token_seconds_;
    }
    generation.tokens.push_back(event.token);
    piece = generation.decoder.push(event.token);
  }
  if (event.finish_reason != FinishReason::kNone) {
    piece += generation.decoder.flush();
    ++num_finished_;
  }
  generation.text += piece;
  if (streaming()) {
    fmt::print("{}", piece);
    std::fflush(stdout);
  }
}

void GenerationSession::print_generation(size_t index) const {
  const Generation& generation = generations_[index];
  if (options_.json) {
    const nlohmann::json line{{"index", index},
                              {"prompt", generation.prompt},
                              {"text", generation.text},
                              {"prompt_tokens", generation.prompt_tokens},
                              {"tokens", generation.tokens},
                              {"finish_reason", finish_reason_name(generation.finish_reason)}};
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("=== {}: {}\n{}\n", index + 1, generation.prompt, generation.text);
  }
}

// In the order of the prompts, each as soon as it and those before it are done.
void GenerationSession::print_finished() {
  while (!streaming() && next_to_print_ < generations_.size() &&
         generations_[next_to_print_].finish_reason != FinishReason::kNone) {
    print_generation(next_to_print_++);
  }
}

// After an interrupt: what has come of prompts that are not done. Those that have nothing yet are
// left out.
void GenerationSession::print_rest() {
  if (streaming()) {
    fmt::print("{}\n", generations_[0].decoder.flush());
    return;
  }
  for (; next_to_print_ < generations_.size(); ++next_to_print_) {
    Generation& generation = generations_[next_to_print_];
    if (generation.tokens.empty()) {
      continue;
    }
    generation.text += generation.decoder.flush();
    if (generation.finish_reason == FinishReason::kNone) {
      generation.finish_reason = FinishReason::kAborted;
    }
    print_generation(next_to_print_);
  }
  if (shows_progress_) {
    fmt::print(stderr, "\r\033[K");
  }
}

void GenerationSession::print_progress() {
  if (options_.quiet || streaming() || isatty(STDERR_FILENO) == 0 ||
      seconds_since(last_progress_) < 0.2) {
    return;
  }
  last_progress_ = Clock::now();
  shows_progress_ = true;
  fmt::print(stderr, "\r\033[K{}/{} prompts done, {} tokens, {:.0f} tokens/s", num_finished_,
             generations_.size(), num_tokens_,
             static_cast<double>(num_tokens_) / seconds_since(start_));
}

void GenerationSession::print_statistics() const {
  size_t prompt_tokens = 0;
  for (const Generation& generation : generations_) {
    prompt_tokens += generation.prompt_tokens;
  }
  fmt::print(stderr, "prompt: {} tokens; ", prompt_tokens);
  if (num_tokens_ == 0) {
    fmt::print(stderr, "nothing generated in {:.2f} s\n", seconds_);
    return;
  }
  fmt::print(stderr, "time to first token: {:.1f} ms; generated: {} tokens in {:.2f} s",
             first_token_seconds_ * 1e3, num_tokens_, seconds_);
  if (num_tokens_ > 1 && last_token_seconds_ > first_token_seconds_) {
    fmt::print(stderr, "; {:.1f} tokens/s after the first",
               static_cast<double>(num_tokens_ - 1) / (last_token_seconds_ - first_token_seconds_));
  }
  fmt::print(stderr, "\n");
  if (num_finished_ < generations_.size()) {
    fmt::print(stderr, "{} of {} prompts were done\n", num_finished_, generations_.size());
  }
  if (const int64_t preemptions = engine_.stats().num_preemptions; preemptions > 0) {
    fmt::print(stderr, "preemptions: {} (the cache has {} blocks; more avoid them)\n", preemptions,
               engine_.options().num_blocks);
  }
}

}  // namespace paceline::cli
