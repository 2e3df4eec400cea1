// Keys and values of one request, row by row: from the paged cache, straight from the
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
#include "kernels/cpu/unshuffle-inl.h"

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
  bool packed = false;  // side by side
};

class PagedReader {
 public:
  PagedReader(const AttentionParams& p, int32_t req)
      : p_(p), blocks_(p.block_table + req * p.block_table_stride) {}

  // Rows of the tokens [token, token + count) of a KV head; `scratch` is room for kRowsAtOnce of
  // float32, used where the cache does not hold rows.
  Rows rows(Side side, int32_t kv_head, int32_t token, int32_t count, float* scratch) const {
    Rows rows{{}, count, p_.cache.dtype};
    if (p_.cache.layout == KVCacheLayout::kShuffle) {
      unshuffle(side, kv_head, token, count, scratch, rows);
      return rows;
    }
    const void* base = side == kKeys ? p_.cache.key : p_.cache.value;
    const CacheStrides& strides = side == kKeys ? p_.cache.key_strides : p_.cache.value_strides;
    const int32_t block_size = p_.cache.block_size;
    for (int32_t i = 0; i < count;) {
      const int32_t offset = (token + i) % block_size;
      int64_t at = nhd_offset(strides, {blocks_[(token + i) / block_size], kv_head, offset, 0});
      for (const int32_t end = std::min(count, i + block_size - offset); i < end; ++i) {
        rows.at[i] = element_at(p_.cache.dtype, base, at);
        at += strides.token;
      }
    }
    return rows;
  }

  // Where the bytes of those rows lie, a row's worth at a time, to be fetched ahead: in NHD the
  // rows themselves, in SHUFFLE the first block's pieces in the order of memory.
  Rows places(Side side, int32_t kv_head, int32_t token, int32_t count) const {
    if (p_.cache.layout == KVCacheLayout::kNHD) {
      return rows(side, kv_head, token, count, nullptr);
    }
    const int32_t offset = token % p_.cache.block_size;
    const auto width = static_cast<int64_t>(dtype_size(p_.cache.dtype));
    const CacheElement e{blocks_[token / p_.cache.block_size], kv_head, offset, 0};
    const CacheStrides& strides = side == kKeys ? p_.cache.key_strides : p_.cache.value_strides;
    const auto* first = static_cast<const std::byte*>(
        element_at(p_.cache.dtype, side == kKeys ? p_.cache.key : p_.cache.value,
                   side == kKeys ? key_offset(p_.cache, e) : value_offset(p_.cache, e)));
    const int64_t row_bytes = (side == kKeys ? p_.head_size : p_.head_size_v) * width;
    // A group: the pieces of `count` tokens, or the columns of x tokens.
    const int64_t group_bytes = side == kKeys ? count * kPieceBytes : p_.head_size_v * kPieceBytes;
    Rows places{{}, count, p_.cache.dtype};
    for (int32_t i = 0; i < count; ++i) {
      const int64_t byte = i * row_bytes;
      places.at[i] = first + byte / group_bytes * strides.group * width + byte % group_bytes;
    }
    return places;
  }

  // Scales of rows; 1 where there is none.
  bool has_scale(Side side) const { return scales(side).data != nullptr; }
  float scale(Side side, int32_t kv_head, int32_t token) const {
    const int32_t block_size = p_.cache.block_size;
    return scale_of(scales(side), {blocks_[token / block_size], kv_head, token % block_size, 0});
  }

 private:
  const KVScale& scales(Side side) const {
    return side == kKeys ? p_.cache.k_scale : p_.cache.v_scale;
  }

  void unshuffle(Side side, int32_t kv_head, int32_t token, int32_t count, float* scratch,
                 Rows& rows) const {
    const int64_t size = side == kKeys ? p_.head_size : p_.head_size_v;
    const auto row_bytes = size * static_cast<int64_t>(dtype_size(p_.cache.dtype));
    auto* memory = reinterpret_cast<std::byte*>(scratch);
    const int32_t block_size = p_.cache.block_size;
    for (int32_t i = 0; i < count;) {
      const int32_t offset = (token + i) % block_size;
      const CacheElement e{blocks_[(token + i) / block_size], kv_head, offset, 0};
      std::byte* dst = memory + i * row_bytes;
      i += side == kKeys ? shuffled_key(e, dst)
                         : shuffled_values(e, std::min(count - i, block_size - offset), dst);
    }
    for (int32_t i = 0; i < count; ++i) {
      rows.at[i] = memory + i * row_bytes;
    }
    rows.packed = true;
  }

  int32_t shuffled_key(const CacheElement& e, std::byte* dst) const {
    const CacheParams& cache = p_.cache;
    const int64_t at = shuffle_key_offset(cache.key_strides, cache.x, e);
    unshuffle_key(static_cast<const std::byte*>(element_at(cache.dtype, cache.key, at)),
                  cache.key_strides.group * static_cast<int64_t>(dtype_size(cache.dtype)),
                  p_.head_size / cache.x, dst);
    return 1;
  }

