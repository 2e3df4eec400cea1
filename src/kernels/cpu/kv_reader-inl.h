// Keys and values of one request and KV head, row by row: from the paged cache, straight from the
// step's own tensors, or from a gathered chunk. All give the same for the same token: the codes
// that the cache holds, or would hold, and their scale.
#if defined(PACELINE_KV_READER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_KV_READER_INL_H_
#undef PACELINE_KV_READER_INL_H_
#else
#define PACELINE_KV_READER_INL_H_
#endif

#include <algorithm>

#include "attention/params.h"
#include "base/float_rows.h"
#include "device/cpu/simd/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {

// Most rows that are handled at once: 16 KB of float32 at head_size 128, half of an L1 cache.
constexpr int32_t kRowsAtOnce = 32;

enum Side : int { kKeys = 0, kValues = 1 };

// Rows of codes, wherever they lie.
struct Rows {
  const void* at[kRowsAtOnce];
  int32_t count;
  DType dtype;
};

class PagedReader {
 public:
  PagedReader(const AttentionParams& p, int32_t req, int32_t kv_head)
      : p_(p), blocks_(p.block_table + req * p.block_table_stride), kv_head_(kv_head) {}

  // Rows of the tokens [token, token + count); `scratch` is room for kRowsAtOnce of float32, used
  // where the cache does not hold rows.
  Rows rows(Side side, int32_t token, int32_t count, float* scratch) const {
    Rows rows{{}, count, p_.cache.dtype};
    if (p_.cache.layout == KVCacheLayout::kShuffle) {
      unshuffle(side, token, count, scratch, rows);
      return rows;
    }
    const void* base = side == kKeys ? p_.cache.key : p_.cache.value;
    const CacheStrides& strides = side == kKeys ? p_.cache.key_strides : p_.cache.value_strides;
    const int32_t block_size = p_.cache.block_size;
    for (int32_t i = 0; i < count;) {
      const int32_t offset = (token + i) % block_size;
      int64_t at = nhd_offset(strides, {blocks_[(token + i) / block_size], kv_head_, offset, 0});
      for (const int32_t end = std::min(count, i + block_size - offset); i < end; ++i) {
        rows.at[i] = element_at(p_.cache.dtype, base, at);
        at += strides.token;
      }
    }
    return rows;
  }

  // Whether rows() gives pointers to where the rows are, and does not use its scratch.
  bool lies_in_rows(Side /*side*/) const { return p_.cache.layout == KVCacheLayout::kNHD; }

  // Scales of rows; 1 where there is none.
  bool has_scale(Side side) const { return scales(side).data != nullptr; }
  float scale(Side side, int32_t token) const {
    const int32_t block_size = p_.cache.block_size;
    return scale_of(scales(side), {blocks_[token / block_size], kv_head_, token % block_size, 0});
  }

 private:
  const KVScale& scales(Side side) const {
    return side == kKeys ? p_.cache.k_scale : p_.cache.v_scale;
  }

  void unshuffle(Side side, int32_t token, int32_t count, float* scratch, Rows& rows) const {
    const int64_t size = side == kKeys ? p_.head_size : p_.head_size_v;
    const int32_t block_size = p_.cache.block_size;
    for (int32_t i = 0; i < count;) {
      const int32_t offset = (token + i) % block_size;
      const CacheElement e{blocks_[(token + i) / block_size], kv_head_, offset, 0};
      float* dst = scratch + i * size;
      i += side == kKeys ? shuffled_key(e, dst)
                         : shuffled_values(e, std::min(count - i, block_size - offset), dst);
    }
    for (int32_t i = 0; i < count; ++i) {
      rows.at[i] = scratch + i * size;
    }
    rows.dtype = DType::kFloat32;
  }

  int32_t shuffled_key(CacheElement e, float* dst) const {
    const CacheParams& cache = p_.cache;
    for (; e.dim < p_.head_size; e.dim += cache.x) {
      const int64_t at = shuffle_key_offset(cache.key_strides, cache.x, e);
      to_float_row(cache.dtype, element_at(cache.dtype, cache.key, at), cache.x, dst + e.dim);
    }
    return 1;
  }

  // The tokens of one group of x lie side by side: turns as many as are asked for into rows, and
  // returns how many that are.
  int32_t shuffled_values(CacheElement e, int32_t left, float* dst) const {
    const CacheParams& cache = p_.cache;
    const int32_t count = std::min(left, cache.x - e.token % cache.x);
    for (; e.dim < p_.head_size_v; ++e.dim) {
      const int64_t at = shuffle_value_offset(cache.value_strides, cache.x, e);
      float column[16];
      to_float_row(cache.dtype, element_at(cache.dtype, cache.value, at), count, column);
      for (int32_t t = 0; t < count; ++t) {
        dst[int64_t{t} * p_.head_size_v + e.dim] = column[t];
      }
    }
    return count;
  }

