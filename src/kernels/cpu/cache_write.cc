// What: cache[slot_mapping[t]] = round(k[t] / k_scale), and v likewise; with a scale for each token
// and head, that scale too. Task: one token. Bytes: what it reads and writes.
#include "base/float_rows.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/attention_cpu.h"

namespace paceline::cpu {
namespace {

// The row of one KV head: `size` elements at `source`, to where offset(element) says.
template <typename Offset>
void write_row(const CacheWriteParams& p, const void* source, int32_t size, const KVScale& scales,
               CacheElement e, void* cache, float* row, const Offset& offset) {
  for (int32_t d = 0; d < size; ++d) {
    row[d] = load_float(p.dtype, source, d);
  }
  float scale = 1.0F;
  if (p.cache.scale_kind == KVScaleKind::kPerTokenHead) {
    scale = dynamic_scale_of_row(p.cache.dtype, row, size);
    scales.data[e.block * scales.block_stride + e.head * scales.head_stride +
                e.token * scales.token_stride] = scale;
  } else {
    scale = scale_of(scales, e);
  }
  for (e.dim = 0; e.dim < size; ++e.dim) {
    store_float(p.cache.dtype, cache, offset(p.cache, e), row[e.dim] / scale);
  }
}

void write_token(const CacheWriteParams& p, const TaskContext& context) {
  const int64_t slot = p.slot_mapping[context.task];
  if (slot < 0 || slot >= p.cache.num_blocks * p.cache.block_size) {
    return;
  }
  auto* row = reinterpret_cast<float*>(context.scratch);
  CacheElement e{slot / p.cache.block_size, 0, static_cast<int32_t>(slot % p.cache.block_size), 0};
  for (e.head = 0; e.head < p.num_kv_heads; ++e.head) {
    const int64_t k = context.task * p.k.token_stride + e.head * p.k.head_stride;
    const int64_t v = context.task * p.v.token_stride + e.head * p.v.head_stride;
    write_row(p, element_at(p.dtype, p.k.data, k), p.head_size, p.cache.k_scale, e, p.cache.key,
              row, key_offset);
    write_row(p, element_at(p.dtype, p.v.data, v), p.head_size_v, p.cache.v_scale, e, p.cache.value,
              row, value_offset);
  }
}

}  // namespace

Status launch_cache_write(Stream& stream, const CacheWriteParams& params) {
  return as_cpu(stream).launch(params.num_tokens, write_token, params);
}

}  // namespace paceline::cpu
