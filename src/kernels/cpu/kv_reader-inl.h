// Keys and values of one request and KV head as rows of float32, from the paged cache, straight
// from the step's own tensors, or from a gathered chunk. All give the same bits for the same token:
// what the cache holds, or would hold.
#if defined(PACELINE_KV_READER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_KV_READER_INL_H_
#undef PACELINE_KV_READER_INL_H_
#else
#define PACELINE_KV_READER_INL_H_
#endif

#include "attention/params.h"
#include "base/float_rows.h"
#include "device/cpu/simd/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {

// Most rows that a reader returns at once: 32 KB of float32 at head_size 128.
constexpr int32_t kRowsAtOnce = 32;

// `count` rows, `stride` floats apart.
struct KvRows {
  const float* data;
  int64_t stride;
  int32_t count;
};

class PagedReader {
 public:
  PagedReader(const AttentionParams& p, int32_t req, int32_t kv_head)
      : cache_(p.cache),
        blocks_(p.block_table + req * p.block_table_stride),
        kv_head_(kv_head),
        head_size_(p.head_size),
        head_size_v_(p.head_size_v),
        plain_(p.cache.dtype == DType::kFloat32 && p.cache.block_size >= 16) {}

  // Rows of tokens [token, token + count), at most `max_count`; `rows` is room for kRowsAtOnce of
  // them.
  KvRows keys(int32_t token, int32_t max_count, float* rows) const {
    if (cache_.layout == KVCacheLayout::kShuffle) {
      return copy_rows(head_size_, token, max_count, rows,
                       [&](const CacheElement& e, int32_t, float* dst) {
                         shuffled_key(e, dst);
                         return 1;
                       });
    }
    return nhd(cache_.key, cache_.key_strides, cache_.k_scale, head_size_, token, max_count, rows);
  }
  KvRows values(int32_t token, int32_t max_count, float* rows) const {
    if (cache_.layout == KVCacheLayout::kShuffle) {
      return copy_rows(head_size_v_, token, max_count, rows,
                       [&](const CacheElement& e, int32_t left, float* dst) {
                         return shuffled_values(e, left, dst);
                       });
    }
    return nhd(cache_.value, cache_.value_strides, cache_.v_scale, head_size_v_, token, max_count,
               rows);
  }

 private:
  KvRows nhd(const void* base, const CacheStrides& strides, const KVScale& scale, int32_t size,
             int32_t token, int32_t max_count, float* rows) const {
    const int32_t block_size = cache_.block_size;
    if (plain_ && scale.data == nullptr) {
      const CacheElement e{blocks_[token / block_size], kv_head_, token % block_size, 0};
      return {static_cast<const float*>(base) + nhd_offset(strides, e), strides.token,
              std::min({max_count, kRowsAtOnce, block_size - e.token})};
    }
    return copy_rows(size, token, max_count, rows, [&](CacheElement e, int32_t left, float* dst) {
      const int32_t count = left;
      const void* src = element_at(cache_.dtype, base, nhd_offset(strides, e));
      const int64_t step = strides.token;
      for (int32_t i = 0; i < count; ++i, ++e.token) {
        to_float_row(cache_.dtype, element_at(cache_.dtype, src, i * step), size,
                     scale_of(scale, e), dst + int64_t{i} * size);
      }
      return count;
    });
  }

  // copy(element, tokens left in its block and in the run, destination) returns how many rows it
  // wrote.
  template <typename Copy>
  KvRows copy_rows(int32_t size, int32_t token, int32_t max_count, float* rows,
                   const Copy& copy) const {
    const int32_t count = std::min(max_count, kRowsAtOnce);
    const int32_t block_size = cache_.block_size;
    for (int32_t i = 0; i < count;) {
      const int32_t offset = (token + i) % block_size;
      const CacheElement e{blocks_[(token + i) / block_size], kv_head_, offset, 0};
      i += copy(e, std::min(count - i, block_size - offset), rows + int64_t{i} * size);
    }
    return {rows, size, count};
  }

  void shuffled_key(CacheElement e, float* dst) const {
    const float scale = scale_of(cache_.k_scale, e);
    for (; e.dim < head_size_; e.dim += cache_.x) {
      const int64_t at = shuffle_key_offset(cache_.key_strides, cache_.x, e);
      to_float_row(cache_.dtype, element_at(cache_.dtype, cache_.key, at), cache_.x, scale,
                   dst + e.dim);
    }
  }

