#include "engine/engine.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "attention/dispatch.h"
#include "attention/split_plan.h"
#include "base/errors.h"
#include "base/status_macros.h"

namespace paceline {
namespace {

template <typename T>
Status check_range(const char* name, T value, T min, T max) {
  if (value < min || value > max) {
    return invalid_argument("{} is {}; {} to {} are possible", name, value, min, max);
  }
  return {};
}

// How many blocks the cache gets, and with them the longest request when that was left open.
Status complete_cache_size(const ModelConfig& model, size_t device_bytes, EngineOptions& options) {
  const bool any_length = options.max_model_len == 0;
  if (any_length) {
    options.max_model_len = model.max_position;
  }
  const int64_t block_bytes =
      kv_bytes_per_token(model, options.kv_cache_dtype) * options.block_size;
  const int64_t blocks_per_seq = ceil_div(options.max_model_len, options.block_size);
  if (options.num_blocks == 0) {
    options.num_blocks = std::min(options.kv_cache_memory_bytes / block_bytes,
                                  options.max_num_seqs * blocks_per_seq);
  }
  const int64_t tokens = options.num_blocks * options.block_size;
  if (tokens < (any_length ? 2 : options.max_model_len)) {
    return invalid_argument(
        "a KV cache of {} blocks of {} tokens is too small: one request of {} tokens needs {} "
        "blocks, {} bytes",
        options.num_blocks, options.block_size, options.max_model_len, blocks_per_seq,
        blocks_per_seq * block_bytes);
  }
  if (options.num_blocks > static_cast<int64_t>(device_bytes) / block_bytes) {
    return invalid_argument(
        "a KV cache of {} blocks of {} bytes is too large: the device has {} bytes of memory",
        options.num_blocks, block_bytes, device_bytes);
  }
  options.max_model_len = std::min(options.max_model_len, tokens);
  return {};
}

// Fills in what was left to default, and refuses what makes no sense.
Status complete_options(const ModelConfig& model, size_t device_bytes, EngineOptions& options) {
  PACELINE_RETURN_IF_ERROR(check_range("max_num_seqs", options.max_num_seqs, 1, 65536));
  PACELINE_RETURN_IF_ERROR(
      check_range("max_num_batched_tokens", options.max_num_batched_tokens, 1, 1 << 20));
  PACELINE_RETURN_IF_ERROR(check_range("block_size", options.block_size, 1, 4096));
  if (options.max_model_len != 0) {
    PACELINE_RETURN_IF_ERROR(
        check_range<int64_t>("max_model_len", options.max_model_len, 2, model.max_position));
  }
  if (options.num_blocks != 0) {
    PACELINE_RETURN_IF_ERROR(check_range<int64_t>("num_blocks", options.num_blocks, 1, INT32_MAX));
  } else if (options.kv_cache_memory_bytes <= 0) {
    return invalid_argument("kv_cache_memory_bytes is {}; it must be positive",
                            options.kv_cache_memory_bytes);
  }
  PACELINE_RETURN_IF_ERROR(complete_cache_size(model, device_bytes, options));
  // No step can have more tokens than all requests together.
  options.max_num_batched_tokens = static_cast<int>(std::min<int64_t>(
      options.max_num_batched_tokens, options.max_num_seqs * options.max_model_len));
  return {};
}

AttentionSpec attention_spec(const ModelConfig& model, const EngineOptions& options) {
  AttentionSpec spec;
  spec.num_heads = model.num_heads;
  spec.num_kv_heads = model.num_kv_heads;
  spec.head_size = model.head_size;
  spec.kv_cache_dtype = options.kv_cache_dtype;
  spec.kv_cache_layout = options.kv_cache_layout;
  spec.block_size = options.block_size;
  spec.kernel = options.attention_kernel;
  return spec;
}

StepKind kind_of(const std::vector<ScheduledRow>& rows, int threshold) {
  const auto all = [&](const auto& predicate) {
    return std::all_of(rows.begin(), rows.end(), predicate);
  };
  if (all([&](const ScheduledRow& r) {
        return r.num_computed > 0 && r.num_tokens <= threshold && r.samples;
      })) {
    return StepKind::kDecode;
  }
  return all([](const ScheduledRow& r) { return r.num_computed == 0; }) ? StepKind::kPrefill
                                                                        : StepKind::kMixed;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(Device& device, const GgufFile& gguf,
                                               const EngineOptions& options,
                                               std::vector<int32_t> end_tokens) {
  PACELINE_ASSIGN_OR_RETURN(const ModelConfig config, LlamaModel::check(gguf));
  EngineOptions complete = options;
  PACELINE_RETURN_IF_ERROR(complete_options(config, device.info().memory_bytes, complete));
  SchedulerOptions scheduler;
  scheduler.max_num_seqs = complete.max_num_seqs;
  scheduler.max_num_batched_tokens = complete.max_num_batched_tokens;
  scheduler.max_model_len = complete.max_model_len;
  scheduler.block_size = complete.block_size;
  scheduler.num_blocks = complete.num_blocks;
  std::unique_ptr<Engine> engine(new Engine(device, complete, scheduler, std::move(end_tokens)));
  PACELINE_RETURN_IF_ERROR(engine->allocate(gguf, scheduler));
  return engine;
}

Status Engine::check(DeviceKind device, const GgufFile& gguf) {
  PACELINE_ASSIGN_OR_RETURN(const ModelConfig config, LlamaModel::check(gguf));
  const std::vector<std::string> reasons =
      AttentionBackend::why_not(device, attention_spec(config, {}));
  return reasons.empty() ? Status() : unsupported("{}: {}", gguf.name(), fmt::join(reasons, "; "));
}

Engine::Engine(Device& device, const EngineOptions& options, const SchedulerOptions& scheduler,
               std::vector<int32_t> end_tokens)
    : device_(device),
      options_(options),
      end_tokens_(std::move(end_tokens)),
      scheduler_(scheduler) {}

Engine::~Engine() = default;

Status Engine::allocate(const GgufFile& gguf, const SchedulerOptions& scheduler) {
  ModelLimits limits;
  limits.max_num_batched_tokens = options_.max_num_batched_tokens;
  limits.max_num_logits = options_.max_num_seqs;
  limits.max_model_len = options_.max_model_len;
  PACELINE_ASSIGN_OR_RETURN(model_, LlamaModel::load(device_, gguf, limits));
  PACELINE_ASSIGN_OR_RETURN(ops_, Ops::create(device_));
  PACELINE_RETURN_IF_ERROR(allocate_caches());
  PACELINE_ASSIGN_OR_RETURN(inputs_, StepInputs::create(device_, scheduler));
  const auto allocate_tokens = [&](Buffer& buffer, int64_t count, MemoryKind kind) -> Status {
    PACELINE_ASSIGN_OR_RETURN(buffer,
                              device_.allocate(static_cast<size_t>(count) * sizeof(int32_t), kind));
    return {};
  };
  PACELINE_RETURN_IF_ERROR(
      allocate_tokens(ids_, options_.max_num_batched_tokens, MemoryKind::kDevice));
  PACELINE_RETURN_IF_ERROR(allocate_tokens(tokens_, options_.max_num_seqs, MemoryKind::kDevice));
  PACELINE_RETURN_IF_ERROR(
      allocate_tokens(results_, int64_t{StepInputs::kStagingSlots} * options_.max_num_seqs,
                      MemoryKind::kPinnedHost));
  for (auto& graphs : decode_graphs_) {
    graphs.resize(static_cast<size_t>(options_.max_num_seqs) + 1);
  }
  PACELINE_ASSIGN_OR_RETURN(done_, device_.create_timeline());
  PACELINE_ASSIGN_OR_RETURN(stream_, device_.create_stream());
  return {};
}

Status Engine::allocate_caches() {
  const ModelConfig& model = model_->config();
  const AttentionSpec spec = attention_spec(model, options_);
  AttentionLimits limits;
  limits.max_num_seqs = options_.max_num_seqs;
  limits.max_num_batched_tokens = options_.max_num_batched_tokens;
  limits.max_model_len = options_.max_model_len;
  limits.max_kv_tokens = options_.num_blocks * options_.block_size;
  PACELINE_ASSIGN_OR_RETURN(attention_, AttentionBackend::create(device_, spec, limits));
  const KVCacheShape shape = cache_shape(spec, options_.num_blocks);
  for (int layer = 0; layer < model.num_layers; ++layer) {
    PACELINE_ASSIGN_OR_RETURN(Buffer key, device_.allocate(static_cast<size_t>(shape.key_bytes())));
    PACELINE_ASSIGN_OR_RETURN(Buffer value,
                              device_.allocate(static_cast<size_t>(shape.value_bytes())));
    PACELINE_ASSIGN_OR_RETURN(const KVCacheView view,
                              make_kv_cache_view(shape, key.data(), value.data()));
    caches_.push_back(view);
    cache_memory_.push_back(std::move(key));
    cache_memory_.push_back(std::move(value));
  }
  return {};
}

Result<uint64_t> Engine::add_request(std::vector<int32_t> prompt, const SamplingParams& sampling) {
  if (!(sampling.temperature >= 0.0F && sampling.temperature <= 1e6F)) {
    return invalid_argument("temperature is {}; 0 (greedy) and above are possible",
                            sampling.temperature);
  }
  if (!(sampling.top_p > 0.0F && sampling.top_p <= 1.0F)) {
    return invalid_argument("top_p is {}; above 0 and up to 1 is possible", sampling.top_p);
  }
  if (sampling.max_tokens <= 0) {
    return invalid_argument("max_tokens is {}; it must be positive", sampling.max_tokens);
  }
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] < 0 || prompt[i] >= model_->config().vocab_size) {
      return invalid_argument("prompt token {} is {}; the vocabulary has {} tokens", i, prompt[i],
                              model_->config().vocab_size);
    }
  }
  auto request = std::make_shared<Request>();
  request->id = next_id_;
  request->prompt = std::move(prompt);
  request->sampling = sampling;
  PACELINE_RETURN_IF_ERROR(scheduler_.add(request));
  return next_id_++;
}

