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

#include <cstring>

#include <hwy/cache_control.h>

#include "attention/split_plan.h"
#include "device/cpu/simd/dot-inl.h"
#include "kernels/cpu/kv_reader-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {

constexpr int32_t kFewRows = 8;

// Keys or vectors of values that R query rows take at a time: twelve accumulators, three of those
// and an operand fill the sixteen registers of AVX2. Two, where they are widened in pairs.
template <int R, typename T>
constexpr int kColumnsFor = R >= 3 && kWiden<T> == 1 ? 3
                            : R >= 3                 ? 2
                            : R == 2                 ? 4
                                                     : 8;

// Brings a line of a row that the next call will read towards the processor.
HWY_INLINE void fetch(const Rows& next, int32_t i, int64_t byte) {
  hwy::Prefetch(static_cast<const char*>(next.at[i]) + byte);
}

// Adds W vectors of the head dimension to the chains of R query rows and C keys.
template <int W, int R, int C, typename T>
HWY_INLINE void multiply_step(const float* q, int64_t n, const T* const (&key)[C], int64_t d,
                              Vec8 (&acc)[C][R]) {
  Vec8 k[C][W];
  HWY_UNROLL(16)
  for (int c = 0; c < C; ++c) {
    load_wide(key[c] + d, k[c]);
    HWY_UNROLL(16)
    for (int w = 0; w < W; ++w) {
      keep(k[c][w]);
    }
  }
  HWY_UNROLL(16)
  for (int w = 0; w < W; ++w) {
    HWY_UNROLL(16)
    for (int r = 0; r < R; ++r) {
      Vec8 x = load8(q + r * n + d + int64_t{8} * w);
      keep(x);
      HWY_UNROLL(16)
      for (int c = 0; c < C; ++c) {
        acc[c][r] = mul_add(x, k[c][w], acc[c][r]);
      }
    }
  }
}

// products[r][j..] for R query rows and C keys: eight chains over the head dimension, then the
// tree.
template <int R, int C, typename T>
HWY_INLINE void few_products(const float* q, int64_t n, const Rows& keys, int32_t j,
                             float* products) {
  constexpr int kWide = kWiden<T>;
  const T* key[C];
  Vec8 acc[C][R];
  HWY_UNROLL(16)
  for (int c = 0; c < C; ++c) {
    key[c] = static_cast<const T*>(keys.at[j + c]);
    HWY_UNROLL(16)
    for (int r = 0; r < R; ++r) {
      acc[c][r] = zero8();
    }
  }
  int64_t d = 0;
  HWY_UNROLL(2)
  for (; d + int64_t{8} * kWide <= n; d += int64_t{8} * kWide) {
    multiply_step<kWide>(q, n, key, d, acc);
  }
  if (kWide > 1 && d < n) {
    multiply_step<1>(q, n, key, d, acc);
  }
  HWY_UNROLL(16)
  for (int c = 0; c < C; ++c) {
    float sums[4];
    if constexpr (R == 4) {
      sum8x4(acc[c], sums);
    } else {
      HWY_UNROLL(16)
      for (int r = 0; r < R; ++r) {
        sums[r] = sum8(acc[c][r]);
      }
    }
    HWY_UNROLL(16)
    for (int r = 0; r < R; ++r) {
      products[r * kSplitTokens + j + c] = sums[r];
    }
  }
}

template <int R, int C, typename T>
HWY_INLINE int32_t fetch_and_multiply(const float* q, int64_t n, const Rows& keys, const Rows& next,
                                      int32_t j, float* products) {
  for (int32_t i = j; i < j + C; ++i) {
    for (int64_t byte = 0; byte < n * static_cast<int64_t>(sizeof(T)); byte += 64) {
      fetch(next, i, byte);
    }
  }
  few_products<R, C, T>(q, n, keys, j, products);
  return C;
}

template <int R, typename T>
HWY_INLINE void few_rows_products(const float* q, int64_t n, const Rows& keys, const Rows& next,
                                  float* products) {
  constexpr int kColumns = kColumnsFor<R, T>;
  for (int32_t j = 0; j < keys.count;) {
    const int32_t left = keys.count - j;
    if (left >= kColumns && (kColumns != 3 || left != 4)) {
      j += fetch_and_multiply<R, kColumns, T>(q, n, keys, next, j, products);
    } else if (left >= 2) {
      j += fetch_and_multiply<R, 2, T>(q, n, keys, next, j, products);
    } else {
      j += fetch_and_multiply<R, 1, T>(q, n, keys, next, j, products);
    }
  }
}

// Rows as float32 side by side: widened to scratch, unless they are that already.
static HWY_NOINLINE const float* pack_rows(const Rows& rows, int64_t n, float* scratch) {
  if (rows.packed && rows.dtype == DType::kFloat32) {
    return static_cast<const float*>(rows.at[0]);
  }
  for (int32_t i = 0; i < rows.count; ++i) {
    to_float_row(rows.dtype, rows.at[i], n, scratch + i * n);
  }
  return scratch;
}

// Fetches part `part` of `parts` of the rows.
HWY_INLINE void fetch_part(const Rows& next, int64_t n, int32_t part, int32_t parts) {
  const int64_t bytes = n * static_cast<int64_t>(dtype_size(next.dtype));
  for (int32_t i = part * next.count / parts; i < (part + 1) * next.count / parts; ++i) {
    for (int64_t byte = 0; byte < bytes; byte += 64) {
      fetch(next, i, byte);
    }
  }
}

