// The two products of attention over rows of keys and values, wherever they lie and of whatever
// type: scores' products, and weighted sums. A result's bits depend on its own operands only.
//
// Few query rows, as in decodes: the rows are read where they lie and widened on the way, and those
// of the next call are fetched meanwhile: blocks lie anywhere, so the processor cannot guess them.
// Many query rows, as in tiles of a prompt: the rows are widened and packed once, and then used by
// all of them.
#if defined(PACELINE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_ROWS_INL_H_
#undef PACELINE_ROWS_INL_H_
#else
#define PACELINE_ROWS_INL_H_
#endif

#include <hwy/cache_control.h>

#include "attention/split_plan.h"
#include "device/cpu/simd/dot-inl.h"
#include "kernels/cpu/kv_reader-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {

constexpr int32_t kFewRows = 8;

// Eight accumulators: R query rows by 8 / R keys or vectors of values.
template <int R>
constexpr int kColumnsFor = 8 / R;
constexpr int few_block(int32_t rows_left) { return rows_left >= 4 ? 4 : rows_left >= 2 ? 2 : 1; }

// Brings a row of the next call towards the processor.
HWY_INLINE void fetch_row(const Rows* next, int32_t i, int64_t bytes) {
  if (next != nullptr && i < next->count) {
    const auto* row = static_cast<const char*>(next->at[i]);
    for (int64_t at = 0; at < bytes; at += 64) {
      hwy::Prefetch(row + at);
    }
  }
}

// products[r][j..] for R query rows and C keys: eight chains over the head dimension, then the
// tree.
template <int R, int C, typename T>
HWY_INLINE void few_products(const float* q, int64_t n, const Rows& keys, int32_t j,
                             float* products) {
  const T* key[C];
  Vec8 acc[R * C];
  for (int c = 0; c < C; ++c) {
    key[c] = static_cast<const T*>(keys.at[j + c]);
    for (int r = 0; r < R; ++r) {
      acc[r * C + c] = zero8();
    }
  }
  for (int64_t d = 0; d < n; d += 8) {
    Vec8 k[C];
    for (int c = 0; c < C; ++c) {
      k[c] = load8(key[c] + d);
    }
    for (int r = 0; r < R; ++r) {
      const Vec8 x = load8(q + r * n + d);
      for (int c = 0; c < C; ++c) {
        acc[r * C + c] = mul_add(x, k[c], acc[r * C + c]);
      }
    }
  }
  float sums[R * C];
  if constexpr (R * C % 4 == 0) {
    for (int i = 0; i < R * C; i += 4) {
      sum8x4(&acc[i], &sums[i]);
    }
  } else {
    for (int i = 0; i < R * C; ++i) {
      sums[i] = sum8(acc[i]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      products[r * kSplitTokens + j + c] = sums[r * C + c];
    }
  }
}

template <int R, typename T>
HWY_INLINE void few_rows_products(const float* q, int64_t n, const Rows& keys, const Rows* next,
                                  int64_t next_bytes, float* products) {
  constexpr int kColumns = kColumnsFor<R>;
  int32_t j = 0;
  for (; j + kColumns <= keys.count; j += kColumns) {
    for (int c = 0; c < kColumns; ++c) {
      fetch_row(next, j + c, next_bytes);
    }
    few_products<R, kColumns, T>(q, n, keys, j, products);
  }
  for (; j < keys.count; ++j) {
    fetch_row(next, j, next_bytes);
    few_products<R, 1, T>(q, n, keys, j, products);
  }
}

// Widens rows to float32 side by side, unless they are that already.
static HWY_NOINLINE const float* pack_rows(const Rows& rows, int64_t n, float* scratch) {
  if (rows.at[0] != scratch) {
    for (int32_t i = 0; i < rows.count; ++i) {
      to_float_row(rows.dtype, rows.at[i], n, scratch + i * n);
    }
  }
  return scratch;
}

// products[r][j] = q row r . key j, for num_rows rows of n floats and all keys. `next`: the rows
// that the next call will read, next_bytes each, or null.
static HWY_NOINLINE void multiply_keys(const float* q, int32_t num_rows, int64_t n,
                                       const Rows& keys, const Rows* next, int64_t next_bytes,
                                       float* scratch, float* products) {
  if (num_rows > kFewRows) {
    const float* packed = pack_rows(keys, n, scratch);
    dot_rows(q, n, num_rows, packed, n, keys.count, n,
             [&](int64_t r, int64_t c, const float* sums, auto count) {
               for (int i = 0; i < count; ++i) {
                 products[r * kSplitTokens + c + i] = sums[i];
               }
             });
    return;
  }
  with_type(keys.dtype, keys.at[0], [&](const auto* typed) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
    for (int32_t row = 0; row < num_rows;) {
      const int block = few_block(num_rows - row);
      const float* rows = q + row * n;
      float* out = products + int64_t{row} * kSplitTokens;
      const Rows* fetch = row == 0 ? next : nullptr;
      if (block == 4) {
        few_rows_products<4, T>(rows, n, keys, fetch, next_bytes, out);
      } else if (block == 2) {
        few_rows_products<2, T>(rows, n, keys, fetch, next_bytes, out);
      } else {
        few_rows_products<1, T>(rows, n, keys, fetch, next_bytes, out);
      }
      row += block;
    }
  });
}

