// Rows of narrow floats to and from float32.
#if defined(PACELINE_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_CONVERT_INL_H_
#undef PACELINE_CONVERT_INL_H_
#else
#define PACELINE_CONVERT_INL_H_
#endif

#include <cstring>
#include <type_traits>

#include "base/float_convert.h"
#include "device/cpu/simd/vec8-inl.h"
#include "paceline/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {

HWY_INLINE VF widen_bf16(const uint16_t* p) {
  const hn::Rebind<uint16_t, DF> d16;
  const hn::Rebind<uint32_t, DF> d32;
  return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, p))));
}

HWY_INLINE VF widen_f16(const uint16_t* p) {
  const hn::Rebind<uint16_t, DF> d16;
  const hn::Rebind<hwy::float16_t, DF> df16;
  return hn::PromoteTo(DF(), hn::BitCast(df16, hn::LoadU(d16, p)));
}

// float16 to twice or once as many lanes of float32.
template <class D16, class V16>
HWY_INLINE void promote_halves(D16 /*d16*/, V16 half, VF (&out)[1]) {
  const hn::Rebind<hwy::float16_t, DF> df16;
  out[0] = hn::PromoteTo(DF(), hn::BitCast(df16, half));
}
#if HWY_TARGET != HWY_SCALAR
template <class D16, class V16>
HWY_INLINE void promote_halves(D16 /*d16*/, V16 half, VF (&out)[2]) {
  const hn::Half<D16> low;
  const hn::Rebind<hwy::float16_t, DF> df16;
  out[0] = hn::PromoteTo(DF(), hn::BitCast(df16, hn::LowerHalf(low, half)));
  out[1] = hn::PromoteTo(DF(), hn::BitCast(df16, hn::UpperHalf(low, half)));
}
#endif

// N vectors of e4m3 codes by way of float16: with the sign in place and the other seven bits under
// it, a code is a float16 that is 2^(difference of the biases) too small, subnormals included. NaN
// is every code for which is_nan(bits) holds: all ones make it NaN there too.
template <size_t N, typename IsNaN>
HWY_INLINE void widen_e4m3(const uint8_t* p, float factor, const IsNaN& is_nan, VF (&out)[N]) {
  const hn::CappedTag<int16_t, N * kLanes> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  const auto code = hn::PromoteTo(d16, hn::LoadU(d8, reinterpret_cast<const int8_t*>(p)));
  const auto bits = hn::And(hn::ShiftLeft<7>(code), hn::Set(d16, static_cast<int16_t>(0xBF80)));
  promote_halves(d16, hn::Or(bits, hn::VecFromMask(d16, is_nan(d16, bits))), out);
  for (VF& v : out) {
    v = hn::Mul(v, hn::Set(DF(), factor));
  }
}

// The same values as the scalar to_float of each type; NaN where it has NaN.
template <size_t N>
HWY_INLINE void widen(const Float8E4M3* p, VF (&out)[N]) {
  widen_e4m3(
      reinterpret_cast<const uint8_t*>(p), 256.0F,
      [](auto d16, auto bits) HWY_ATTR {
        const auto magnitude = hn::Set(d16, 0x3F80);
        return hn::Eq(hn::And(bits, magnitude), magnitude);
      },
      out);
}
template <size_t N>
HWY_INLINE void widen(const Float8E4M3FNUZ* p, VF (&out)[N]) {
  widen_e4m3(
      reinterpret_cast<const uint8_t*>(p), 128.0F,
      [](auto d16, auto bits)
          HWY_ATTR { return hn::Eq(bits, hn::Set(d16, static_cast<int16_t>(0x8000))); },
      out);
}
template <size_t N>
HWY_INLINE void widen(const Float8E5M2* p, VF (&out)[N]) {  // the upper half of a float16
  const hn::CappedTag<uint16_t, N * kLanes> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const auto code = hn::LoadU(d8, reinterpret_cast<const uint8_t*>(p));
  promote_halves(d16, hn::ShiftLeft<8>(hn::PromoteTo(d16, code)), out);
}

