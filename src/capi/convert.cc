#include "capi/convert.h"

namespace paceline::capi {

paceline_attention_spec default_spec() {
  const AttentionSpec from;
  paceline_attention_spec spec{};
  spec.block_size = from.block_size;
  spec.reorder_batch_threshold = from.reorder_batch_threshold;
  spec.causal = 1;
  spec.extend_workspace_tokens = from.extend_workspace_tokens;
  return spec;
}

paceline_kv_cache_shape default_cache_shape() {
  paceline_kv_cache_shape shape{};
  shape.block_size = KVCacheShape().block_size;
  return shape;
}

paceline_attention_layer default_layer() {
  paceline_attention_layer layer{};
  layer.sliding_window = PACELINE_WINDOW_OF_SPEC;
  return layer;
}

Result<TensorView> to_view(const char* name, const paceline_tensor* tensor) {
  if (tensor == nullptr) {
    return TensorView{};
  }
  if (tensor->rank < 0 || tensor->rank > TensorView::kMaxRank) {
    return invalid_argument("{}: rank {}; 0 to {} are possible", name, tensor->rank,
                            TensorView::kMaxRank);
  }
  TensorView view;
  view.data = tensor->data;
  PACELINE_ASSIGN_OR_RETURN(view.dtype, to_enum("dtype", tensor->dtype, DType::kUInt8));
  view.rank = tensor->rank;
  for (int i = 0; i < view.rank; ++i) {
    if (tensor->shape[i] < 0) {
      return invalid_argument("{}: dimension {} is {}; it must not be negative", name, i,
                              tensor->shape[i]);
    }
    view.shape[static_cast<size_t>(i)] = tensor->shape[i];
    view.strides[static_cast<size_t>(i)] = tensor->strides[i];
  }
  return view;
}

paceline_tensor from_view(const TensorView& view) {
  paceline_tensor tensor{};
  tensor.data = view.data;
  tensor.dtype = static_cast<int32_t>(view.dtype);
  tensor.rank = view.rank;
  std::copy(view.shape.begin(), view.shape.end(), tensor.shape);
  std::copy(view.strides.begin(), view.strides.end(), tensor.strides);
  return tensor;
}

Result<KVCacheShape> to_cache_shape(const paceline_kv_cache_shape* given) {
  PACELINE_ASSIGN_OR_RETURN(const paceline_kv_cache_shape from,
                            read_struct("paceline_kv_cache_shape", given, default_cache_shape()));
  KVCacheShape shape;
  PACELINE_ASSIGN_OR_RETURN(shape.layout, to_enum("layout", from.layout, KVCacheLayout::kShuffle));
  PACELINE_ASSIGN_OR_RETURN(shape.dtype, to_enum("dtype", from.dtype, DType::kUInt8));
  shape.num_blocks = from.num_blocks;
  shape.block_size = from.block_size;
  shape.num_kv_heads = from.num_kv_heads;
  shape.head_size = from.head_size;
  shape.head_size_v = from.head_size_v;
  PACELINE_RETURN_IF_ERROR(validate_kv_cache_shape(shape));
  return shape;
}

Result<KVCacheView> to_cache(const paceline_kv_cache* given) {
  PACELINE_ASSIGN_OR_RETURN(const paceline_kv_cache from,
                            read_struct("paceline_kv_cache", given, paceline_kv_cache{}));
  const auto to_scale = [](const paceline_kv_scale& scale) {
    return KVScale{scale.data, scale.block_stride, scale.head_stride, scale.token_stride};
  };
  KVCacheView cache;
  PACELINE_ASSIGN_OR_RETURN(cache.layout, to_enum("layout", from.layout, KVCacheLayout::kShuffle));
  PACELINE_ASSIGN_OR_RETURN(cache.key, to_view("key", &from.key));
  PACELINE_ASSIGN_OR_RETURN(cache.value, to_view("value", &from.value));
  cache.k_scale = to_scale(from.k_scale);
  cache.v_scale = to_scale(from.v_scale);
  return cache;
}

Result<AttentionSpec> to_spec(const paceline_attention_spec* given) {
  PACELINE_ASSIGN_OR_RETURN(const paceline_attention_spec from,
                            read_struct("paceline_attention_spec", given, default_spec()));
  AttentionSpec spec;
  spec.num_heads = from.num_heads;
  spec.num_kv_heads = from.num_kv_heads;
  spec.head_size = from.head_size;
  spec.head_size_v = from.head_size_v;
  PACELINE_ASSIGN_OR_RETURN(spec.dtype, to_enum("dtype", from.dtype, DType::kUInt8));
  PACELINE_ASSIGN_OR_RETURN(spec.kv_cache_dtype,
                            to_enum("kv_cache_dtype", from.kv_cache_dtype, DType::kUInt8));
  PACELINE_ASSIGN_OR_RETURN(spec.kv_scale,
                            to_enum("kv_scale", from.kv_scale, KVScaleKind::kPerTokenHead));
  PACELINE_ASSIGN_OR_RETURN(spec.kv_cache_layout, to_enum("kv_cache_layout", from.kv_cache_layout,
                                                          KVCacheLayout::kShuffle));
  spec.block_size = from.block_size;
  if (from.has_scale != 0) {
    spec.scale = from.scale;
  }
  spec.reorder_batch_threshold = from.reorder_batch_threshold;
  PACELINE_ASSIGN_OR_RETURN(spec.attention_type, to_enum("attention_type", from.attention_type,
                                                         AttentionType::kEncoderDecoder));
  spec.causal = from.causal != 0;
  spec.sliding_window = from.sliding_window;
  spec.attention_chunk_size = from.attention_chunk_size;
  spec.logits_soft_cap = from.logits_soft_cap;
  spec.alibi = from.alibi != 0;
  spec.sinks = from.sinks != 0;
  spec.tree_mask = from.tree_mask != 0;
  PACELINE_ASSIGN_OR_RETURN(spec.extend_strategy, to_enum("extend_strategy", from.extend_strategy,
                                                          ExtendStrategy::kGather));
  spec.extend_workspace_tokens = from.extend_workspace_tokens;
  if (from.kernel != nullptr) {
    spec.kernel = from.kernel;
  }
  return spec;
}

Result<AttentionLimits> to_limits(const paceline_attention_limits* given) {
  PACELINE_ASSIGN_OR_RETURN(
      const paceline_attention_limits from,
      read_struct("paceline_attention_limits", given, paceline_attention_limits{}));
  AttentionLimits limits;
  limits.max_num_seqs = from.max_num_seqs;
  limits.max_num_batched_tokens = from.max_num_batched_tokens;
  limits.max_model_len = from.max_model_len;
  limits.max_kv_tokens = from.max_kv_tokens;
  return limits;
}

Result<AttentionLayer> to_layer(const paceline_attention_layer* given) {
  PACELINE_ASSIGN_OR_RETURN(const paceline_attention_layer from,
                            read_struct("paceline_attention_layer", given, default_layer()));
  AttentionLayer layer;
  PACELINE_ASSIGN_OR_RETURN(layer.cache, to_cache(from.cache));
  if (from.sliding_window != PACELINE_WINDOW_OF_SPEC) {
    layer.sliding_window = from.sliding_window;
  }
  layer.alibi_slopes = from.alibi_slopes;
  layer.sinks = from.sinks;
  layer.kv_sharing = from.kv_sharing != 0;
  return layer;
}

Result<CommonAttentionMetadata> to_batch(const paceline_attention_batch* given) {
  PACELINE_ASSIGN_OR_RETURN(
      const paceline_attention_batch from,
      read_struct("paceline_attention_batch", given, paceline_attention_batch{}));
  if (from.num_reqs < 0) {
    return invalid_argument("num_reqs is {}; it must not be negative", from.num_reqs);
  }
  if (from.query_start_loc_cpu == nullptr ||
      (from.num_reqs > 0 && from.seq_lens_cpu_upper_bound == nullptr)) {
    return invalid_argument(
        "query_start_loc_cpu and seq_lens_cpu_upper_bound must not be null in a batch of {} "
        "requests",
        from.num_reqs);
  }
  const auto reqs = static_cast<size_t>(from.num_reqs);
  CommonAttentionMetadata batch;
  batch.num_reqs = from.num_reqs;
  batch.num_actual_tokens = from.num_actual_tokens;
  batch.max_query_len = from.max_query_len;
  batch.common_prefix_len = from.common_prefix_len;
  batch.query_start_loc_cpu = {from.query_start_loc_cpu, reqs + 1};
  batch.seq_lens_cpu_upper_bound = {from.seq_lens_cpu_upper_bound, reqs};
  PACELINE_ASSIGN_OR_RETURN(batch.query_start_loc,
                            to_view("query_start_loc", &from.query_start_loc));
  PACELINE_ASSIGN_OR_RETURN(batch.seq_lens, to_view("seq_lens", &from.seq_lens));
  PACELINE_ASSIGN_OR_RETURN(batch.block_table, to_view("block_table", &from.block_table));
  PACELINE_ASSIGN_OR_RETURN(batch.tree_mask, to_view("tree_mask", &from.tree_mask));
  return batch;
}

}  // namespace paceline::capi
