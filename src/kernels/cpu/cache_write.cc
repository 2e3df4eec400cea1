// What: cache[slot_mapping[t]] = round(k[t] / k_scale), and v likewise; with a scale for each token
// and head, that scale too. Task: one token. Bytes: what it reads and writes.
#include <cstring>

#include "base/float_rows.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/attention_cpu.h"

namespace paceline::cpu {
namespace {

// The codes of a row to where they lie.
void place_row(const CacheParams& cache, bool key, CacheElement e, int32_t size,
               const std::byte* codes) {
  const size_t width = dtype_size(cache.dtype);
  void* base = key ? cache.key : cache.value;
  const auto place = [&](int64_t at, int32_t dim, int32_t count) {
    std::memcpy(element_at(cache.dtype, base, at), codes + static_cast<size_t>(dim) * width,
                static_cast<size_t>(count) * width);
  };
  if (cache.layout == KVCacheLayout::kNHD) {
    place(key ? key_offset(cache, e) : value_offset(cache, e), 0, size);
    return;
  }
  if (key) {  // x elements side by side
    for (; e.dim < size; e.dim += cache.x) {
      place(key_offset(cache, e), e.dim, cache.x);
    }
    return;
  }
  int64_t at = value_offset(cache, e);
  for (; e.dim < size; ++e.dim, at += cache.value_strides.token) {
    place(at, e.dim, 1);
  }
}

// The row of one KV head: `size` elements at `source`. `scratch`: room for two rows of float32.
void write_row(const CacheWriteParams& p, bool key, const void* source, int32_t size,
               const CacheElement& e, float* scratch) {
  load_floats(p.dtype, source, size, scratch);
  const KVScale& scales = key ? p.cache.k_scale : p.cache.v_scale;
  float scale = 1.0F;
  if (p.cache.scale_kind == KVScaleKind::kPerTokenHead) {
    scale = dynamic_scale_of_row(p.cache.dtype, scratch, size);
    scales.data[e.block * scales.block_stride + e.head * scales.head_stride +
                e.token * scales.token_stride] = scale;
  } else {
    scale = scale_of(scales, e);
  }
  for (int32_t d = 0; d < size; ++d) {
    scratch[d] /= scale;
  }
  auto* codes = reinterpret_cast<std::byte*>(scratch + size);
  store_floats(p.cache.dtype, codes, size, scratch);
  place_row(p.cache, key, e, size, codes);
}

void write_token(const CacheWriteParams& p, const TaskContext& context) {
  const int64_t slot = p.slot_mapping[context.task];
  if (slot < 0 || slot >= p.cache.num_blocks * p.cache.block_size) {
    return;
  }
  auto* scratch = reinterpret_cast<float*>(context.scratch);
  CacheElement e{slot / p.cache.block_size, 0, static_cast<int32_t>(slot % p.cache.block_size), 0};
  for (e.head = 0; e.head < p.num_kv_heads; ++e.head) {
    const int64_t k = context.task * p.k.token_stride + e.head * p.k.head_stride;
    const int64_t v = context.task * p.v.token_stride + e.head * p.v.head_stride;
    write_row(p, true, element_at(p.dtype, p.k.data, k), p.head_size, e, scratch);
    write_row(p, false, element_at(p.dtype, p.v.data, v), p.head_size_v, e, scratch);
  }
}

}  // namespace

Status launch_cache_write(Stream& stream, const CacheWriteParams& params) {
  return as_cpu(stream).launch(params.num_tokens, write_token, params);
}

}  // namespace paceline::cpu