// products[r][j] = q row r . key j, for many rows.
static HWY_NOINLINE void multiply_many(const float* q, int32_t num_rows, int64_t n,
                                       const Rows& keys, const Rows& next, float* scratch,
                                       float* products) {
  constexpr int32_t kRows = 6;  // between two fetches
  const float* packed = pack_rows(keys, n, scratch);
  const auto parts = static_cast<int32_t>(ceil_div(num_rows, kRows));
  for (int32_t part = 0; part < parts; ++part) {
    fetch_part(next, n, part, parts);
    const int32_t row = part * kRows;
    dot_rows(q + row * n, n, std::min(kRows, num_rows - row), packed, n, keys.count, n,
             [&](int64_t r, int64_t c, const float* sums, auto count) {
               std::memcpy(products + (row + r) * kSplitTokens + c, sums, count * sizeof(float));
             });
  }
}

// products[r][j] = q row r . key j, for num_rows rows of n floats and all keys.
static HWY_NOINLINE void multiply_keys(const float* q, int32_t num_rows, int64_t n,
                                       const Rows& keys, const Rows& next, float* scratch,
                                       float* products) {
  if (num_rows > kFewRows) {
    multiply_many(q, num_rows, n, keys, next, scratch, products);
    return;
  }
  with_type(keys.dtype, keys.at[0], [&](const auto* typed) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
    for (int32_t row = 0; row < num_rows;) {
      const int block = std::min(num_rows - row, 4);
      const float* rows = q + row * n;
      float* out = products + int64_t{row} * kSplitTokens;
      if (block == 4) {
        few_rows_products<4, T>(rows, n, keys, next, out);
      } else if (block == 3) {
        few_rows_products<3, T>(rows, n, keys, next, out);
      } else if (block == 2) {
        few_rows_products<2, T>(rows, n, keys, next, out);
      } else {
        few_rows_products<1, T>(rows, n, keys, next, out);
      }
      row += block;
    }
  });
}

// out[r][d..d+8C) += sum over rows [from, to) of weight[r][j] value[j][d..]: one chain over j for
// every element.
template <int R, int C, typename T>
HWY_INLINE void few_sums(const float* weights, const Rows& values, int32_t from, int32_t to,
                         int64_t d, int64_t n, const Rows& next, float* out) {
  constexpr int kWide = C % kWiden<T> == 0 ? kWiden<T> : 1;
  Vec8 acc[R][C];
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(16)
    for (int c = 0; c < C; ++c) {
      acc[r][c] = load8(out + r * n + d + int64_t{8} * c);
    }
  }
  HWY_UNROLL(2)
  for (int32_t j = from; j < to; ++j) {
    fetch(next, j, d * static_cast<int64_t>(sizeof(T)));
    const T* value = static_cast<const T*>(values.at[j]) + d;
    Vec8 v[C / kWide][kWide];
    HWY_UNROLL(16)
    for (int c = 0; c < C / kWide; ++c) {
      load_wide(value + int64_t{8} * kWide * c, v[c]);
      HWY_UNROLL(16)
      for (int w = 0; w < kWide; ++w) {
        keep(v[c][w]);
      }
    }
    HWY_UNROLL(16)
    for (int r = 0; r < R; ++r) {
      Vec8 weight = set8(weights[r * kSplitTokens + j]);
      keep(weight);
      HWY_UNROLL(16)
      for (int c = 0; c < C; ++c) {
        acc[r][c] = mul_add(weight, v[c / kWide][c % kWide], acc[r][c]);
      }
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(16)
    for (int c = 0; c < C; ++c) {
      store8(acc[r][c], out + r * n + d + int64_t{8} * c);
    }
  }
}

template <int R, typename T>
HWY_INLINE void few_rows_sums(const float* weights, const Rows& values, int32_t from, int32_t to,
                              int64_t n, const Rows& next, float* out) {
  constexpr int kColumns = kColumnsFor<R, T>;
  constexpr int64_t kFloats = int64_t{8} * kColumns;
  int64_t d = 0;
  for (; d + kFloats <= n; d += kFloats) {
    few_sums<R, kColumns, T>(weights, values, from, to, d, n, next, out);
  }
  for (; d + 16 <= n; d += 16) {
    few_sums<R, 2, T>(weights, values, from, to, d, n, next, out);
  }
  for (; d < n; d += 8) {
    few_sums<R, 1, T>(weights, values, from, to, d, n, next, out);
  }
}

// R rows: out[r] += weights[r] times the values [from, to). Many rows share packed values.
template <int R>
HWY_INLINE void add_values(bool packed, const float* weights, const Rows& values, int32_t from,
                           int32_t to, int64_t n, const Rows& next, float* out) {
  if (packed) {
    const auto* rows = static_cast<const float*>(values.at[0]);
    accumulate_rows<R>(weights + from, kSplitTokens, rows + from * n, n, to - from, n, out, n);
    return;
  }
  with_type(values.dtype, values.at[0], [&](const auto* typed) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
    few_rows_sums<R, T>(weights, values, from, to, n, next, out);
  });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
