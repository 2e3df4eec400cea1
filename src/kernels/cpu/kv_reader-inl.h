// Keys and values of one request and KV head as rows of float32, from the paged cache or straight
// from the step's own tensors. Both give the same bits for the same token: what the cache holds, or
// would hold.
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
constexpr int32_t kRowsAtOnce = 64;

// `count` rows, `stride` floats apart.
struct KvRows {
  const float* data;
  int64_t stride;
  int32_t count;
};

inline float scale_or_one(const float* scale) { return scale != nullptr ? *scale : 1.0F; }

class PagedReader {
 public:
  PagedReader(const AttentionParams& p, int32_t req, int32_t kv_head)
      : cache_(p.cache),
        blocks_(p.block_table + req * p.block_table_stride),
        kv_head_(kv_head),
        head_size_(p.head_size),
        k_scale_(scale_or_one(p.cache.k_scale)),
        v_scale_(scale_or_one(p.cache.v_scale)) {}

  // Rows of tokens [token, token + count), at most `max_count`; `rows` is room for kRowsAtOnce of
  // them.
  KvRows keys(int32_t token, int32_t max_count, float* rows) const {
    if (cache_.layout == KVCacheLayout::kShuffle) {
      return copy_rows(token, max_count, rows, [&](const CacheElement& e, int32_t, float* dst) {
        shuffled_key(e, dst);
        return 1;
      });
    }
    return nhd(cache_.key, cache_.key_strides, k_scale_, token, max_count, rows);
  }
  KvRows values(int32_t token, int32_t max_count, float* rows) const {
    if (cache_.layout == KVCacheLayout::kShuffle) {
      return copy_rows(token, max_count, rows,
                       [&](const CacheElement& e, int32_t left, float* dst) {
                         return shuffled_values(e, left, dst);
                       });
    }
    return nhd(cache_.value, cache_.value_strides, v_scale_, token, max_count, rows);
  }

 private:
  KvRows nhd(const void* base, const CacheStrides& strides, float scale, int32_t token,
             int32_t max_count, float* rows) const {
    const int32_t block_size = cache_.block_size;
    if (cache_.dtype == DType::kFloat32 && scale == 1.0F && block_size >= 16) {
      const CacheElement e{blocks_[token / block_size], kv_head_, token % block_size, 0};
      return {static_cast<const float*>(base) + nhd_offset(strides, e), strides.token,
              std::min({max_count, kRowsAtOnce, block_size - e.token})};
    }
    return copy_rows(token, max_count, rows, [&](const CacheElement& e, int32_t, float* dst) {
      to_float_row(cache_.dtype, element_at(cache_.dtype, base, nhd_offset(strides, e)), head_size_,
                   scale, dst);
      return 1;
    });
  }

  // copy(element, tokens left in its block and in the run, destination) returns how many rows it
  // wrote.
  template <typename Copy>
  KvRows copy_rows(int32_t token, int32_t max_count, float* rows, const Copy& copy) const {
    const int32_t count = std::min(max_count, kRowsAtOnce);
    const int32_t block_size = cache_.block_size;
    for (int32_t i = 0; i < count;) {
      const int32_t offset = (token + i) % block_size;
      const CacheElement e{blocks_[(token + i) / block_size], kv_head_, offset, 0};
      i += copy(e, std::min(count - i, block_size - offset), rows + int64_t{i} * head_size_);
    }
    return {rows, head_size_, count};
  }

  void shuffled_key(CacheElement e, float* dst) const {
    for (; e.dim < head_size_; e.dim += cache_.x) {
      const int64_t at = shuffle_key_offset(cache_.key_strides, cache_.x, e);
      to_float_row(cache_.dtype, element_at(cache_.dtype, cache_.key, at), cache_.x, k_scale_,
                   dst + e.dim);
    }
  }

  // The tokens of one group of x lie side by side: turn them into rows.
  int32_t shuffled_values(CacheElement e, int32_t left, float* dst) const {
    const int32_t count = std::min(left, cache_.x - e.token % cache_.x);
    for (; e.dim < head_size_; ++e.dim) {
      const int64_t at = shuffle_value_offset(cache_.value_strides, cache_.x, e);
      float column[16];
      to_float_row(cache_.dtype, element_at(cache_.dtype, cache_.value, at), count, v_scale_,
                   column);
      for (int32_t t = 0; t < count; ++t) {
        dst[int64_t{t} * head_size_ + e.dim] = column[t];
      }
    }
    return count;
  }

  const CacheParams& cache_;
  const int32_t* blocks_;
  int32_t kv_head_;
  int32_t head_size_;
  float k_scale_;
  float v_scale_;
};

class DirectReader {
 public:
  DirectReader(const AttentionParams& p, int32_t req, int32_t kv_head)
      : p_(p),
        first_token_(p.query_start_loc[req]),
        kv_head_(kv_head),
        k_scale_(scale_or_one(p.cache.k_scale)),
        v_scale_(scale_or_one(p.cache.v_scale)) {}

  KvRows keys(int32_t token, int32_t max_count, float* rows) const {
    return read(p_.k, k_scale_, token, max_count, rows);
  }
  KvRows values(int32_t token, int32_t max_count, float* rows) const {
    return read(p_.v, v_scale_, token, max_count, rows);
  }

 private:
  KvRows read(const TokenTensor& tensor, float scale, int32_t token, int32_t max_count,
              float* rows) const {
    const int32_t count = std::min(max_count, kRowsAtOnce);
    const int64_t at = (first_token_ + token) * tensor.token_stride + kv_head_ * tensor.head_stride;
    const bool unchanged = p_.cache.dtype == DType::kFloat32 && scale == 1.0F;
    if (p_.dtype == DType::kFloat32 && unchanged) {
      return {static_cast<const float*>(tensor.data) + at, tensor.token_stride, count};
    }
    for (int32_t i = 0; i < count; ++i) {
      float* row = rows + int64_t{i} * p_.head_size;
      to_float_row(p_.dtype, element_at(p_.dtype, tensor.data, at + i * tensor.token_stride),
                   p_.head_size, 1.0F, row);
      for (int32_t d = 0; !unchanged && d < p_.head_size; ++d) {
        row[d] = round_through(p_.cache.dtype, scale, row[d]);
      }
    }
    return {rows, p_.head_size, count};
  }

  const AttentionParams& p_;
  int64_t first_token_;
  int32_t kv_head_;
  float k_scale_;
  float v_scale_;
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