HWY_INLINE VF widen_int8(const int8_t* p) {
  const hn::Rebind<int8_t, DF> d8;
  const hn::Rebind<int32_t, DF> d32;
  return hn::ConvertTo(DF(), hn::PromoteTo(d32, hn::LoadU(d8, p)));
}

// Eight elements of any type that activations or caches have, as float32: the bits of the scalar
// to_float.
template <typename T, typename Widen>
HWY_INLINE Vec8 widen8(const T* p, const Widen& widen) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = widen(p + i * kLanes);
  }
  return r;
}
HWY_INLINE Vec8 load8(const BFloat16* p) {
  return widen8(reinterpret_cast<const uint16_t*>(p), widen_bf16);
}
HWY_INLINE Vec8 load8(const Half* p) {
  return widen8(reinterpret_cast<const uint16_t*>(p), widen_f16);
}
template <typename T>
constexpr bool kIsFloat8 = std::is_same_v<T, Float8E4M3> || std::is_same_v<T, Float8E4M3FNUZ> ||
                           std::is_same_v<T, Float8E5M2>;

template <typename T>
requires kIsFloat8<T> HWY_INLINE Vec8 load8(const T* p) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    VF part[1];
    widen(p + i * kLanes, part);
    r.part[i] = part[0];
  }
  return r;
}
HWY_INLINE Vec8 load8(const int8_t* p) { return widen8(p, widen_int8); }

// How many Vec8s of a type are best widened at a time, and those.
template <typename T>
constexpr int kWiden = kIsFloat8<T>&& kLanes > 1 ? 2 : 1;

template <typename T>
HWY_INLINE void load_wide(const T* p, Vec8 (&out)[1]) {
  out[0] = load8(p);
}
#if HWY_TARGET != HWY_SCALAR
template <typename T>
HWY_INLINE void load_wide(const T* p, Vec8 (&out)[2]) {
  for (size_t i = 0; i < kParts; ++i) {
    VF pair[2];
    widen(p + 2 * i * kLanes, pair);
    out[2 * i / kParts].part[2 * i % kParts] = pair[0];
    out[(2 * i + 1) / kParts].part[(2 * i + 1) % kParts] = pair[1];
  }
}
#endif

template <typename T>
HWY_INLINE void widen_row(const T* src, int64_t n, float* dst) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    store8(load8(src + i), dst + i);
  }
  if (i < n) {  // a SHUFFLE group of four
    T tail[8] = {};
    HWY_ALIGN float wide[8];
    std::memcpy(tail, src + i, static_cast<size_t>(n - i) * sizeof(T));
    store8(load8(tail), wide);
    std::memcpy(dst + i, wide, static_cast<size_t>(n - i) * sizeof(float));
  }
}

// Calls function(typed pointer) for the element type that `dtype` names.
template <typename Function>
HWY_INLINE void with_type(DType dtype, const void* src, const Function& function) {
  switch (dtype) {
    case DType::kBFloat16:
      return function(static_cast<const BFloat16*>(src));
    case DType::kFloat16:
      return function(static_cast<const Half*>(src));
    case DType::kFloat8E4M3:
      return function(static_cast<const Float8E4M3*>(src));
    case DType::kFloat8E4M3FNUZ:
      return function(static_cast<const Float8E4M3FNUZ*>(src));
    case DType::kFloat8E5M2:
      return function(static_cast<const Float8E5M2*>(src));
    case DType::kInt8:
      return function(static_cast<const int8_t*>(src));
    default:
      return function(static_cast<const float*>(src));
  }
}

// dst[i] = src[i], for any dtype that activations or caches have.
HWY_INLINE void to_float_row(DType dtype, const void* src, int64_t n, float* dst) {
  with_type(dtype, src, [&](const auto* p) { widen_row(p, n, dst); });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
