// The inference engine: requests in, tokens out, one step at a time. The only layer that owns time.
//
// A call of step() launches one step and then collects the results of the step before it. The
// device always has the next step queued while the host looks at the last one's tokens; a sampled
// token reaches the next step on the device. Launching never waits for the device, copies nothing
// from it and allocates nothing.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/step_inputs.h"
#include "model/llama.h"
#include "paceline/attention.h"
#include "paceline/device.h"

namespace paceline {

struct EngineOptions {
  int max_num_seqs = 8;              // requests that run at once
  int max_num_batched_tokens = 512;  // tokens of a step: the chunk budget of prefill
  // Tokens of a request. 0: what the model was made for, or less where the cache holds less.
  int64_t max_model_len = 0;
  int block_size = 16;
  // 0: what kv_cache_memory_bytes hold, but no more than all requests can use. It must hold a
  // request of max_model_len where that is given.
  int64_t num_blocks = 0;
  // Of all layers; not read when num_blocks is given.
  int64_t kv_cache_memory_bytes = int64_t{1} << 30;
  DType kv_cache_dtype = DType::kFloat16;
  KVCacheLayout kv_cache_layout = KVCacheLayout::kNHD;
  std::string attention_kernel;  // empty: the fastest
  bool use_graphs = true;        // decode-only steps run as captured graphs
};

// A token that a request got.
struct TokenEvent {
  uint64_t request_id;
  int32_t token;               // negative when finish_reason is kError
  FinishReason finish_reason;  // kNone while the request goes on
};

enum class StepKind : uint8_t { kDecode = 0, kPrefill = 1, kMixed = 2 };
constexpr size_t kNumStepKinds = 3;

struct EngineStats {
  // By StepKind: steps, and what the device layer counted while they were scheduled, built and
  // launched.
  std::array<int64_t, kNumStepKinds> steps{};
  std::array<DeviceCounters, kNumStepKinds> launch_path{};
  int64_t num_preemptions = 0;
};

class Engine {
 public:
  // A token of `end_tokens` ends a request.
  static Result<std::unique_ptr<Engine>> create(Device& device, const GgufFile& gguf,
                                                const EngineOptions& options,
                                                std::vector<int32_t> end_tokens);
  // What create() would refuse of a file with options left to default, without loading it.
  static Status check(DeviceKind device, const GgufFile& gguf);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Queues a request and returns its id. kInvalidArgument for what can never run: see
  // Scheduler::add; also for token ids outside the vocabulary and sampling parameters out of range.
  Result<uint64_t> add_request(std::vector<int32_t> prompt, const SamplingParams& sampling);
  // The request gets no more tokens; false when it is unknown or has ended.
  bool abort(uint64_t id) { return scheduler_.abort(id); }
  bool has_unfinished() const { return scheduler_.has_unfinished(); }

  // Launches one step if anything can run, and returns the tokens of the step before.
  Result<std::vector<TokenEvent>> step();

  const EngineOptions& options() const { return options_; }
  const ModelConfig& model_config() const { return model_->config(); }
  const AttentionBackend& attention() const { return *attention_; }
  const Scheduler& scheduler() const { return scheduler_; }
  EngineStats stats() const;

 private:
  // A launched step whose tokens have not been collected.
  struct InFlight {
    uint64_t number;
    std::vector<RequestPtr> sampled;  // in the order of its results
  };

  Engine(Device& device, const EngineOptions& options, const SchedulerOptions& scheduler,
         std::vector<int32_t> end_tokens);
  Status allocate(const GgufFile& gguf, const SchedulerOptions& scheduler);
  Status allocate_caches();
  Status launch(const std::vector<ScheduledRow>& rows, StepKind kind);
  Status run_model(int index, const StepShape& shape);
  Status run_decode_graph(int index, const StepShape& shape);
  void collect_oldest(std::vector<TokenEvent>& events);
  int32_t* results(int index) {
    return results_.as<int32_t>() + int64_t{index} * options_.max_num_seqs;
  }
  bool ends(int32_t token) const;

  Device& device_;
  EngineOptions options_;
  std::vector<int32_t> end_tokens_;
  Scheduler scheduler_;
  std::unique_ptr<LlamaModel> model_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<AttentionBackend> attention_;
  std::vector<Buffer> cache_memory_;
  std::vector<KVCacheView> caches_;
  StepInputs inputs_;
  Buffer ids_;      // int32 [max_num_batched_tokens]: this step's tokens
  Buffer tokens_;   // int32 [max_num_seqs]: each slot's last sampled token
  Buffer results_;  // pinned int32 [kStagingSlots, max_num_seqs]
  // By staging slot, then by number of requests; captured when first needed.
  std::array<std::vector<std::shared_ptr<Graph>>, StepInputs::kStagingSlots> decode_graphs_;
  uint64_t next_id_ = 1;
  uint64_t next_step_ = 1;
  std::deque<InFlight> in_flight_;
  EngineStats stats_;
  std::unique_ptr<Timeline> done_;  // the number of the newest finished step
  std::unique_ptr<Stream> stream_;  // last: it drains before anything above is freed
};

}  // namespace paceline