  const AttentionParams& p_;
  const int32_t* blocks_;
  int32_t kv_head_;
};

class DirectReader {
 public:
  DirectReader(const AttentionParams& p, int32_t req, int32_t kv_head)
      : p_(p), first_token_(p.query_start_loc[req]), kv_head_(kv_head) {}

  Rows rows(Side side, int32_t token, int32_t count, float* scratch) const {
    Rows rows{{}, count, p_.dtype};
    const bool unchanged = lies_in_rows(side);
    const int64_t size = side == kKeys ? p_.head_size : p_.head_size_v;
    for (int32_t i = 0; i < count; ++i) {
      rows.at[i] = row(side, token + i);
      if (!unchanged) {
        float* dst = scratch + i * size;
        to_float_row(p_.dtype, rows.at[i], size, dst);
        const float scale = scale_of_row(side, dst, size);
        for (int64_t d = 0; d < size; ++d) {
          dst[d] = code_of(p_.cache.dtype, dst[d] / scale);
        }
        rows.at[i] = dst;
      }
    }
    rows.dtype = unchanged ? p_.dtype : DType::kFloat32;
    return rows;
  }

  bool lies_in_rows(Side side) const {  // rounding is idempotent
    return !has_scale(side) && (p_.cache.dtype == DType::kFloat32 || p_.cache.dtype == p_.dtype);
  }
  bool has_scale(Side side) const {
    return (side == kKeys ? p_.cache.k_scale : p_.cache.v_scale).data != nullptr;
  }
  float scale(Side side, int32_t token) const {
    if (p_.cache.scale_kind != KVScaleKind::kPerTokenHead) {
      return scale_of_row(side, nullptr, 0);
    }
    const int64_t size = side == kKeys ? p_.head_size : p_.head_size_v;
    float largest = 0.0F;
    const void* source = row(side, token);
    for (int64_t d = 0; d < size; ++d) {
      largest = larger_magnitude(largest, load_float(p_.dtype, source, d));
    }
    return dynamic_scale(p_.cache.dtype, largest);
  }

 private:
  const void* row(Side side, int32_t token) const {
    const TokenTensor& tensor = side == kKeys ? p_.k : p_.v;
    return element_at(p_.dtype, tensor.data,
                      (first_token_ + token) * tensor.token_stride + kv_head_ * tensor.head_stride);
  }
  float scale_of_row(Side side, const float* values, int64_t size) const {
    if (p_.cache.scale_kind == KVScaleKind::kPerTokenHead) {
      return dynamic_scale_of_row(p_.cache.dtype, values, size);
    }
    return scale_of(side == kKeys ? p_.cache.k_scale : p_.cache.v_scale, {0, kv_head_, 0, 0});
  }

  const AttentionParams& p_;
  int64_t first_token_;
  int32_t kv_head_;
};

// Rows of a chunk that the gather strategy has copied: tokens from `chunk_start` on.
class GatheredReader {
 public:
  GatheredReader(const AttentionParams& p, int64_t first_row, int32_t chunk_start, int32_t kv_head)
      : p_(p), first_row_(first_row - chunk_start), kv_head_(kv_head) {}

  Rows rows(Side side, int32_t token, int32_t count, float* /*scratch*/) const {
    Rows rows{{}, count, p_.cache.dtype};
    const void* base = side == kKeys ? p_.gather.key : p_.gather.value;
    const int64_t size = side == kKeys ? p_.head_size : p_.head_size_v;
    for (int32_t i = 0; i < count; ++i) {
      rows.at[i] = element_at(p_.cache.dtype, base, row(token + i) * size);
    }
    return rows;
  }

  bool lies_in_rows(Side /*side*/) const { return true; }
  bool has_scale(Side side) const {
    return (side == kKeys ? p_.cache.k_scale : p_.cache.v_scale).data != nullptr;
  }
  float scale(Side side, int32_t token) const {
    if (p_.cache.scale_kind == KVScaleKind::kPerTokenHead) {
      return p_.gather.scales[int64_t{side} * p_.gather.tokens * p_.num_kv_heads + row(token)];
    }
    return scale_of(side == kKeys ? p_.cache.k_scale : p_.cache.v_scale, {0, kv_head_, 0, 0});
  }

 private:
  int64_t row(int32_t token) const { return (first_row_ + token) * p_.num_kv_heads + kv_head_; }

  const AttentionParams& p_;
  int64_t first_row_;
  int32_t kv_head_;
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
