// From the SHUFFLE layout back to rows. Codes move as they are, 16 bytes at a time: keys lie in
// pieces of 16 bytes of a row, values in columns of 16 bytes, which are turned in registers.
#if defined(PACELINE_UNSHUFFLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_UNSHUFFLE_INL_H_
#undef PACELINE_UNSHUFFLE_INL_H_
#else
#define PACELINE_UNSHUFFLE_INL_H_
#endif

#include <cstring>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kPieceBytes = 16;

// One row of `pieces` pieces, `stride` bytes from one to the next.
HWY_INLINE void unshuffle_key(const std::byte* src, int64_t stride, int64_t pieces,
                              std::byte* row) {
  for (int64_t i = 0; i < pieces; ++i) {
    std::memcpy(row + i * kPieceBytes, src + i * stride, kPieceBytes);
  }
}

// Columns [0, dims) of x tokens each, `stride` elements from one to the next: element (token, dim)
// goes to rows[token * dims + dim], for tokens [first, first + count).
template <typename Code>
HWY_INLINE void unshuffle_columns(const Code* src, int64_t stride, int32_t first, int32_t count,
                                  int64_t dims, Code* rows) {
  int64_t dim = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int kX = static_cast<int>(kPieceBytes / sizeof(Code));
  const hn::FixedTag<Code, kX> d;
  for (; dim + kX <= dims; dim += kX) {
    hn::Vec<decltype(d)> v[kX];
    HWY_UNROLL(16)
    for (int i = 0; i < kX; ++i) {
      v[i] = hn::LoadU(d, src + (dim + i) * stride);
    }
    // Each round turns the index (row, column) by one bit: after log2(x) rounds they have changed
    // places.
    HWY_UNROLL(4)
    for (int round = 1; round < kX; round *= 2) {
      hn::Vec<decltype(d)> w[kX];
      HWY_UNROLL(16)
      for (int i = 0; i < kX / 2; ++i) {
        w[2 * i] = hn::InterleaveLower(d, v[i], v[i + kX / 2]);
        w[2 * i + 1] = hn::InterleaveUpper(d, v[i], v[i + kX / 2]);
      }
      HWY_UNROLL(16)
      for (int i = 0; i < kX; ++i) {
        v[i] = w[i];
      }
    }
    HWY_UNROLL(16)
    for (int i = 0; i < kX; ++i) {
      if (i >= first && i < first + count) {
        hn::StoreU(v[i], d, rows + (i - first) * dims + dim);
      }
    }
  }
#endif
  for (; dim < dims; ++dim) {
    for (int32_t i = 0; i < count; ++i) {
      rows[i * dims + dim] = src[dim * stride + first + i];
    }
  }
}

// The same for codes of `width` bytes.
HWY_INLINE void unshuffle_values(int32_t width, const std::byte* src, int64_t stride, int32_t first,
                                 int32_t count, int64_t dims, std::byte* rows) {
  if (width == 1) {
    unshuffle_columns(reinterpret_cast<const uint8_t*>(src), stride, first, count, dims,
                      reinterpret_cast<uint8_t*>(rows));
  } else if (width == 2) {
    unshuffle_columns(reinterpret_cast<const uint16_t*>(src), stride, first, count, dims,
                      reinterpret_cast<uint16_t*>(rows));
  } else {
    unshuffle_columns(reinterpret_cast<const uint32_t*>(src), stride, first, count, dims,
                      reinterpret_cast<uint32_t*>(rows));
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