bool Engine::ends(int32_t token) const {
  return std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end();
}

// The launches of one step, the same for every step of a shape: all that changes lies in device
// memory.
Status Engine::run_model(int index, const StepShape& shape) {
  const StepArrays& arrays = inputs_.device();
  PACELINE_ASSIGN_OR_RETURN(const AttentionMetadata metadata,
                            attention_->build(*stream_, inputs_.attention_batch(index, shape)));
  PACELINE_RETURN_IF_ERROR(ops_->resolve_ids(*stream_, arrays.token_sources, tokens_.as<int32_t>(),
                                             shape.num_tokens, ids_.as<int32_t>()));
  ModelInput input;
  input.ids = ids_.as<int32_t>();
  input.positions = arrays.positions;
  input.slot_mapping = inputs_.slot_mapping(shape);
  input.num_tokens = shape.num_tokens;
  input.logits_indices = arrays.logits_indices;
  input.num_logits = shape.num_logits;
  PACELINE_RETURN_IF_ERROR(model_->forward(*stream_, input, *attention_, metadata, caches_));
  if (shape.num_logits == 0) {
    return {};
  }
  SampleParams sample;
  sample.logits = model_->logits();
  sample.vocab = model_->config().vocab_size;
  sample.rows = arrays.sampling;
  sample.n = shape.num_logits;
  sample.tokens = tokens_.as<int32_t>();
  sample.results = results(index);
  return ops_->sample(*stream_, sample);
}

