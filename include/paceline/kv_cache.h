// The paged KV cache: one layer's keys and values, in blocks (pages) of block_size tokens.
//
// Symbols: NB num_blocks, BS block_size, Hkv num_kv_heads, D head_size, x = 16 / element size.
//
//   layout    key                      value
//   NHD       [NB, BS, Hkv, D]         [NB, BS, Hkv, D]
//   SHUFFLE   [NB, Hkv, D/x, BS, x]    [NB, Hkv, BS/x, D, x]
//
// SHUFFLE is AITER's pre-shuffled layout: 16 bytes of one K row, and 16 bytes of one V column, lie
// side by side. It needs D and BS to be multiples of x. Strides are taken from the views; only the
// innermost dimension must be dense.
#pragma once

#include <cstdint>
#include <string_view>

#include "paceline/tensor.h"

namespace paceline {

enum class KVCacheLayout : uint8_t { kNHD, kShuffle };
const char* kv_cache_layout_name(KVCacheLayout layout);  // "NHD", "SHUFFLE"
// Takes the names in either case; kInvalidArgument otherwise.
Result<KVCacheLayout> parse_kv_cache_layout(std::string_view name);

struct KVCacheShape {
  KVCacheLayout layout = KVCacheLayout::kNHD;
  DType dtype = DType::kFloat32;  // float32, float16, bfloat16 or fp8_e4m3
  int64_t num_blocks = 0;
  int block_size = 16;
  int num_kv_heads = 0;
  int head_size = 0;

  // Elements that the SHUFFLE layout keeps together.
  int x() const { return static_cast<int>(16 / dtype_size(dtype)); }
  // Bytes of keys, or of values: each takes this much. Of a shape that validate_kv_cache_shape
  // accepts; others may overflow.
  int64_t bytes() const {
    return num_blocks * block_size * num_kv_heads * head_size *
           static_cast<int64_t>(dtype_size(dtype));
  }
};

// One layer's cache. k_scale and v_scale point to one float32 in device memory: stored = value /
// scale, so value = stored * scale. Null means 1. They are used for every dtype and layout.
struct KVCacheView {
  KVCacheLayout layout = KVCacheLayout::kNHD;
  TensorView key;
  TensorView value;
  const float* k_scale = nullptr;
  const float* v_scale = nullptr;
};

// kInvalidArgument when a dimension is not positive, the dtype cannot be cached, the layout does
// not admit the shape, or bytes() is beyond 2^62; the message lists all reasons.
Status validate_kv_cache_shape(const KVCacheShape& shape);

// Contiguous views over two memory blocks of shape.bytes() each, aligned to 16 bytes. They own
// nothing: the memory must outlive the work that uses the views.
Result<KVCacheView> make_kv_cache_view(const KVCacheShape& shape, void* key, void* value);

}  // namespace paceline