  // The tokens of one group of x: as many as are asked for; returns how many that are.
  int32_t shuffled_values(CacheElement e, int32_t left, std::byte* dst) const {
    const CacheParams& cache = p_.cache;
    const int32_t first = e.token % cache.x;
    const int32_t count = std::min(left, cache.x - first);
    e.token -= first;
    const int64_t at = shuffle_value_offset(cache.value_strides, cache.x, e);
    unshuffle_values(static_cast<int32_t>(dtype_size(cache.dtype)),
                     static_cast<const std::byte*>(element_at(cache.dtype, cache.value, at)),
                     cache.value_strides.token, first, count, p_.head_size_v, dst);
    return count;
  }

  const AttentionParams& p_;
  const int32_t* blocks_;
};

class DirectReader {
 public:
  DirectReader(const AttentionParams& p, int32_t req)
      : p_(p), first_token_(p.query_start_loc[req]) {}

  Rows rows(Side side, int32_t kv_head, int32_t token, int32_t count, float* scratch) const {
    Rows rows{{}, count, p_.dtype};
    const bool unchanged = lies_in_rows(side);
    const int64_t size = side == kKeys ? p_.head_size : p_.head_size_v;
    for (int32_t i = 0; i < count; ++i) {
      rows.at[i] = row(side, kv_head, token + i);
      if (!unchanged) {
        float* dst = scratch + i * size;
        to_float_row(p_.dtype, rows.at[i], size, dst);
        const float scale = scale_of_row(side, kv_head, dst, size);
        for (int64_t d = 0; d < size; ++d) {
          dst[d] = code_of(p_.cache.dtype, dst[d] / scale);
        }
        rows.at[i] = dst;
      }
    }
    rows.dtype = unchanged ? p_.dtype : DType::kFloat32;
    rows.packed = !unchanged;
    return rows;
  }

  Rows places(Side side, int32_t kv_head, int32_t token, int32_t count) const {
    Rows places{{}, count, p_.dtype};
    for (int32_t i = 0; i < count; ++i) {
      places.at[i] = row(side, kv_head, token + i);
    }
    return places;
  }
  bool lies_in_rows(Side side) const {  // rounding is idempotent
    return !has_scale(side) && (p_.cache.dtype == DType::kFloat32 || p_.cache.dtype == p_.dtype);
  }
  bool has_scale(Side side) const {
    return (side == kKeys ? p_.cache.k_scale : p_.cache.v_scale).data != nullptr;
  }
  float scale(Side side, int32_t kv_head, int32_t token) const {
    if (p_.cache.scale_kind != KVScaleKind::kPerTokenHead) {
      return scale_of_row(side, kv_head, nullptr, 0);
    }
    const int64_t size = side == kKeys ? p_.head_size : p_.head_size_v;
    float largest = 0.0F;
    const void* source = row(side, kv_head, token);
    for (int64_t d = 0; d < size; ++d) {
      largest = larger_magnitude(largest, load_float(p_.dtype, source, d));
    }
    return dynamic_scale(p_.cache.dtype, largest);
  }

 private:
  const void* row(Side side, int32_t kv_head, int32_t token) const {
    const TokenTensor& tensor = side == kKeys ? p_.k : p_.v;
    return element_at(p_.dtype, tensor.data,
                      (first_token_ + token) * tensor.token_stride + kv_head * tensor.head_stride);
  }
  float scale_of_row(Side side, int32_t kv_head, const float* values, int64_t size) const {
    if (p_.cache.scale_kind == KVScaleKind::kPerTokenHead) {
      return dynamic_scale_of_row(p_.cache.dtype, values, size);
    }
    return scale_of(side == kKeys ? p_.cache.k_scale : p_.cache.v_scale, {0, kv_head, 0, 0});
  }

  const AttentionParams& p_;
  int64_t first_token_;
};

// Rows of a chunk that the gather strategy has copied: tokens from `chunk_start` on.
class GatheredReader {
 public:
  GatheredReader(const AttentionParams& p, int64_t first_row, int32_t chunk_start)
      : p_(p), first_row_(first_row - chunk_start) {}

  Rows rows(Side side, int32_t kv_head, int32_t token, int32_t count, float* /*scratch*/) const {
    Rows rows{{}, count, p_.cache.dtype};
    const void* base = side == kKeys ? p_.gather.key : p_.gather.value;
    const int64_t size = side == kKeys ? p_.head_size : p_.head_size_v;
    for (int32_t i = 0; i < count; ++i) {
      rows.at[i] = element_at(p_.cache.dtype, base, row(kv_head, token + i) * size);
    }
    return rows;
  }

  Rows places(Side side, int32_t kv_head, int32_t token, int32_t count) const {
    return rows(side, kv_head, token, count, nullptr);
  }
  bool has_scale(Side side) const {
    return (side == kKeys ? p_.cache.k_scale : p_.cache.v_scale).data != nullptr;
  }
  float scale(Side side, int32_t kv_head, int32_t token) const {
    if (p_.cache.scale_kind == KVScaleKind::kPerTokenHead) {
      return p_.gather
          .scales[int64_t{side} * p_.gather.tokens * p_.num_kv_heads + row(kv_head, token)];
    }
    return scale_of(side == kKeys ? p_.cache.k_scale : p_.cache.v_scale, {0, kv_head, 0, 0});
  }

 private:
  int64_t row(int32_t kv_head, int32_t token) const {
    return (first_row_ + token) * p_.num_kv_heads + kv_head;
  }

  const AttentionParams& p_;
  int64_t first_row_;
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
