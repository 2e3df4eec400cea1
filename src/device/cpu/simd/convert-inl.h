// Rows of narrow floats to and from float32.
#if defined(PACELINE_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_CONVERT_INL_H_
#undef PACELINE_CONVERT_INL_H_
#else
#define PACELINE_CONVERT_INL_H_
#endif

#include <cstring>

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

// Sign and magnitude of e4m3 codes as the bits of a float32; `factor` holds the exponent bias.
// Wrong for the codes that are NaN.
template <class D, class V>
HWY_INLINE V e4m3_bits(D d32, V code, float factor) {
  const auto magnitude = hn::And(code, hn::Set(d32, 0x7FU));
  const VF scaled = hn::Mul(hn::BitCast(DF(), hn::ShiftLeft<20>(magnitude)), hn::Set(DF(), factor));
  const auto sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(d32, 0x80U)));
  return hn::Or(hn::BitCast(d32, scaled), sign);
}

// The same bits as the scalar to_float(Float8E4M3), NaN included.
HWY_INLINE VF widen_fp8(const uint8_t* p) {
  const hn::Rebind<uint8_t, DF> d8;
  const hn::Rebind<uint32_t, DF> d32;
  const auto code = hn::PromoteTo(d32, hn::LoadU(d8, p));
  const auto sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(d32, 0x80U)));
  const auto is_nan = hn::Eq(hn::And(code, hn::Set(d32, 0x7FU)), hn::Set(d32, 0x7FU));
  const auto nan = hn::Or(hn::Set(d32, 0x7FC00000U), sign);
  return hn::BitCast(DF(), hn::IfThenElse(is_nan, nan, e4m3_bits(d32, code, 0x1.0p120F)));
}

// The same bits as the scalar to_float(Float8E4M3FNUZ).
HWY_INLINE VF widen_fp8_fnuz(const uint8_t* p) {
  const hn::Rebind<uint8_t, DF> d8;
  const hn::Rebind<uint32_t, DF> d32;
  const auto code = hn::PromoteTo(d32, hn::LoadU(d8, p));
  const auto is_nan = hn::Eq(code, hn::Set(d32, 0x80U));
  const auto nan = hn::Set(d32, 0x7FC00000U);
  return hn::BitCast(DF(), hn::IfThenElse(is_nan, nan, e4m3_bits(d32, code, 0x1.0p119F)));
}

HWY_INLINE VF widen_fp8_e5m2(const uint8_t* p) {
  const hn::Rebind<uint8_t, DF> d8;
  const hn::Rebind<uint16_t, DF> d16;
  const hn::Rebind<hwy::float16_t, DF> df16;
  const auto half = hn::ShiftLeft<8>(hn::PromoteTo(d16, hn::LoadU(d8, p)));
  return hn::PromoteTo(DF(), hn::BitCast(df16, half));
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
HWY_INLINE Vec8 load8(const Float8E4M3* p) {
  return widen8(reinterpret_cast<const uint8_t*>(p), widen_fp8);
}
HWY_INLINE Vec8 load8(const Float8E4M3FNUZ* p) {
  return widen8(reinterpret_cast<const uint8_t*>(p), widen_fp8_fnuz);
}
HWY_INLINE Vec8 load8(const Float8E5M2* p) {
  return widen8(reinterpret_cast<const uint8_t*>(p), widen_fp8_e5m2);
}
HWY_INLINE Vec8 load8(const int8_t* p) { return widen8(p, widen_int8); }

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
