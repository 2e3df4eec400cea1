// The C functions give the bits of the C++ ones.
#include <gtest/gtest.h>

#include "base/status_macros.h"
#include "capi/capi_test_problem.h"
#include "paceline/attention.h"

extern "C" int capi_c99_test(void);  // capi_c99_test.c: 0, or the line that failed

namespace paceline {
namespace {

AttentionSpec cpp_spec(const paceline_attention_spec& c) {
  AttentionSpec spec;
  spec.num_heads = c.num_heads;
  spec.num_kv_heads = c.num_kv_heads;
  spec.head_size = c.head_size;
  spec.head_size_v = c.head_size_v;
  spec.dtype = c.dtype == PACELINE_FLOAT32 ? DType::kFloat32 : DType::kBFloat16;
  spec.kv_cache_dtype = c.kv_cache_dtype == PACELINE_FLOAT32    ? DType::kFloat32
                        : c.kv_cache_dtype == PACELINE_BFLOAT16 ? DType::kBFloat16
                                                                : DType::kFloat8E4M3;
  spec.kv_scale = c.kv_scale == PACELINE_SCALE_PER_TENSOR ? KVScaleKind::kPerTensor
                  : c.kv_scale == PACELINE_SCALE_PER_HEAD ? KVScaleKind::kPerHead
                                                          : KVScaleKind::kPerTokenHead;
  spec.kv_cache_layout =
      c.kv_cache_layout == PACELINE_LAYOUT_NHD ? KVCacheLayout::kNHD : KVCacheLayout::kShuffle;
  spec.block_size = c.block_size;
  if (c.has_scale != 0) {
    spec.scale = c.scale;
  }
  spec.reorder_batch_threshold = c.reorder_batch_threshold;
  spec.causal = c.causal != 0;
  spec.sliding_window = c.sliding_window;
  spec.attention_chunk_size = c.attention_chunk_size;
  spec.logits_soft_cap = c.logits_soft_cap;
  spec.alibi = c.alibi != 0;
  spec.sinks = c.sinks != 0;
  spec.tree_mask = c.tree_mask != 0;
  spec.extend_strategy = c.extend_strategy == PACELINE_EXTEND_GATHER ? ExtendStrategy::kGather
                                                                     : ExtendStrategy::kInPlace;
  spec.kernel = c.kernel == nullptr ? "" : c.kernel;
  return spec;
}

CapiOutput run_cpp(const CapiProblem& p) {
  const AttentionSpec spec = cpp_spec(p.spec);
  CapiInputs in(p);
  const auto device = create_device("cpu", {.num_threads = 2}).value();
  const auto stream = device->create_stream().value();
  const auto backend = AttentionBackend::create(
      *device, spec, {.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 64});
  EXPECT_TRUE(backend.ok()) << backend.status().to_string();
  KVCacheShape shape{spec.kv_cache_layout, spec.kv_cache_dtype, p.num_blocks,    spec.block_size,
                     spec.num_kv_heads,    spec.head_size,      spec.head_size_v};
  const Buffer key = device->allocate(static_cast<size_t>(shape.key_bytes())).value();
  const Buffer value = device->allocate(static_cast<size_t>(shape.value_bytes())).value();
  AttentionLayer layer;
  layer.cache = make_kv_cache_view(shape, key.data(), value.data()).value();
  if (spec.kv_scale == KVScaleKind::kPerTensor) {
    layer.cache.k_scale = KVScale::per_tensor(in.scales.data());
    layer.cache.v_scale = KVScale::per_tensor(&in.scales.back());
  } else if (spec.kv_scale == KVScaleKind::kPerHead) {
    layer.cache.k_scale = KVScale::per_head(in.scales.data());
    layer.cache.v_scale = KVScale::per_head(in.scales.data() + spec.num_kv_heads);
  } else {
    layer.cache.k_scale = KVScale::per_token_head(in.scales.data(), shape);
    layer.cache.v_scale =
        KVScale::per_token_head(in.scales.data() + shape.token_head_scales(), shape);
  }
  layer.alibi_slopes = spec.alibi ? in.per_head.data() : nullptr;
  layer.sinks = spec.sinks ? in.per_head.data() + spec.num_heads : nullptr;
  const int64_t tokens = p.num_tokens();
  const auto all = static_cast<int64_t>(in.slots.size());
  const auto view = [&](const void* data, int64_t rows, int64_t heads, int64_t size) {
    return TensorView::contiguous(data, spec.dtype, {rows, heads, size});
  };
  const int64_t kv = spec.num_kv_heads;
  CapiOutput output;
  output.out.resize(
      static_cast<size_t>(tokens * spec.num_heads * p.value_size() * p.element_bytes()));
  output.lse.resize(static_cast<size_t>(tokens * spec.num_heads));
  EXPECT_TRUE(backend.value()
                  ->update_kv_cache(*stream, view(in.all_k.data(), all, kv, spec.head_size),
                                    view(in.all_v.data(), all, kv, p.value_size()),
                                    TensorView::contiguous(in.slots.data(), DType::kInt64, {all}),
                                    layer.cache)
                  .ok());
  CommonAttentionMetadata batch;
  batch.num_reqs = p.num_reqs();
  batch.num_actual_tokens = p.num_tokens();
  batch.max_query_len = 21;
  batch.query_start_loc_cpu = in.starts;
  batch.seq_lens_cpu_upper_bound = p.seq_lens;
  batch.query_start_loc =
      TensorView::contiguous(in.starts.data(), DType::kInt32, {p.num_reqs() + 1});
  batch.seq_lens = TensorView::contiguous(p.seq_lens.data(), DType::kInt32, {p.num_reqs()});
  batch.block_table =
      TensorView::contiguous(in.table.data(), DType::kInt32, {p.num_reqs(), CapiProblem::kColumns});
  if (spec.tree_mask) {
    batch.tree_mask = TensorView::contiguous(in.tree.data(), DType::kInt64, {tokens});
  }
  const auto metadata = backend.value()->build(*stream, batch);
  EXPECT_TRUE(metadata.ok()) << metadata.status().to_string();
  EXPECT_TRUE(
      backend.value()
          ->forward(
              *stream, *metadata, layer, view(in.q.data(), tokens, spec.num_heads, spec.head_size),
              view(in.k.data(), tokens, kv, spec.head_size),
              view(in.v.data(), tokens, kv, p.value_size()),
              view(output.out.data(), tokens, spec.num_heads, p.value_size()),
              TensorView::contiguous(output.lse.data(), DType::kFloat32, {tokens, spec.num_heads}))
          .ok());
  EXPECT_TRUE(stream->synchronize().ok());
  return output;
}

// In a captured graph too, launched twice: a replay gives the same bits.
CapiOutput run_c(const CapiProblem& p, bool captured) {
  CapiInputs in(p);
  paceline_device* device = nullptr;
  paceline_stream* stream = nullptr;
  paceline_attention* attention = nullptr;
  EXPECT_C_OK(paceline_device_create("cpu", 2, &device));
  EXPECT_C_OK(paceline_stream_create(device, &stream));
  paceline_attention_limits limits;
  EXPECT_C_OK(paceline_attention_limits_init(&limits, sizeof limits));
  limits.max_num_seqs = 8;
  limits.max_num_batched_tokens = 64;
  limits.max_model_len = 64;
  EXPECT_C_OK(paceline_attention_create(device, &p.spec, &limits, &attention));
  paceline_kv_cache_shape shape;
  EXPECT_C_OK(paceline_kv_cache_shape_init(&shape, sizeof shape));
  shape.layout = p.spec.kv_cache_layout;
  shape.dtype = p.spec.kv_cache_dtype;
  shape.num_blocks = p.num_blocks;
  shape.num_kv_heads = p.spec.num_kv_heads;
  shape.head_size = p.spec.head_size;
  shape.head_size_v = p.spec.head_size_v;
  int64_t key_bytes = 0;
  int64_t value_bytes = 0;
  EXPECT_C_OK(paceline_kv_cache_bytes(&shape, &key_bytes, &value_bytes));
  paceline_buffer* memory = nullptr;
  EXPECT_C_OK(paceline_buffer_create(device, static_cast<size_t>(key_bytes + value_bytes),
                                     PACELINE_MEMORY_DEVICE, &memory));
  void* key = nullptr;
  EXPECT_C_OK(paceline_buffer_data(memory, &key));
  paceline_kv_cache cache;
  EXPECT_C_OK(paceline_kv_cache_init(&cache, sizeof cache));
  EXPECT_C_OK(paceline_kv_cache_make(&shape, key, static_cast<char*>(key) + key_bytes, &cache));
  const int64_t kv = p.spec.num_kv_heads;
  cache.k_scale.data = in.scales.data();
  cache.v_scale.data = &in.scales.back();
  if (p.spec.kv_scale == PACELINE_SCALE_PER_HEAD) {
    cache.k_scale = {in.scales.data(), 0, 1, 0};
    cache.v_scale = {in.scales.data() + kv, 0, 1, 0};
  } else if (p.spec.kv_scale == PACELINE_SCALE_PER_TOKEN_HEAD) {
    cache.k_scale = {in.scales.data(), kv * 16, 16, 1};
    cache.v_scale = {in.scales.data() + p.num_blocks * kv * 16, kv * 16, 16, 1};
  }
  paceline_attention_layer layer;
  EXPECT_C_OK(paceline_attention_layer_init(&layer, sizeof layer));
  layer.cache = &cache;
  layer.alibi_slopes = p.spec.alibi != 0 ? in.per_head.data() : nullptr;
  layer.sinks = p.spec.sinks != 0 ? in.per_head.data() + p.spec.num_heads : nullptr;
  const auto tensor = [](const void* data, int32_t dtype, const std::vector<int64_t>& dims) {
    paceline_tensor made{};
    EXPECT_C_OK(paceline_tensor_contiguous(data, dtype, static_cast<int32_t>(dims.size()),
                                           dims.data(), &made));
    return made;
  };
  const int64_t tokens = p.num_tokens();
  const auto all = static_cast<int64_t>(in.slots.size());
  const int64_t d = p.spec.head_size;
  const int64_t heads = p.spec.num_heads;
  const int32_t dtype = p.spec.dtype;
  CapiOutput output;
  output.out.resize(static_cast<size_t>(tokens * heads * p.value_size() * p.element_bytes()));
  output.lse.resize(static_cast<size_t>(tokens * heads));
  const paceline_tensor all_k = tensor(in.all_k.data(), dtype, {all, kv, d});
  const paceline_tensor all_v = tensor(in.all_v.data(), dtype, {all, kv, p.value_size()});
  const paceline_tensor slots = tensor(in.slots.data(), PACELINE_INT64, {all});
  EXPECT_C_OK(
      paceline_attention_update_kv_cache(attention, stream, &all_k, &all_v, &slots, &cache));
  paceline_attention_batch batch;
  EXPECT_C_OK(paceline_attention_batch_init(&batch, sizeof batch));
  batch.num_reqs = p.num_reqs();
  batch.num_actual_tokens = p.num_tokens();
  batch.max_query_len = 21;
  batch.query_start_loc_cpu = in.starts.data();
  batch.seq_lens_cpu_upper_bound = p.seq_lens.data();
  batch.query_start_loc = tensor(in.starts.data(), PACELINE_INT32, {p.num_reqs() + 1});
  batch.seq_lens = tensor(p.seq_lens.data(), PACELINE_INT32, {p.num_reqs()});
  batch.block_table =
      tensor(in.table.data(), PACELINE_INT32, {p.num_reqs(), CapiProblem::kColumns});
  if (p.spec.tree_mask != 0) {
    batch.tree_mask = tensor(in.tree.data(), PACELINE_INT64, {tokens});
  }
  const paceline_tensor q = tensor(in.q.data(), dtype, {tokens, heads, d});
  const paceline_tensor k = tensor(in.k.data(), dtype, {tokens, kv, d});
  const paceline_tensor v = tensor(in.v.data(), dtype, {tokens, kv, p.value_size()});
  const paceline_tensor out = tensor(output.out.data(), dtype, {tokens, heads, p.value_size()});
  const paceline_tensor lse = tensor(output.lse.data(), PACELINE_FLOAT32, {tokens, heads});
  paceline_attention_metadata metadata;
  EXPECT_C_OK(paceline_attention_metadata_init(&metadata, sizeof metadata));
  if (captured) {
    EXPECT_C_OK(paceline_stream_begin_capture(stream));
  }
  EXPECT_C_OK(paceline_attention_build(attention, stream, &batch, &metadata));
  EXPECT_EQ(metadata.num_decodes, 2);
  EXPECT_EQ(metadata.num_extends, 1);
  EXPECT_EQ(metadata.num_prefills, 1);
  EXPECT_C_OK(
      paceline_attention_forward(attention, stream, &metadata, &layer, &q, &k, &v, &out, &lse));
  if (captured) {
    paceline_graph* graph = nullptr;
    EXPECT_C_OK(paceline_stream_end_capture(stream, &graph));
    EXPECT_C_OK(paceline_stream_launch(stream, graph));
    EXPECT_C_OK(paceline_stream_launch(stream, graph));
    EXPECT_C_OK(paceline_graph_destroy(graph));  // still queued: the stream keeps it
  }
  EXPECT_C_OK(paceline_device_destroy(device));  // the others keep it
  EXPECT_C_OK(paceline_stream_synchronize(stream));
  EXPECT_C_OK(paceline_stream_destroy(stream));
  EXPECT_C_OK(paceline_buffer_destroy(memory));
  EXPECT_C_OK(paceline_attention_destroy(attention));
  return output;
}

void expect_same_bits(const CapiProblem& problem) {
  const CapiOutput expected = run_cpp(problem);
  for (const bool captured : {false, true}) {
    const CapiOutput got = run_c(problem, captured);
    EXPECT_EQ(expected.out, got.out);
    EXPECT_EQ(std::memcmp(expected.lse.data(), got.lse.data(), expected.lse.size() * 4), 0);
  }
  const std::vector<char> nothing(expected.out.size());
  EXPECT_NE(expected.out, nothing);
}

TEST(Capi, SameBitsWithDefaults) { expect_same_bits(CapiProblem()); }

TEST(Capi, SameBitsWithEveryFeature) {
  CapiProblem p;
  p.spec.head_size_v = 16;
  p.spec.has_scale = 1;
  p.spec.scale = 0.3F;
  p.spec.sliding_window = 20;
  p.spec.attention_chunk_size = 32;
  p.spec.logits_soft_cap = 5.0F;
  p.spec.alibi = 1;
  p.spec.sinks = 1;
  p.spec.kernel = "ref";
  expect_same_bits(p);
  p.spec.kernel = nullptr;
  expect_same_bits(p);
}

TEST(Capi, SameBitsInAShuffledFp8Cache) {
  CapiProblem p;
  p.spec.dtype = PACELINE_BFLOAT16;
  p.spec.kv_cache_dtype = PACELINE_FLOAT8_E4M3;
  p.spec.kv_cache_layout = PACELINE_LAYOUT_SHUFFLE;
  p.first_scale = 0.01F;
  for (const int32_t kind :
       {PACELINE_SCALE_PER_TENSOR, PACELINE_SCALE_PER_HEAD, PACELINE_SCALE_PER_TOKEN_HEAD}) {
    p.spec.kv_scale = kind;
    expect_same_bits(p);
  }
}

TEST(Capi, SameBitsWithATreeGatheredAndNotCausal) {
  CapiProblem p;
  p.spec.tree_mask = 1;
  p.spec.extend_strategy = PACELINE_EXTEND_GATHER;
  expect_same_bits(p);
  p.spec.tree_mask = 0;
  p.spec.causal = 0;
  expect_same_bits(p);
}

TEST(Capi, TheHeaderIsC99) { EXPECT_EQ(capi_c99_test(), 0) << paceline_last_error(); }

}  // namespace
}  // namespace paceline