Status Engine::run_decode_graph(int index, const StepShape& shape) {
  std::shared_ptr<Graph>& graph =
      decode_graphs_[static_cast<size_t>(index)][static_cast<size_t>(shape.num_reqs)];
  if (graph == nullptr) {
    PACELINE_RETURN_IF_ERROR(stream_->begin_capture());
    const Status status = run_model(index, shape);
    PACELINE_ASSIGN_OR_RETURN(std::shared_ptr<Graph> captured, stream_->end_capture());
    PACELINE_RETURN_IF_ERROR(status);
    graph = std::move(captured);
  }
  return stream_->launch(graph);
}

Status Engine::launch(const std::vector<ScheduledRow>& rows, StepKind kind) {
  const uint64_t number = next_step_++;
  const int index = static_cast<int>(number % StepInputs::kStagingSlots);
  PACELINE_ASSIGN_OR_RETURN(const StepShape shape, inputs_.upload(*stream_, index, rows));
  PACELINE_RETURN_IF_ERROR(kind == StepKind::kDecode && options_.use_graphs
                               ? run_decode_graph(index, shape)
                               : run_model(index, shape));
  PACELINE_RETURN_IF_ERROR(stream_->signal(*done_, number));
  InFlight step{number, {}};
  for (const ScheduledRow& row : rows) {
    if (row.samples) {
      step.sampled.push_back(row.request);
    }
  }
  in_flight_.push_back(std::move(step));
  return {};
}

void Engine::collect_oldest(std::vector<TokenEvent>& events) {
  const InFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  done_->wait(step.number);
  const int32_t* tokens = results(static_cast<int>(step.number % StepInputs::kStagingSlots));
  for (size_t i = 0; i < step.sampled.size(); ++i) {
    Request& request = *step.sampled[i];
    if (scheduler_.collect(request, tokens[i], ends(tokens[i]))) {
      events.push_back({request.id, tokens[i], request.finished});
    }
  }
}

Result<std::vector<TokenEvent>> Engine::step() {
  const DeviceCounters before = device_.counters();
  const std::vector<ScheduledRow> rows = scheduler_.schedule();
  if (!rows.empty()) {
    const StepKind kind = kind_of(rows, attention_->spec().reorder_batch_threshold);
    PACELINE_RETURN_IF_ERROR(launch(rows, kind));
    ++stats_.steps[static_cast<size_t>(kind)];
    stats_.launch_path[static_cast<size_t>(kind)] += device_.counters() - before;
  }
  // The step just launched runs while the one before it is collected.
  std::vector<TokenEvent> events;
  if (in_flight_.size() > (rows.empty() ? 0U : 1U)) {
    collect_oldest(events);
  }
  return events;
}

EngineStats Engine::stats() const {
  EngineStats stats = stats_;
  stats.num_preemptions = scheduler_.num_preemptions();
  return stats;
}

}  // namespace paceline
