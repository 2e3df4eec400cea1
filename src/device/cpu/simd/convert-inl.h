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

// The same bits as the scalar to_float(Float8E4M3), NaN included.
HWY_INLINE VF widen_fp8(const uint8_t* p) {
  const hn::Rebind<uint8_t, DF> d8;
  const hn::Rebind<uint32_t, DF> d32;
  const auto code = hn::PromoteTo(d32, hn::LoadU(d8, p));
  const auto sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(d32, 0x80U)));
  const auto magnitude = hn::And(code, hn::Set(d32, 0x7FU));
  const VF scaled =
      hn::Mul(hn::BitCast(DF(), hn::ShiftLeft<20>(magnitude)), hn::Set(DF(), 0x1.0p120F));
  const auto nan = hn::Set(d32, 0x7FC00000U);
  const auto bits =
      hn::IfThenElse(hn::Eq(magnitude, hn::Set(d32, 0x7FU)), nan, hn::BitCast(d32, scaled));
  return hn::BitCast(DF(), hn::Or(bits, sign));
}

// The same bits as the scalar to_float(Float8E4M3FNUZ).
HWY_INLINE VF widen_fp8_fnuz(const uint8_t* p) {
  const hn::Rebind<uint8_t, DF> d8;
  const hn::Rebind<uint32_t, DF> d32;
  const auto code = hn::PromoteTo(d32, hn::LoadU(d8, p));
  const auto sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(d32, 0x80U)));
  const auto magnitude = hn::And(code, hn::Set(d32, 0x7FU));
  const VF scaled =
      hn::Mul(hn::BitCast(DF(), hn::ShiftLeft<20>(magnitude)), hn::Set(DF(), 0x1.0p119F));
  const auto value = hn::Or(hn::BitCast(d32, scaled), sign);
  return hn::BitCast(
      DF(), hn::IfThenElse(hn::Eq(code, hn::Set(d32, 0x80U)), hn::Set(d32, 0x7FC00000U), value));
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

template <typename T, typename Widen>
HWY_INLINE void widen_row(const void* src, int64_t n, float scale, float* dst, const Widen& widen) {
  const auto* p = static_cast<const T*>(src);
  const VF factor = hn::Set(DF(), scale);
  int64_t i = 0;
  for (; i + static_cast<int64_t>(kLanes) <= n; i += static_cast<int64_t>(kLanes)) {
    hn::StoreU(hn::Mul(widen(p + i), factor), DF(), dst + i);
  }
  if (i < n) {  // a SHUFFLE group of four
    T tail[kLanes] = {};
    HWY_ALIGN float wide[kLanes];
    std::memcpy(tail, p + i, static_cast<size_t>(n - i) * sizeof(T));
    hn::Store(hn::Mul(widen(tail), factor), DF(), wide);
    std::memcpy(dst + i, wide, static_cast<size_t>(n - i) * sizeof(float));
  }
}

// dst[i] = src[i] * scale, for any dtype that activations or caches have.
HWY_INLINE void to_float_row(DType dtype, const void* src, int64_t n, float scale, float* dst) {
  switch (dtype) {
    case DType::kBFloat16:
      return widen_row<uint16_t>(src, n, scale, dst, widen_bf16);
    case DType::kFloat16:
      return widen_row<uint16_t>(src, n, scale, dst, widen_f16);
    case DType::kFloat8E4M3:
      return widen_row<uint8_t>(src, n, scale, dst, widen_fp8);
    case DType::kFloat8E4M3FNUZ:
      return widen_row<uint8_t>(src, n, scale, dst, widen_fp8_fnuz);
    case DType::kFloat8E5M2:
      return widen_row<uint8_t>(src, n, scale, dst, widen_fp8_e5m2);
    case DType::kInt8:
      return widen_row<int8_t>(src, n, scale, dst, widen_int8);
    default:
      return widen_row<float>(src, n, scale, dst,
                              [](const float* p) { return hn::LoadU(DF(), p); });
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
