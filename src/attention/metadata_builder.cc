#include "attention/metadata_builder.h"

#include <algorithm>

#include "attention/batch_split.h"
#include "base/errors.h"
#include "base/status_macros.h"

namespace paceline {
namespace {

int64_t max_decode_work(const AttentionLimits& limits) {
  const int64_t by_length = limits.max_num_seqs * ceil_div(limits.max_model_len, kSplitTokens);
  if (limits.max_kv_tokens == 0) {
    return by_length;
  }
  return std::min(by_length, limits.max_kv_tokens / kSplitTokens + limits.max_num_seqs);
}

// Decodes that share a batch cannot have more query tokens than the batch.
int64_t max_partial_slots(const AttentionSpec& spec, int64_t decode_work) {
  return decode_work * spec.reorder_batch_threshold;
}

// Floats of one query head's partial: the maximum, the weight, the outputs.
size_t record_floats(const AttentionSpec& spec) {
  return static_cast<size_t>(cache_shape(spec, 1).value_size()) + 2;
}

bool has_windows(const AttentionSpec& spec) {
  return spec.sliding_window > 0 || spec.attention_chunk_size > 0;
}

// Lays arrays out in one allocation, each aligned to 64 bytes.
struct Carver {
  size_t bytes = 0;

  size_t reserve(int64_t count, size_t size) {
    const size_t offset = bytes;
    bytes += (static_cast<size_t>(count) * size + 63) / 64 * 64;
    return offset;
  }
};

Status check_limits(const AttentionLimits& limits) {
  if (limits.max_num_seqs <= 0 || limits.max_num_batched_tokens <= 0 || limits.max_model_len <= 0 ||
      limits.max_kv_tokens < 0) {
    return invalid_argument(
        "attention limits: max_num_seqs {}, max_num_batched_tokens {}, max_model_len {} must be "
        "positive and max_kv_tokens {} not negative",
        limits.max_num_seqs, limits.max_num_batched_tokens, limits.max_model_len,
        limits.max_kv_tokens);
  }
  if (limits.max_model_len > INT32_MAX) {
    return unsupported("attention limits: max_model_len {} is beyond {}", limits.max_model_len,
                       INT32_MAX);
  }
  return {};
}

Status check_array(const char* name, const TensorView& view, int rank, int64_t rows) {
  if (!view.defined() || view.dtype != DType::kInt32 || view.rank != rank || view.dim(0) < rows ||
      view.stride(rank - 1) != 1) {
    return invalid_argument(
        "{} must be a dense int32 tensor of rank {} with at least {} rows; it is {}", name, rank,
        rows, view.defined() ? view.to_string() : "null");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<MetadataBuilder>> MetadataBuilder::create(Device& device,
                                                                 const AttentionSpec& spec,
                                                                 const AttentionLimits& limits) {
  PACELINE_RETURN_IF_ERROR(check_limits(limits));
  const DeviceKernels* kernels = find_device_kernels(device.kind());
  if (kernels == nullptr) {
    return unsupported("no attention kernels for device {}", device.info().name);
  }
  std::unique_ptr<MetadataBuilder> builder(new MetadataBuilder(spec, limits, *kernels));
  PACELINE_RETURN_IF_ERROR(builder->allocate(device));
  return builder;
}

MetadataBuilder::MetadataBuilder(const AttentionSpec& spec, const AttentionLimits& limits,
                                 const DeviceKernels& kernels)
    : spec_(spec),
      limits_(limits),
      kernels_(kernels),
      tile_tokens_(kernels.tile_tokens(spec)),
      max_decode_work_(max_decode_work(limits)),
      max_tiles_(limits.max_num_batched_tokens / tile_tokens_ + limits.max_num_seqs) {}

Status MetadataBuilder::allocate(Device& device) {
  Carver plan;
  const size_t num_work = plan.reserve(kNumWorkLists, sizeof(int32_t));
  const size_t decodes = plan.reserve(max_decode_work_, sizeof(DecodeWork));
  const size_t windowed =
      plan.reserve(has_windows(spec_) ? max_decode_work_ : 0, sizeof(DecodeWork));
  const size_t first_partial = plan.reserve(limits_.max_num_seqs + 1, sizeof(int32_t));
  const size_t extends = plan.reserve(max_tiles_, sizeof(TileWork));
  const size_t prefills = plan.reserve(max_tiles_, sizeof(TileWork));
  PACELINE_ASSIGN_OR_RETURN(plan_memory_, device.allocate(plan.bytes));
  char* base = plan_memory_.as<char>();
  plan_.num_work = reinterpret_cast<int32_t*>(base + num_work);
  plan_.decodes = reinterpret_cast<DecodeWork*>(base + decodes);
  plan_.windowed = reinterpret_cast<DecodeWork*>(base + windowed);
  plan_.first_partial = reinterpret_cast<int32_t*>(base + first_partial);
  plan_.extends = reinterpret_cast<TileWork*>(base + extends);
  plan_.prefills = reinterpret_cast<TileWork*>(base + prefills);

  const size_t record_bytes =
      static_cast<size_t>(spec_.num_heads) * record_floats(spec_) * sizeof(float);
  PACELINE_ASSIGN_OR_RETURN(
      partials_memory_,
      device.allocate(static_cast<size_t>(max_partial_slots(spec_, max_decode_work_)) *
                      record_bytes));
  const size_t arrival_bytes = static_cast<size_t>(limits_.max_num_seqs) *
                               static_cast<size_t>(spec_.num_kv_heads) * sizeof(int32_t);
  PACELINE_ASSIGN_OR_RETURN(arrivals_memory_, device.allocate(arrival_bytes));
  workspace_ = {partials_memory_.as<float>(), arrivals_memory_.as<int32_t>()};
  if (spec_.extend_strategy == ExtendStrategy::kGather) {
    PACELINE_RETURN_IF_ERROR(allocate_gather(device));
  }
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, device.create_stream());
  PACELINE_RETURN_IF_ERROR(stream->fill(workspace_.arrivals, 0, arrival_bytes));
  return stream->synchronize();
}

Status MetadataBuilder::allocate_gather(Device& device) {
  const KVCacheShape row = cache_shape(spec_, 1);
  const int64_t rows = int64_t{spec_.extend_workspace_tokens} * spec_.num_kv_heads;
  const size_t width = dtype_size(spec_.kv_cache_dtype);
  Carver memory;
  const size_t key = memory.reserve(rows * row.head_size, width);
  const size_t value = memory.reserve(rows * row.value_size(), width);
  const size_t scales = memory.reserve(2 * rows, sizeof(float));
  const size_t running = memory.reserve(int64_t{limits_.max_num_batched_tokens} * spec_.num_heads *
                                            static_cast<int64_t>(record_floats(spec_)),
                                        sizeof(float));
  PACELINE_ASSIGN_OR_RETURN(gather_memory_, device.allocate(memory.bytes));
  char* base = gather_memory_.as<char>();
  gather_ = {base + key, base + value, reinterpret_cast<float*>(base + scales),
             reinterpret_cast<float*>(base + running), spec_.extend_workspace_tokens};
  return {};
}

size_t MetadataBuilder::workspace_bytes() const {
  return plan_memory_.bytes() + partials_memory_.bytes() + arrivals_memory_.bytes() +
         gather_memory_.bytes();
}

Status MetadataBuilder::check_batch(const CommonAttentionMetadata& batch) const {
  const int reqs = batch.num_reqs;
  if (reqs < 0 || batch.num_actual_tokens < 0) {
    return invalid_argument("batch of {} requests and {} tokens", reqs, batch.num_actual_tokens);
  }
  if (reqs > limits_.max_num_seqs || batch.num_actual_tokens > limits_.max_num_batched_tokens) {
    return resource_exhausted(
        "batch of {} requests and {} tokens; the limits are max_num_seqs {} and "
        "max_num_batched_tokens {}",
        reqs, batch.num_actual_tokens, limits_.max_num_seqs, limits_.max_num_batched_tokens);
  }
  const auto n = static_cast<size_t>(reqs);
  if (batch.query_start_loc_cpu.size() != n + 1 || batch.seq_lens_cpu_upper_bound.size() != n) {
    return invalid_argument(
        "batch of {} requests needs query_start_loc_cpu of {} and seq_lens_cpu_upper_bound of {} "
        "entries; they have {} and {}",
        reqs, n + 1, n, batch.query_start_loc_cpu.size(), batch.seq_lens_cpu_upper_bound.size());
  }
  PACELINE_RETURN_IF_ERROR(check_array("query_start_loc", batch.query_start_loc, 1, reqs + 1));
  if (reqs > 0) {
    PACELINE_RETURN_IF_ERROR(check_array("seq_lens", batch.seq_lens, 1, reqs));
    PACELINE_RETURN_IF_ERROR(check_array("block_table", batch.block_table, 2, reqs));
  }
  if (batch.common_prefix_len < 0) {
    return invalid_argument("common_prefix_len is {}; it must not be negative",
                            batch.common_prefix_len);
  }
  return check_lengths(batch);
}

Status MetadataBuilder::check_tree(const CommonAttentionMetadata& batch, int num_decodes) const {
  const TensorView& tree = batch.tree_mask;
  if (!tree.defined()) {
    return {};
  }
  if (!spec_.tree_mask) {
    return invalid_argument("the batch has a tree_mask; the spec did not ask for tree_mask");
  }
  if (tree.dtype != DType::kInt64 || tree.rank != 1 || tree.dim(0) < batch.num_actual_tokens ||
      tree.stride(0) != 1) {
    return invalid_argument(
        "tree_mask must be a dense int64 vector of at least {} tokens; it is {}",
        batch.num_actual_tokens, tree.to_string());
  }
  for (size_t i = 0; i < static_cast<size_t>(num_decodes); ++i) {
    const int32_t query_len = batch.query_start_loc_cpu[i + 1] - batch.query_start_loc_cpu[i];
    if (query_len > 64) {
      return invalid_argument("request {}: query_len {} with a tree_mask; at most 64 are possible",
                              i, query_len);
    }
  }
  return {};
}

Status MetadataBuilder::check_lengths(const CommonAttentionMetadata& batch) const {
  const auto& starts = batch.query_start_loc_cpu;
  if (starts.front() != 0 || starts.back() > batch.num_actual_tokens) {
    return invalid_argument("query_start_loc runs from {} to {}; expected 0 to at most {} tokens",
                            starts.front(), starts.back(), batch.num_actual_tokens);
  }
  for (size_t i = 0; i < batch.seq_lens_cpu_upper_bound.size(); ++i) {
    const int64_t query_len = int64_t{starts[i + 1]} - starts[i];
    const int32_t seq_len = batch.seq_lens_cpu_upper_bound[i];
    if (query_len < 0 || seq_len < query_len) {
      return invalid_argument(
          "request {}: query_len {} and seq_len {}; 0 <= query_len <= seq_len must hold", i,
          query_len, seq_len);
    }
    if (query_len > batch.max_query_len) {
      return invalid_argument("request {}: query_len {} is beyond the batch's max_query_len {}", i,
                              query_len, batch.max_query_len);
    }
    if (seq_len > limits_.max_model_len) {
      return resource_exhausted("request {}: seq_len {} is beyond max_model_len {}", i, seq_len,
                                limits_.max_model_len);
    }
    if (ceil_div(seq_len, spec_.block_size) > batch.block_table.dim(1)) {
      return invalid_argument("request {}: seq_len {} needs {} blocks; block_table has {} columns",
                              i, seq_len, ceil_div(seq_len, spec_.block_size),
                              batch.block_table.dim(1));
    }
  }
  return {};
}

Status MetadataBuilder::check_decode_work(const CommonAttentionMetadata& batch,
                                          int num_decodes) const {
  int64_t splits = 0;
  for (size_t i = 0; i < static_cast<size_t>(num_decodes); ++i) {
    splits += num_splits(batch.seq_lens_cpu_upper_bound[i]);
  }
  if (splits > max_decode_work_) {
    return resource_exhausted(
        "the decodes of this batch have {} splits of {} KV tokens; max_kv_tokens {} was promised, "
        "which makes room for {}",
        splits, kSplitTokens, limits_.max_kv_tokens, max_decode_work_);
  }
  return {};
}

Result<AttentionMetadata> MetadataBuilder::build(Stream& stream,
                                                 const CommonAttentionMetadata& batch) {
  PACELINE_RETURN_IF_ERROR(check_batch(batch));
  PACELINE_ASSIGN_OR_RETURN(
      const BatchSplit split,
      split_decodes_prefills_and_extends(batch.max_query_len, batch.num_actual_tokens,
                                         spec_.reorder_batch_threshold, batch.query_start_loc_cpu,
                                         batch.seq_lens_cpu_upper_bound));
  PACELINE_RETURN_IF_ERROR(check_decode_work(batch, split.num_decodes));
  PACELINE_RETURN_IF_ERROR(check_tree(batch, split.num_decodes));
  AttentionMetadata metadata;
  metadata.num_actual_tokens = batch.num_actual_tokens;
  metadata.num_decodes = split.num_decodes;
  metadata.num_extends = split.num_extends;
  metadata.num_prefills = split.num_prefills;
  metadata.num_decode_tokens = split.num_decode_tokens;
  metadata.num_extend_tokens = split.num_extend_tokens;
  metadata.num_prefill_tokens = split.num_prefill_tokens;
  metadata.query_start_loc = batch.query_start_loc;
  metadata.seq_lens = batch.seq_lens;
  metadata.block_table = batch.block_table;
  metadata.tree_mask = batch.tree_mask;
  const auto extends = batch.seq_lens_cpu_upper_bound.subspan(
      static_cast<size_t>(split.num_decodes), static_cast<size_t>(split.num_extends));
  for (const int32_t seq_len : extends) {
    metadata.max_extend_seq_len = std::max(metadata.max_extend_seq_len, seq_len);
  }
  PlanParams params{};
  params.plan = plan_;
  params.query_start_loc = batch.query_start_loc.ptr<const int32_t>();
  params.seq_lens = batch.seq_lens.ptr<const int32_t>();
  params.num_decodes = split.num_decodes;
  params.num_extends = split.num_extends;
  params.num_prefills = split.num_prefills;
  params.tile_tokens = tile_tokens_;
  params.common_prefix_len = batch.common_prefix_len;
  params.masks = {nullptr, spec_.sliding_window, spec_.attention_chunk_size, spec_.causal};
  PACELINE_RETURN_IF_ERROR(kernels_.plan(stream, params));
  return metadata;
}

}  // namespace paceline
