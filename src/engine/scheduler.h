// Which tokens run in the next step: continuous batching with chunked prefill under a token budget,
// and preemption by recompute when the cache is full. Host-side only; knows nothing of devices.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/request.h"
#include "kv/block_allocator.h"

namespace paceline {

struct SchedulerOptions {
  int max_num_seqs = 8;
  int max_num_batched_tokens = 512;
  int64_t max_model_len = 2048;
  int block_size = 16;
  int64_t num_blocks = 0;
  int reorder_batch_threshold = 1;
};

// Tokens [num_computed, num_computed + num_tokens) of a request.
struct ScheduledRow {
  RequestPtr request;
  int64_t num_computed;
  int32_t num_tokens;
  bool samples;  // the row ends at the request's last token, so its logits give the next one
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);

  // kInvalidArgument for an empty prompt, one that leaves no room for a token in max_model_len, or
  // a request that could not run even alone in the cache.
  Status add(const RequestPtr& request);

  // The next step's rows, ordered decode, extend, prefill; empty when nothing can run now. Rows are
  // accounted as launched: num_computed and in_flight advance.
  std::vector<ScheduledRow> schedule();

  // One in-flight token of `request` has arrived. Tokens of finished requests are dropped; a
  // negative one (no valid logits) ends the request with kError. Returns whether the token counts.
  bool collect(Request& request, int32_t token, bool is_end);

  // Ends a request wherever it is; false when it is not known or has ended.
  bool abort(uint64_t id);

  bool has_unfinished() const { return !running_.empty() || !waiting_.empty(); }
  int64_t num_free_blocks() const { return allocator_.num_free(); }
  int64_t num_preemptions() const { return num_preemptions_; }

 private:
  bool has_more_to_run(const Request& request) const;
  bool reserve_blocks(Request& request, int64_t num_tokens);
  void preempt_last();
  void release(Request& request);
  void finish(Request& request, FinishReason reason);
  ScheduledRow launch(const RequestPtr& request, int64_t num_tokens);
  void schedule_running(int64_t& budget, std::vector<ScheduledRow>& rows, bool& preempted);
  void schedule_waiting(int64_t& budget, std::vector<ScheduledRow>& rows);
  void order(std::vector<ScheduledRow>& rows) const;

  SchedulerOptions options_;
  BlockAllocator allocator_;
  std::vector<int32_t> free_slots_;
  std::vector<RequestPtr> running_;  // oldest first: the last is preempted first
  std::deque<RequestPtr> waiting_;
  int64_t num_preemptions_ = 0;
};

}  // namespace paceline
