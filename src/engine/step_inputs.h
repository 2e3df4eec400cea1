// One step's inputs: filled by the host in pinned memory, taken to the device by two copies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler.h"
#include "ops/ops.h"
#include "paceline/attention.h"
#include "paceline/device.h"

namespace paceline {

// Pointers into one block of memory, host or device: the same layout on both sides.
struct StepArrays {
  int64_t* slot_mapping;   // [max tokens]
  SamplingRow* sampling;   // [max seqs]
  int32_t* token_sources;  // [max tokens]: a token, or -1 - slot of one that is only on the device
  int32_t* positions;      // [max tokens]
  int32_t* query_start_loc;  // [max seqs + 1]
  int32_t* seq_lens;         // [max seqs]
  int32_t* logits_indices;   // [max seqs]
  int32_t* block_table;      // [max seqs, blocks_per_seq], last: only its used rows are copied
};

struct StepShape {
  int num_reqs = 0;
  int num_tokens = 0;
  int num_logits = 0;
  int max_query_len = 0;
};

class StepInputs {
 public:
  static constexpr int kStagingSlots = 2;  // the step that runs, and the one being launched

  static Result<StepInputs> create(Device& device, const SchedulerOptions& options);

  // Fills staging slot `index` for the rows and enqueues the copies. The slot's earlier step must
  // be done.
  Result<StepShape> upload(Stream& stream, int index, const std::vector<ScheduledRow>& rows);

  const StepArrays& device() const { return device_arrays_; }
  CommonAttentionMetadata attention_batch(int index, const StepShape& shape) const;
  TensorView slot_mapping(const StepShape& shape) const;

 private:
  StepArrays carve(void* memory) const;
  void fill_row(const StepArrays& arrays, const ScheduledRow& row, int req, StepShape& shape) const;

  SchedulerOptions options_;
  int64_t blocks_per_seq_ = 0;
  size_t small_bytes_ = 0;  // everything before the block table
  Buffer device_memory_;
  std::vector<Buffer> staging_;
  StepArrays device_arrays_{};
};

}  // namespace paceline