// out[r][d..d+8C) += sum over rows [from, to) of weight[r][j] value[j][d..]: one chain over j for
// every element.
template <int R, int C, typename T>
HWY_INLINE void few_sums(const float* weights, const Rows& values, int32_t from, int32_t to,
                         int64_t d, int64_t n, const Rows* next, int64_t next_bytes, float* out) {
  Vec8 acc[R * C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      acc[r * C + c] = load8(out + r * n + d + int64_t{8} * c);
    }
  }
  for (int32_t j = from; j < to; ++j) {
    fetch_row(next, j, next_bytes);
    const T* value = static_cast<const T*>(values.at[j]) + d;
    Vec8 v[C];
    for (int c = 0; c < C; ++c) {
      v[c] = load8(value + int64_t{8} * c);
    }
    for (int r = 0; r < R; ++r) {
      const Vec8 w = set8(weights[r * kSplitTokens + j]);
      for (int c = 0; c < C; ++c) {
        acc[r * C + c] = mul_add(w, v[c], acc[r * C + c]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      store8(acc[r * C + c], out + r * n + d + int64_t{8} * c);
    }
  }
}

template <int R, typename T>
HWY_INLINE void few_rows_sums(const float* weights, const Rows& values, int32_t from, int32_t to,
                              int64_t n, const Rows* next, int64_t next_bytes, float* out) {
  constexpr int kColumns = kColumnsFor<R>;
  constexpr int64_t kFloats = int64_t{8} * kColumns;
  int64_t d = 0;
  for (; d + kFloats <= n; d += kFloats) {
    few_sums<R, kColumns, T>(weights, values, from, to, d, n, d == 0 ? next : nullptr, next_bytes,
                             out);
  }
  for (; d < n; d += 8) {
    few_sums<R, 1, T>(weights, values, from, to, d, n, nullptr, 0, out);
  }
}

// R rows: out[r] += weights[r] times the values [from, to). Many rows share packed values.
template <int R>
HWY_INLINE void add_values(bool packed, const float* weights, const Rows& values, int32_t from,
                           int32_t to, int64_t n, const Rows* next, int64_t next_bytes,
                           float* out) {
  if (from >= to) {
    return;
  }
  if (packed) {
    const auto* rows = static_cast<const float*>(values.at[0]);
    accumulate_rows<R>(weights + from, kSplitTokens, rows + from * n, n, to - from, n, out, n);
    return;
  }
  if constexpr (R != 3) {
    with_type(values.dtype, values.at[0], [&](const auto* typed) {
      using T = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
      few_rows_sums<R, T>(weights, values, from, to, n, next, next_bytes, out);
    });
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
