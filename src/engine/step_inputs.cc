#include "engine/step_inputs.h"

#include <algorithm>

#include "attention/split_plan.h"
#include "base/status_macros.h"

namespace paceline {
namespace {

// Hands out 64-byte aligned pieces of one block of memory.
class Carver {
 public:
  explicit Carver(void* memory) : memory_(reinterpret_cast<uintptr_t>(memory)) {}

  template <typename T>
  T* take(int64_t count) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): arithmetic on a null pointer would be undefined
    auto* piece = reinterpret_cast<T*>(memory_ + used_);
    used_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
  size_t used() const { return used_; }

 private:
  uintptr_t memory_;  // zero where only sizes are wanted
  size_t used_ = 0;
};

StepArrays take_small(Carver& carver, const SchedulerOptions& options) {
  const int64_t tokens = options.max_num_batched_tokens;
  const int64_t seqs = options.max_num_seqs;
  StepArrays arrays{};
  arrays.slot_mapping = carver.take<int64_t>(tokens);
  arrays.sampling = carver.take<SamplingRow>(seqs);
  arrays.token_sources = carver.take<int32_t>(tokens);
  arrays.positions = carver.take<int32_t>(tokens);
  arrays.query_start_loc = carver.take<int32_t>(seqs + 1);
  arrays.seq_lens = carver.take<int32_t>(seqs);
  arrays.logits_indices = carver.take<int32_t>(seqs);
  return arrays;
}

}  // namespace

StepArrays StepInputs::carve(void* memory) const {
  Carver carver(memory);
  StepArrays arrays = take_small(carver, options_);
  arrays.block_table = carver.take<int32_t>(options_.max_num_seqs * blocks_per_seq_);
  return arrays;
}

Result<StepInputs> StepInputs::create(Device& device, const SchedulerOptions& options) {
  StepInputs inputs;
  inputs.options_ = options;
  inputs.blocks_per_seq_ = ceil_div(options.max_model_len, options.block_size);
  Carver carver(nullptr);
  take_small(carver, options);
  inputs.small_bytes_ = carver.used();
  carver.take<int32_t>(options.max_num_seqs * inputs.blocks_per_seq_);
  PACELINE_ASSIGN_OR_RETURN(inputs.device_memory_, device.allocate(carver.used()));
  for (int i = 0; i < kStagingSlots; ++i) {
    PACELINE_ASSIGN_OR_RETURN(Buffer staging,
                              device.allocate(carver.used(), MemoryKind::kPinnedHost));
    std::fill_n(staging.as<char>(), carver.used(), '\0');
    inputs.staging_.push_back(std::move(staging));
  }
  inputs.device_arrays_ = inputs.carve(inputs.device_memory_.data());
  return inputs;
}

void StepInputs::fill_row(const StepArrays& arrays, const ScheduledRow& row, int req,
                          StepShape& shape) const {
  const Request& request = *row.request;
  for (int64_t i = row.num_computed; i < row.num_computed + row.num_tokens; ++i) {
    const int64_t block = request.blocks[static_cast<size_t>(i / options_.block_size)];
    arrays.slot_mapping[shape.num_tokens] = block * options_.block_size + i % options_.block_size;
    arrays.token_sources[shape.num_tokens] =
        i < request.num_known() ? request.token(i) : -1 - request.slot;
    arrays.positions[shape.num_tokens] = static_cast<int32_t>(i);
    ++shape.num_tokens;
  }
  arrays.query_start_loc[req + 1] = shape.num_tokens;
  arrays.seq_lens[req] = static_cast<int32_t>(row.num_computed) + row.num_tokens;
  std::copy(request.blocks.begin(), request.blocks.end(),
            arrays.block_table + req * blocks_per_seq_);
  shape.max_query_len = std::max(shape.max_query_len, row.num_tokens);
  if (row.samples) {
    SamplingRow& sampling = arrays.sampling[shape.num_logits];
    sampling.temperature = request.sampling.temperature;
    sampling.top_p = request.sampling.top_p;
    sampling.seed = request.sampling.seed;
    sampling.position = row.num_computed + row.num_tokens;
    sampling.logits_row = shape.num_logits;
    sampling.slot = request.slot;
    arrays.logits_indices[shape.num_logits++] = shape.num_tokens - 1;
  }
}

Result<StepShape> StepInputs::upload(Stream& stream, int index,
                                     const std::vector<ScheduledRow>& rows) {
  const Buffer& staging = staging_[static_cast<size_t>(index)];
  const StepArrays arrays = carve(staging.data());
  StepShape shape;
  arrays.query_start_loc[0] = 0;
  for (const ScheduledRow& row : rows) {
    fill_row(arrays, row, shape.num_reqs++, shape);
  }
  PACELINE_RETURN_IF_ERROR(
      stream.copy(device_memory_.data(), staging.data(), small_bytes_, CopyKind::kHostToDevice));
  const auto table_bytes =
      static_cast<size_t>(shape.num_reqs) * static_cast<size_t>(blocks_per_seq_) * sizeof(int32_t);
  PACELINE_RETURN_IF_ERROR(stream.copy(device_arrays_.block_table, arrays.block_table, table_bytes,
                                       CopyKind::kHostToDevice));
  return shape;
}

CommonAttentionMetadata StepInputs::attention_batch(int index, const StepShape& shape) const {
  const StepArrays host = carve(staging_[static_cast<size_t>(index)].data());
  const auto reqs = static_cast<size_t>(shape.num_reqs);
  CommonAttentionMetadata batch;
  batch.num_reqs = shape.num_reqs;
  batch.num_actual_tokens = shape.num_tokens;
  batch.max_query_len = shape.max_query_len;
  batch.query_start_loc_cpu = {host.query_start_loc, reqs + 1};
  batch.seq_lens_cpu_upper_bound = {host.seq_lens, reqs};
  batch.query_start_loc =
      TensorView::contiguous(device_arrays_.query_start_loc, DType::kInt32, {shape.num_reqs + 1});
  batch.seq_lens = TensorView::contiguous(device_arrays_.seq_lens, DType::kInt32, {shape.num_reqs});
  batch.block_table = TensorView::contiguous(device_arrays_.block_table, DType::kInt32,
                                             {shape.num_reqs, blocks_per_seq_});
  return batch;
}

TensorView StepInputs::slot_mapping(const StepShape& shape) const {
  return TensorView::contiguous(device_arrays_.slot_mapping, DType::kInt64, {shape.num_tokens});
}

}  // namespace paceline
