// paceline generate: continues one prompt, streaming, or many, batched.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <memory>

#include "base/errors.h"
#include "base/status_macros.h"
#include "cli.h"
#include "engine/engine.h"
#include "generation_session.h"
#include "model/gguf_tokenizer.h"
#include "prompts.h"

namespace paceline::cli {
namespace {

struct GenerateOptions {
  std::string model;
  std::vector<std::string> prompts;
  std::optional<std::string> prompts_file;
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

std::atomic<bool> generating{false};
std::atomic<bool> interrupted{false};

// While the model loads, Ctrl-C ends the program at once. Later the first one ends the generation
// cleanly, and one that comes a second later ends the program; an echo of the first, as wrappers
// like timeout send it, does not. Calls nothing but what a signal handler may.
void on_interrupt(int signal) {
  static std::atomic<int64_t> first_second{0};
  if (!generating.load()) {
    constexpr std::string_view kMessage = "paceline: interrupted while loading\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
    _exit(kInterrupted);
  }
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t none = 0;
  if (!first_second.compare_exchange_strong(none, now.tv_sec) && now.tv_sec > none + 1) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  interrupted.store(true);
}

Result<EngineOptions> engine_options(const GenerateOptions& options, size_t num_prompts) {
  EngineOptions engine = options.engine;
  PACELINE_ASSIGN_OR_RETURN(engine.kv_cache_dtype, parse_dtype(options.kv_cache_dtype));
  PACELINE_ASSIGN_OR_RETURN(engine.kv_cache_layout, parse_kv_cache_layout(options.kv_cache_layout));
  engine.kv_cache_memory_bytes =
      static_cast<int64_t>(options.kv_cache_gib * 1024.0 * 1024.0 * 1024.0);
  engine.max_num_seqs =
      std::min(engine.max_num_seqs, static_cast<int>(std::min<size_t>(num_prompts, 65536)));
  engine.use_graphs = !options.no_graphs;
  return engine;
}

Status run_generate(const GenerateOptions& options) {
  std::signal(SIGINT, on_interrupt);
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Prompt> prompts,
                            read_prompts(options.prompts, options.prompts_file));
  PACELINE_ASSIGN_OR_RETURN(const EngineOptions engine_opts,
                            engine_options(options, prompts.size()));
  const auto start = std::chrono::steady_clock::now();
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> gguf, GgufFile::open(options.model));
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, load_tokenizer(*gguf));
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                            create_device("cpu", {.num_threads = options.threads}));
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                            Engine::create(*device, *gguf, engine_opts, tokenizer->end_tokens()));
  if (!options.quiet) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    fmt::print(stderr,
               "{}: loaded in {:.2f} s on {}; context {} tokens, {} cache blocks of {}; {}\n",
               options.model, seconds.count(), device->info().name, engine->options().max_model_len,
               engine->options().num_blocks, engine->options().block_size,
               engine->attention().kernel_names());
  }
  GenerationSession session(
      {.parse_special = !options.plain_text, .json = options.json, .quiet = options.quiet},
      *tokenizer, *engine);
  PACELINE_RETURN_IF_ERROR(session.add(prompts, options.sampling));
  generating.store(true);
  PACELINE_RETURN_IF_ERROR(session.run(interrupted));
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
      ->check(integer_between(1, INT32_MAX))
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
      ->check(integer_between(0, UINT64_MAX))
      ->group(group);
  app.add_flag("--ignore-eos", o.sampling.ignore_eos, "Go on after an end-of-text token")
      ->group(group);
}

void add_cache_options(CLI::App& app, GenerateOptions& o) {
  const std::string group = "KV cache";
  app.add_option("--block-size", o.engine.block_size, "Tokens of a block")
      ->capture_default_str()
      ->check(integer_between(1, 4096))
      ->group(group);
  CLI::Option* memory = app.add_option("--kv-cache-memory", o.kv_cache_gib, "Memory, in GiB")
                            ->capture_default_str()
                            ->check(number_between(1e-6, 1e6))
                            ->group(group);
  app.add_option("--num-blocks", o.engine.num_blocks, "Blocks; instead of --kv-cache-memory")
      ->check(integer_between(1, INT32_MAX))
      ->excludes(memory)
      ->group(group);
  app.add_option("--kv-cache-dtype", o.kv_cache_dtype,
                 "Type of keys and values: float32, float16, bfloat16 or fp8_e4m3")
      ->capture_default_str()
      ->check(accepted_by(parse_dtype))
      ->group(group);
  app.add_option("--kv-cache-layout", o.kv_cache_layout, "Order of the elements: NHD or SHUFFLE")
      ->capture_default_str()
      ->check(accepted_by(parse_kv_cache_layout))
      ->group(group);
}

void add_engine_options(CLI::App& app, GenerateOptions& o) {
  const std::string group = "Engine";
  app.add_option("-t,--threads", o.threads, "Threads of the CPU device; 0: one for each processor")
      ->capture_default_str()
      ->check(integer_between(0, 1024))
      ->group(group);
  app.add_option("--max-num-seqs", o.engine.max_num_seqs, "Most prompts that run at once")
      ->capture_default_str()
      ->check(integer_between(1, 65536))
      ->group(group);
  app.add_option("--max-num-batched-tokens", o.engine.max_num_batched_tokens,
                 "Most tokens of a step; longer prompts are taken in chunks")
      ->capture_default_str()
      ->check(integer_between(1, 1 << 20))
      ->group(group);
  app.add_option("--max-model-len", o.engine.max_model_len,
                 "Most tokens of a prompt and its continuation; the model's context when not given")
      ->check(integer_between(2, INT32_MAX))
      ->group(group);
  app.add_option("--attention-kernel", o.engine.attention_kernel,
                 "Use this kernel instead of the fastest, e.g. ref")
      ->check(CLI::Validator(
          [](const std::string& name) { return name.empty() ? "a name is needed" : ""; }, "NAME"))
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
  add_cache_options(app, o);
  add_engine_options(app, o);
  app.footer(
      "Text goes to stdout, all else to stderr. Exit codes: 0 done, 1 failed, 2 bad input, 130 "
      "interrupted.");
  return [options] { return generate(*options); };
}

}  // namespace paceline::cli
