// paceline generate: continues one prompt, streaming, or many, batched.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/status_macros.h"
#include "cli.h"
#include "engine/engine.h"
#include "model/gguf_tokenizer.h"
#include "model/stream_decoder.h"

namespace paceline::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct GenerateOptions {
  std::string model;
  std::vector<std::string> prompts;
  std::string prompts_file;
  SamplingParams sampling;
  EngineOptions engine;
  std::string kv_cache_dtype = "float16";
  std::string kv_cache_layout = "NHD";
  double kv_cache_gib = 1.0;
  int threads = 0;
  bool no_graphs = false;
  bool plain_text = false;
  bool json = false;
  bool quiet = false;
};

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

std::atomic<bool> interrupted{false};

// The first Ctrl-C ends the generation cleanly. One that comes a second later ends the program; an
// echo of the first, as wrappers like timeout send it, does not. Calls nothing but what a signal
// handler may.
void on_interrupt(int signal) {
  static std::atomic<int64_t> first_second{0};
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t none = 0;
  if (!first_second.compare_exchange_strong(none, now.tv_sec) && now.tv_sec > none + 1) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  interrupted.store(true);
}

Result<std::vector<std::string>> read_prompts(const GenerateOptions& options) {
  std::vector<std::string> prompts = options.prompts;
  if (options.prompts_file.empty()) {
    return prompts;
  }
  std::ifstream file;
  if (options.prompts_file != "-") {
    file.open(options.prompts_file);
    if (!file || file.peek() == std::ifstream::traits_type::eof()) {
      return invalid_argument("'{}': no such file, not readable, or empty", options.prompts_file);
    }
  }
  std::istream& in = options.prompts_file == "-" ? std::cin : file;
  for (std::string line; std::getline(in, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      prompts.push_back(line);
    }
  }
  if (prompts.empty()) {
    return invalid_argument("'{}' holds no prompt: every line is blank", options.prompts_file);
  }
  return prompts;
}

// Runs the engine until all prompts are done, and shows what comes out.
class Session {
 public:
  Session(const GenerateOptions& options, const Tokenizer& tokenizer, Engine& engine)
      : options_(options), tokenizer_(tokenizer), engine_(engine) {}

  Status add(const std::vector<std::string>& prompts) {
    for (size_t i = 0; i < prompts.size(); ++i) {
      generations_.emplace_back(tokenizer_);
      generations_.back().prompt = prompts[i];
      PACELINE_ASSIGN_OR_RETURN(
          std::vector<int32_t> ids,
          tokenizer_.encode(prompts[i], {.parse_special = !options_.plain_text}));
      generations_.back().prompt_tokens = ids.size();
      const auto id = engine_.add_request(std::move(ids), options_.sampling);
      if (!id.ok()) {
        return {id.status().code(),
                prompts.size() == 1 ? id.status().message()
                                    : fmt::format("prompt {}: {}", i + 1, id.status().message())};
      }
      first_id_ = i == 0 ? *id : first_id_;
    }
    return {};
  }

