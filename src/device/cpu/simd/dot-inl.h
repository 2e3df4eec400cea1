// The two products that everything is made of: rows times rows (scores, GEMM) and weights times
// rows (values). A result's bits depend on its own operands only, never on the tile it was computed
// in.
#if defined(PACELINE_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_DOT_INL_H_
#undef PACELINE_DOT_INL_H_
#else
#define PACELINE_DOT_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "device/cpu/simd/vec8-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {

// sums[r][c] = dot(a row r, b row c) over n floats, n a multiple of 8: eight FMA chains, then the
// tree. R*C accumulators live in registers: at most 12, so that 3 rows of a and one of b fit beside
// them on AVX2.
template <int R, int C>
HWY_INLINE void dot_tile(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t n,
                         float (&sums)[R][C]) {
  Vec8 acc[R][C];
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(16)
    for (int c = 0; c < C; ++c) {
      acc[r][c] = zero8();
    }
  }
  for (int64_t i = 0; i < n; i += 8) {
    Vec8 x[R];
    HWY_UNROLL(16)
    for (int r = 0; r < R; ++r) {
      x[r] = load8(a + r * lda + i);
    }
    HWY_UNROLL(16)
    for (int c = 0; c < C; ++c) {
      Vec8 y = load8(b + c * ldb + i);
      keep(y);
      HWY_UNROLL(16)
      for (int r = 0; r < R; ++r) {
        acc[r][c] = mul_add(x[r], y, acc[r][c]);
      }
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    if constexpr (C % 4 == 0) {
      HWY_UNROLL(16)
      for (int c = 0; c < C; c += 4) {
        sum8x4(&acc[r][c], &sums[r][c]);
      }
    } else {
      HWY_UNROLL(16)
      for (int c = 0; c < C; ++c) {
        sums[r][c] = sum8(acc[r][c]);
      }
    }
  }
}

// Rows that go together: threes, and no lonely last one where two pairs do.
constexpr int row_block(int64_t rows_left) {
  return rows_left == 3 || rows_left >= 5 ? 3 : (rows_left == 1 ? 1 : 2);
}

// emit(r, c, sums, count) for every row r of a (m rows) and runs [c, c + count) of rows of b (n
// rows), dots of length k.
template <int R, typename Emit>
HWY_INLINE void dot_row_block(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t n,
                              int64_t k, int64_t first_row, const Emit& emit) {
  constexpr int kColumns = R == 1 ? 8 : 4;
  int64_t c = 0;
  for (; c + kColumns <= n; c += kColumns) {
    float sums[R][kColumns];
    dot_tile<R, kColumns>(a, lda, b + c * ldb, ldb, k, sums);
    for (int r = 0; r < R; ++r) {
      emit(first_row + r, c, sums[r], std::integral_constant<int, kColumns>());
    }
  }
  for (; c < n; ++c) {
    float sums[R][1];
    dot_tile<R, 1>(a, lda, b + c * ldb, ldb, k, sums);
    for (int r = 0; r < R; ++r) {
      emit(first_row + r, c, sums[r], std::integral_constant<int, 1>());
    }
  }
}

template <typename Emit>
HWY_INLINE void dot_rows(const float* a, int64_t lda, int64_t m, const float* b, int64_t ldb,
                         int64_t n, int64_t k, const Emit& emit) {
  for (int64_t row = 0; row < m;) {
    const int block = row_block(m - row);
    const float* rows = a + row * lda;
    if (block == 3) {
      dot_row_block<3>(rows, lda, b, ldb, n, k, row, emit);
    } else if (block == 2) {
      dot_row_block<2>(rows, lda, b, ldb, n, k, row, emit);
    } else {
      dot_row_block<1>(rows, lda, b, ldb, n, k, row, emit);
    }
    row += block;
  }
}

// out[r][d..d+8C) += sum over j of w[r][j] * v[j][d..]: one FMA chain over j for every element.
template <int R, int C>
HWY_INLINE void accumulate_tile(const float* w, int64_t ldw, const float* v, int64_t ldv,
                                int64_t tokens, float* out, int64_t ldo) {
  Vec8 acc[R][C];
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(16)
    for (int c = 0; c < C; ++c) {
      acc[r][c] = load8(out + r * ldo + int64_t{8} * c);
    }
  }
  for (int64_t j = 0; j < tokens; ++j) {
    Vec8 x[R];
    HWY_UNROLL(16)
    for (int r = 0; r < R; ++r) {
      x[r] = set8(w[r * ldw + j]);
    }
    HWY_UNROLL(16)
    for (int c = 0; c < C; ++c) {
      Vec8 y = load8(v + j * ldv + int64_t{8} * c);
      keep(y);
      HWY_UNROLL(16)
      for (int r = 0; r < R; ++r) {
        acc[r][c] = mul_add(x[r], y, acc[r][c]);
      }
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(16)
    for (int c = 0; c < C; ++c) {
      store8(acc[r][c], out + r * ldo + int64_t{8} * c);
    }
  }
}

// out[r][0..dim) += w[r] * v for R rows; dim a multiple of 8.
template <int R>
HWY_INLINE void accumulate_rows(const float* w, int64_t ldw, const float* v, int64_t ldv,
                                int64_t tokens, int64_t dim, float* out, int64_t ldo) {
  constexpr int kVectors = R == 1 ? 8 : 4;
  constexpr int64_t kFloats = int64_t{8} * kVectors;
  int64_t d = 0;
  for (; d + kFloats <= dim; d += kFloats) {
    accumulate_tile<R, kVectors>(w, ldw, v + d, ldv, tokens, out + d, ldo);
  }
  for (; d + 16 <= dim; d += 16) {
    accumulate_tile<R, 2>(w, ldw, v + d, ldv, tokens, out + d, ldo);
  }
  for (; d < dim; d += 8) {
    accumulate_tile<R, 1>(w, ldw, v + d, ldv, tokens, out + d, ldo);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