  // The tokens of one group of x lie side by side: turn them into rows.
  int32_t shuffled_values(CacheElement e, int32_t left, float* dst) const {
    const int32_t count = std::min(left, cache_.x - e.token % cache_.x);
    float scales[16];
    for (int32_t t = 0; t < count; ++t) {
      scales[t] = scale_of(cache_.v_scale, {e.block, e.head, e.token + t, 0});
    }
    for (; e.dim < head_size_v_; ++e.dim) {
      const int64_t at = shuffle_value_offset(cache_.value_strides, cache_.x, e);
      float column[16];
      to_float_row(cache_.dtype, element_at(cache_.dtype, cache_.value, at), count, 1.0F, column);
      for (int32_t t = 0; t < count; ++t) {
        dst[int64_t{t} * head_size_v_ + e.dim] = column[t] * scales[t];
      }
    }
    return count;
  }

  const CacheParams& cache_;
  const int32_t* blocks_;
  int32_t kv_head_;
  int32_t head_size_;
  int32_t head_size_v_;
  bool plain_;  // rows of the cache are rows of float32, but for a scale
};

class DirectReader {
 public:
  DirectReader(const AttentionParams& p, int32_t req, int32_t kv_head)
      : p_(p), first_token_(p.query_start_loc[req]), kv_head_(kv_head) {}

  KvRows keys(int32_t token, int32_t max_count, float* rows) const {
    return read(p_.k, p_.cache.k_scale, p_.head_size, token, max_count, rows);
  }
  KvRows values(int32_t token, int32_t max_count, float* rows) const {
    return read(p_.v, p_.cache.v_scale, p_.head_size_v, token, max_count, rows);
  }

 private:
  KvRows read(const TokenTensor& tensor, const KVScale& scale, int32_t size, int32_t token,
              int32_t max_count, float* rows) const {
    const int32_t count = std::min(max_count, kRowsAtOnce);
    const int64_t at = (first_token_ + token) * tensor.token_stride + kv_head_ * tensor.head_stride;
    // Rounding is idempotent.
    const bool unchanged =
        scale.data == nullptr && (p_.cache.dtype == DType::kFloat32 || p_.cache.dtype == p_.dtype);
    if (p_.dtype == DType::kFloat32 && unchanged) {
      return {static_cast<const float*>(tensor.data) + at, tensor.token_stride, count};
    }
    for (int32_t i = 0; i < count; ++i) {
      float* row = rows + int64_t{i} * size;
      to_float_row(p_.dtype, element_at(p_.dtype, tensor.data, at + i * tensor.token_stride), size,
                   1.0F, row);
      if (!unchanged) {
        round_row(scale, size, row);
      }
    }
    return {rows, size, count};
  }

  void round_row(const KVScale& scale, int32_t size, float* row) const {
    const float factor = p_.cache.scale_kind == KVScaleKind::kPerTokenHead
                             ? dynamic_scale_of_row(p_.cache.dtype, row, size)
                             : scale_of(scale, {0, kv_head_, 0, 0});
    for (int32_t d = 0; d < size; ++d) {
      row[d] = round_through(p_.cache.dtype, factor, row[d]);
    }
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

  KvRows keys(int32_t token, int32_t max_count, float* rows) const {
    return read(p_.gather.key, p_.cache.k_scale, 0, p_.head_size, token, max_count, rows);
  }
  KvRows values(int32_t token, int32_t max_count, float* rows) const {
    return read(p_.gather.value, p_.cache.v_scale, 1, p_.head_size_v, token, max_count, rows);
  }

 private:
  KvRows read(const void* base, const KVScale& scale, int64_t which, int32_t size, int32_t token,
              int32_t max_count, float* rows) const {
    const int32_t count = std::min(max_count, kRowsAtOnce);
    for (int32_t i = 0; i < count; ++i) {
      const int64_t at = (first_row_ + token + i) * p_.num_kv_heads + kv_head_;
      const float factor = p_.cache.scale_kind == KVScaleKind::kPerTokenHead
                               ? p_.gather.scales[which * p_.gather.tokens * p_.num_kv_heads + at]
                               : scale_of(scale, {0, kv_head_, 0, 0});
      to_float_row(p_.cache.dtype, element_at(p_.cache.dtype, base, at * size), size, factor,
                   rows + int64_t{i} * size);
    }
    return {rows, size, count};
  }

  const AttentionParams& p_;
  int64_t first_row_;
  int32_t kv_head_;
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