  Status run() {
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
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      return internal_error("the output could not be written: {}", std::strerror(errno));
    }
    return {};
  }

  void print_statistics() const {
    size_t prompt_tokens = 0;
    for (const Generation& generation : generations_) {
      prompt_tokens += generation.prompt_tokens;
    }
    if (num_tokens_ == 0) {
      fmt::print(stderr, "prompt: {} tokens; nothing generated in {:.2f} s\n", prompt_tokens,
                 seconds_);
      return;
    }
    fmt::print(
        stderr,
        "prompt: {} tokens; time to first token: {:.1f} ms; generated: {} tokens in {:.2f} s",
        prompt_tokens, first_token_seconds_ * 1e3, num_tokens_, seconds_);
    if (num_tokens_ > 1 && last_token_seconds_ > first_token_seconds_) {
      fmt::print(
          stderr, "; {:.1f} tokens/s after the first",
          static_cast<double>(num_tokens_ - 1) / (last_token_seconds_ - first_token_seconds_));
    }
    fmt::print(stderr, "\n");
    if (const int64_t preemptions = engine_.stats().num_preemptions; preemptions > 0) {
      fmt::print(stderr, "preemptions: {} (the cache has {} blocks; more avoid them)\n",
                 preemptions, engine_.options().num_blocks);
    }
  }

 private:
  bool streaming() const { return generations_.size() == 1 && !options_.json; }

  void take(const TokenEvent& event) {
    Generation& generation = generations_[event.request_id - first_id_];
    last_token_seconds_ = seconds_since(start_);
    if (num_tokens_++ == 0) {
      first_token_seconds_ = last_token_seconds_;
    }
    generation.finish_reason = event.finish_reason;
    generation.tokens.push_back(event.token);
    std::string piece = generation.decoder.push(event.token);
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

  void print_generation(size_t index) const {
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
  void print_finished() {
    while (!streaming() && next_to_print_ < generations_.size() &&
           generations_[next_to_print_].finish_reason != FinishReason::kNone) {
      print_generation(next_to_print_++);
    }
  }

  void print_rest() {
    if (streaming()) {
      fmt::print("{}\n", generations_[0].decoder.flush());
      return;
    }
    for (; next_to_print_ < generations_.size(); ++next_to_print_) {  // after Ctrl-C
      Generation& generation = generations_[next_to_print_];
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

  void print_progress() {
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

  const GenerateOptions& options_;
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

Result<EngineOptions> engine_options(const GenerateOptions& options, size_t num_prompts) {
  EngineOptions engine = options.engine;
  PACELINE_ASSIGN_OR_RETURN(engine.kv_cache_dtype, parse_dtype(options.kv_cache_dtype));
  PACELINE_ASSIGN_OR_RETURN(engine.kv_cache_layout, parse_kv_cache_layout(options.kv_cache_layout));
  engine.kv_cache_bytes = static_cast<int64_t>(options.kv_cache_gib * 1024.0 * 1024.0 * 1024.0);
  engine.max_num_seqs =
      std::min(engine.max_num_seqs, static_cast<int>(std::min<size_t>(num_prompts, 65536)));
  engine.use_graphs = !options.no_graphs;
  return engine;
}

Status run_generate(const GenerateOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> prompts, read_prompts(options));
  if (prompts.empty()) {
    return invalid_argument("no prompt: give --prompt TEXT or --prompts-file FILE");
  }
  PACELINE_ASSIGN_OR_RETURN(const EngineOptions engine_opts,
                            engine_options(options, prompts.size()));
  const Clock::time_point start = Clock::now();
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> gguf, GgufFile::open(options.model));
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, load_tokenizer(*gguf));
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                            create_device("cpu", {.num_threads = options.threads}));
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                            Engine::create(*device, *gguf, engine_opts, tokenizer->end_tokens()));
  if (!options.quiet) {
    fmt::print(stderr,
               "{}: loaded in {:.2f} s on {}; context {} tokens, {} cache blocks of {}; {}\n",
               options.model, seconds_since(start), device->info().name,
               engine->options().max_model_len, engine->options().num_blocks,
               engine->options().block_size, engine->attention().kernel_names());
  }
  Session session(options, *tokenizer, *engine);
  PACELINE_RETURN_IF_ERROR(session.add(prompts));
  std::signal(SIGINT, on_interrupt);
  PACELINE_RETURN_IF_ERROR(session.run());
  if (!options.quiet) {
    session.print_statistics();
  }
  return {};
}

int generate(const GenerateOptions& options) {
  if (const Status status = run_generate(options); !status.ok()) {
    return report(status);
  }
  if (interrupted.load()) {
    fmt::print(stderr, "paceline: interrupted\n");
    return kInterrupted;
  }
  return kSuccess;
}

