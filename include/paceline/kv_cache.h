// The paged KV cache: one layer's keys and values, in blocks (pages) of block_size tokens.
//
// Symbols: NB num_blocks, BS block_size, Hkv num_kv_heads, D head_size, Dv head_size_v,
// x = 16 / element size.
//
//   layout    key                      value
//   NHD       [NB, BS, Hkv, D]         [NB, BS, Hkv, Dv]
//   SHUFFLE   [NB, Hkv, D/x, BS, x]    [NB, Hkv, BS/x, Dv, x]
//
// SHUFFLE is AITER's pre-shuffled layout: 16 bytes of one K row, and 16 bytes of one V column, lie
// side by side. It needs D and BS to be multiples of x. Strides are taken from the views; only the
// innermost dimension must be dense. So one allocation may hold K and V side by side ([NB, 2, ...]
// or [2, NB, ...]): make the two views with the strides that it has.
#pragma once

#include <cstdint>
#include <string_view>

#include "paceline/tensor.h"

namespace paceline {

enum class KVCacheLayout : uint8_t { kNHD, kShuffle };
const char* kv_cache_layout_name(KVCacheLayout layout);  // "NHD", "SHUFFLE"
// Takes the names in either case; kInvalidArgument otherwise.
Result<KVCacheLayout> parse_kv_cache_layout(std::string_view name);

// What one scale holds for. A cache stores value / scale, rounded to its dtype, and gives back
// stored * scale; in every dtype and layout.
enum class KVScaleKind : uint8_t {
  kPerTensor,     // one for all: given by the caller. Absent means 1.
  kPerHead,       // one for each KV head: given by the caller
  kPerTokenHead,  // one for each token and KV head: update_kv_cache computes it from the row (its
                  // largest magnitude over the dtype's) and writes it. fp8 and int8 only.
};
const char* kv_scale_kind_name(KVScaleKind kind);  // "per_tensor", "per_head", "per_token_head"
Result<KVScaleKind> parse_kv_scale_kind(std::string_view name);

struct KVCacheShape {
  KVCacheLayout layout = KVCacheLayout::kNHD;
  DType dtype = DType::kFloat32;  // float32, float16, bfloat16, the three fp8 or int8
  int64_t num_blocks = 0;
  int block_size = 16;
  int num_kv_heads = 0;
  int head_size = 0;
  int head_size_v = 0;  // 0: the same as head_size

  int value_size() const { return head_size_v == 0 ? head_size : head_size_v; }
  // Elements that the SHUFFLE layout keeps together.
  int x() const { return static_cast<int>(16 / dtype_size(dtype)); }
  // Bytes of the keys and of the values. Of a shape that validate_kv_cache_shape accepts; others
  // may overflow.
  int64_t key_bytes() const { return bytes_of(head_size); }
  int64_t value_bytes() const { return bytes_of(value_size()); }
  // Scales of the keys, or of the values, kPerTokenHead: float32 [NB, Hkv, BS].
  int64_t token_head_scales() const { return num_blocks * num_kv_heads * block_size; }

 private:
  int64_t bytes_of(int size) const {
    return num_blocks * block_size * num_kv_heads * size * static_cast<int64_t>(dtype_size(dtype));
  }
};

// Scales in device memory, float32: that of block b, KV head h and token t of the block lies at
// data[b * block_stride + h * head_stride + t * token_stride]. Kinds with fewer scales than that
// have strides of 0.
struct KVScale {
  float* data = nullptr;
  int64_t block_stride = 0;
  int64_t head_stride = 0;
  int64_t token_stride = 0;

  static KVScale per_tensor(const float* scale) { return {const_cast<float*>(scale), 0, 0, 0}; }
  // [num_kv_heads]
  static KVScale per_head(const float* scales) { return {const_cast<float*>(scales), 0, 1, 0}; }
  // Contiguous [num_blocks, num_kv_heads, block_size].
  static KVScale per_token_head(float* scales, const KVCacheShape& shape) {
    return {scales, int64_t{shape.num_kv_heads} * shape.block_size, shape.block_size, 1};
  }
};

// One layer's cache.
struct KVCacheView {
  KVCacheLayout layout = KVCacheLayout::kNHD;
  TensorView key;
  TensorView value;
  KVScale k_scale;
  KVScale v_scale;
};

// kInvalidArgument when a dimension is not positive, the dtype cannot be cached, the layout does
// not admit the shape, or keys or values are beyond 2^62 bytes; the message lists all reasons.
Status validate_kv_cache_shape(const KVCacheShape& shape);

// Contiguous views over two memory blocks of key_bytes() and value_bytes(), aligned to 16 bytes.
// They own nothing: the memory must outlive the work that uses the views.
Result<KVCacheView> make_kv_cache_view(const KVCacheShape& shape, void* key, void* value);

}  // namespace paceline
