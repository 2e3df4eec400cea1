// What: cache[slot_mapping[t]] = round(k[t] / k_scale), and v likewise. Task: one token. Bytes:
// what it reads and writes.
#include "base/float_rows.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/attention_cpu.h"

namespace paceline::cpu {
namespace {

void write_token(const CacheWriteParams& p, const TaskContext& context) {
  const int64_t slot = p.slot_mapping[context.task];
  if (slot < 0 || slot >= p.cache.num_blocks * p.cache.block_size) {
    return;
  }
  const float k_scale = p.cache.k_scale != nullptr ? *p.cache.k_scale : 1.0F;
  const float v_scale = p.cache.v_scale != nullptr ? *p.cache.v_scale : 1.0F;
  CacheElement e{slot / p.cache.block_size, 0, static_cast<int32_t>(slot % p.cache.block_size), 0};
  for (e.head = 0; e.head < p.num_kv_heads; ++e.head) {
    const int64_t k = context.task * p.k.token_stride + e.head * p.k.head_stride;
    const int64_t v = context.task * p.v.token_stride + e.head * p.v.head_stride;
    for (e.dim = 0; e.dim < p.head_size; ++e.dim) {
      store_float(p.cache.dtype, p.cache.key, key_offset(p.cache, e),
                  load_float(p.dtype, p.k.data, k + e.dim) / k_scale);
      store_float(p.cache.dtype, p.cache.value, value_offset(p.cache, e),
                  load_float(p.dtype, p.v.data, v + e.dim) / v_scale);
    }
  }
}

}  // namespace

Status launch_cache_write(Stream& stream, const CacheWriteParams& params) {
  return as_cpu(stream).launch(params.num_tokens, write_token, params);
}

}  // namespace paceline::cpu