void add_sampling_options(CLI::App& app, GenerateOptions& o) {
  const std::string group = "Sampling";
  app.add_option("-n,--max-tokens", o.sampling.max_tokens, "Most tokens to generate for a prompt")
      ->default_val(128)
      ->check(number_between(1, 1U << 31))
      ->group(group);
  app.add_option("--temperature", o.sampling.temperature, "0 takes the likeliest token (greedy)")
      ->capture_default_str()
      ->check(number_between(0, 1e6))
      ->group(group);
  app.add_option("--top-p", o.sampling.top_p,
                 "Sample from the likeliest tokens that together hold this share")
      ->capture_default_str()
      ->check(number_between(1e-9, 1))
      ->group(group);
  app.add_option("--seed", o.sampling.seed, "The same seed gives the same text, in any batch")
      ->capture_default_str()
      ->check(number_between(0, 1.8e19))
      ->group(group);
  app.add_flag("--ignore-eos", o.sampling.ignore_eos, "Go on after an end-of-text token")
      ->group(group);
}

void add_engine_options(CLI::App& app, GenerateOptions& o) {
  const std::string group = "Engine";
  app.add_option("-t,--threads", o.threads, "Threads of the CPU device; 0: one for each processor")
      ->capture_default_str()
      ->check(number_between(0, 1024))
      ->group(group);
  app.add_option("--max-num-seqs", o.engine.max_num_seqs, "Most prompts that run at once")
      ->capture_default_str()
      ->check(number_between(1, 65536))
      ->group(group);
  app.add_option("--max-num-batched-tokens", o.engine.max_num_batched_tokens,
                 "Most tokens of a step; longer prompts are taken in chunks")
      ->capture_default_str()
      ->check(number_between(1, 1 << 20))
      ->group(group);
  app.add_option("--max-model-len", o.engine.max_model_len,
                 "Most tokens of a prompt and its continuation; the model's context when not given")
      ->check(number_between(2, 1U << 31))
      ->group(group);
  app.add_option("--block-size", o.engine.block_size, "Tokens of a KV cache block")
      ->capture_default_str()
      ->check(number_between(1, 4096))
      ->group(group);
  app.add_option("--kv-cache-memory", o.kv_cache_gib, "Memory of the KV cache, in GiB")
      ->capture_default_str()
      ->check(number_between(1e-6, 1e6))
      ->group(group);
  app.add_option("--num-blocks", o.engine.num_blocks,
                 "Blocks of the KV cache; instead of --kv-cache-memory")
      ->check(number_between(1, 1U << 31))
      ->group(group);
  app.add_option("--kv-cache-dtype", o.kv_cache_dtype, "Type of the cached keys and values")
      ->capture_default_str()
      ->check(CLI::IsMember({"float32", "float16", "bfloat16", "fp8_e4m3"}))
      ->group(group);
  app.add_option("--kv-cache-layout", o.kv_cache_layout, "Order of the cache's elements")
      ->capture_default_str()
      ->check(CLI::IsMember({"NHD", "SHUFFLE"}))
      ->group(group);
  app.add_option("--attention-kernel", o.engine.attention_kernel,
                 "Use this kernel instead of the fastest, e.g. ref")
      ->group(group);
  app.add_flag("--no-graphs", o.no_graphs, "Launch every decode step anew instead of as a graph")
      ->group(group);
}

}  // namespace

Run add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  GenerateOptions& o = *options;
  app.add_option("-m,--model", o.model, "Model file (GGUF)")->required();
  app.add_option("-p,--prompt", o.prompts, "A prompt; may be given several times")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("-f,--prompts-file", o.prompts_file,
                 "A file with a prompt on each line; - for standard input");
  app.add_flag("--plain-text", o.plain_text,
               "Take control tokens written in a prompt, like <|im_start|>, as ordinary text");
  app.add_flag("--json", o.json, "Print a JSON object for each prompt, one a line");
  app.add_flag("-q,--quiet", o.quiet, "No progress and no statistics on stderr");
  add_sampling_options(app, o);
  add_engine_options(app, o);
  app.footer(
      "Text goes to stdout, all else to stderr. Exit codes: 0 done, 1 failed, 2 bad input, 130 "
      "interrupted.");
  return [options] { return generate(*options); };
}

}  // namespace paceline::cli
