// Where an element of the KV cache lies. Offsets count elements and are 64-bit. Plain arithmetic:
// compiled for the host and for every device.
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "paceline/kv_cache.h"

namespace paceline {

// Strides of a K or V view by meaning, the same four for every layout.
//   NHD        b*block + h*head + t*token + d
//   SHUFFLE K  b*block + h*head + (d/x)*group + t*token + d%x
//   SHUFFLE V  b*block + h*head + (t/x)*group + d*token + t%x      (token: the stride of d)
struct CacheStrides {
  int64_t block;
  int64_t head;
  int64_t token;
  int64_t group;
};

struct CacheElement {
  int64_t block;
  int32_t head;
  int32_t token;  // within the block
  int32_t dim;
};

PACELINE_HOST_DEVICE inline int64_t nhd_offset(const CacheStrides& s, const CacheElement& e) {
  return e.block * s.block + e.head * s.head + e.token * s.token + e.dim;
}

PACELINE_HOST_DEVICE inline int64_t shuffle_key_offset(const CacheStrides& s, int32_t x,
                                                       const CacheElement& e) {
  return e.block * s.block + e.head * s.head + (e.dim / x) * s.group + e.token * s.token +
         e.dim % x;
}

PACELINE_HOST_DEVICE inline int64_t shuffle_value_offset(const CacheStrides& s, int32_t x,
                                                         const CacheElement& e) {
  return e.block * s.block + e.head * s.head + (e.token / x) * s.group + e.dim * s.token +
         e.token % x;
}

// The scale of the row of an element; 1 where there is none.
PACELINE_HOST_DEVICE inline float scale_of(const KVScale& s, const CacheElement& e) {
  return s.data == nullptr
             ? 1.0F
             : s.data[e.block * s.block_stride + e.head * s.head_stride + e.token * s.token_stride];
}

// What a kernel needs to know of one layer's cache; plain data.
struct CacheParams {
  void* key;
  void* value;
  KVScale k_scale;
  KVScale v_scale;
  CacheStrides key_strides;
  CacheStrides value_strides;
  int64_t num_blocks;
  int32_t block_size;
  int32_t x;
  KVCacheLayout layout;
  KVScaleKind scale_kind;
  DType dtype;
};

PACELINE_HOST_DEVICE inline int64_t key_offset(const CacheParams& p, const CacheElement& e) {
  return p.layout == KVCacheLayout::kNHD ? nhd_offset(p.key_strides, e)
                                         : shuffle_key_offset(p.key_strides, p.x, e);
}

PACELINE_HOST_DEVICE inline int64_t value_offset(const CacheParams& p, const CacheElement& e) {
  return p.layout == KVCacheLayout::kNHD ? nhd_offset(p.value_strides, e)
                                         : shuffle_value_offset(p.value_strides, p.x, e);
}

// Checks ranks, shapes, dtype, the dense innermost dimension and the scales of a view against
// `shape` (whose num_blocks is ignored) and `scales`, and reads the strides. kInvalidArgument says
// what differs.
Result<CacheParams> make_cache_params(const KVCacheView& view, const KVCacheShape& shape,
                                      KVScaleKind scales);

}  // namespace paceline
