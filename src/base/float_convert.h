// Scalar conversions between float32 and the narrow float formats. Exact to the bit: they round to
// nearest, ties to even, and are what the SIMD versions are tested against.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace paceline {

// 16-bit formats are stored as raw bits.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Float8E4M3 {
  uint8_t bits;
};
struct Float8E4M3FNUZ {
  uint8_t bits;
};
struct Float8E5M2 {
  uint8_t bits;
};

inline float to_float(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

inline BFloat16 to_bfloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return {static_cast<uint16_t>((bits >> 16) | 0x40U)};  // NaN stays NaN
  }
  return {static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

inline float to_float(Half x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000U} << 16;
  const uint32_t magnitude = x.bits & 0x7FFFU;
  if (magnitude >= 0x7C00U) {  // infinity and NaN
    return std::bit_cast<float>(sign | 0x7F800000U | ((magnitude & 0x3FFU) << 13));
  }
  // Exponent and mantissa land 112 binades too low; one exact multiplication mends normals and
  // subnormals alike.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1.0p112F;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

inline Half to_half(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    return {static_cast<uint16_t>(sign | 0x7E00U | ((magnitude >> 13) & 0x3FFU))};
  }
  if (magnitude >= 0x477FF000U) {  // rounds to 65520 or more: infinity
    return {static_cast<uint16_t>(sign | 0x7C00U)};
  }
  if (magnitude < 0x38800000U) {  // below 2^-14: a multiple of 2^-24, rounded by the adder
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000U))};
  }
  const uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13))};
}

inline float to_float(Float8E4M3 x) {
  const uint32_t sign = uint32_t{x.bits & 0x80U} << 24;
  const uint32_t magnitude = x.bits & 0x7FU;
  if (magnitude == 0x7FU) {
    return std::bit_cast<float>(sign | 0x7FC00000U);
  }
  const float scaled = std::bit_cast<float>(magnitude << 20) * 0x1.0p120F;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

inline float to_float(Float8E4M3FNUZ x) {
  if (x.bits == 0x80U) {  // where other formats have negative zero
    return std::bit_cast<float>(0x7FC00000U);
  }
  const uint32_t sign = uint32_t{x.bits & 0x80U} << 24;
  const float scaled = std::bit_cast<float>((x.bits & 0x7FU) << 20) * 0x1.0p119F;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

// The upper half of a binary16.
inline float to_float(Float8E5M2 x) { return to_float(Half{static_cast<uint16_t>(x.bits << 8)}); }

// The code of |x| in a format of `mantissa` bits whose exponent bias is `bias` and whose largest
// code is `max_code`. Values beyond it, infinities too, saturate. Not for NaN.
inline uint32_t fp8_magnitude(uint32_t magnitude, int bias, int mantissa, float max,
                              uint32_t max_code) {
  if (magnitude >= std::bit_cast<uint32_t>(max)) {
    return max_code;
  }
  // Float32 numbers 2^(1 - bias), the least normal one, and 2^(1 - bias - mantissa + 23), whose
  // last place is the format's least subnormal: adding it rounds.
  const auto least_normal = static_cast<uint32_t>(128 - bias) << 23;
  const auto adder = static_cast<uint32_t>(151 - bias - mantissa) << 23;
  if (magnitude < least_normal) {
    const float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(adder);
    return std::bit_cast<uint32_t>(shifted) - adder;
  }
  const int drop = 23 - mantissa;
  const uint32_t rounded = magnitude + (1U << (drop - 1)) - 1 + ((magnitude >> drop) & 1U);
  return (rounded - (static_cast<uint32_t>(127 - bias) << 23)) >> drop;
}

inline Float8E4M3 to_float8_e4m3(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  const uint32_t code =
      magnitude > 0x7F800000U ? 0x7FU : fp8_magnitude(magnitude, 7, 3, 448.0F, 0x7EU);
  return {static_cast<uint8_t>(((bits >> 24) & 0x80U) | code)};
}

inline Float8E4M3FNUZ to_float8_e4m3fnuz(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    return {0x80U};
  }
  const uint32_t code = fp8_magnitude(magnitude, 8, 3, 240.0F, 0x7FU);
  return {static_cast<uint8_t>(code == 0 ? 0 : ((bits >> 24) & 0x80U) | code)};
}

inline Float8E5M2 to_float8_e5m2(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  const uint32_t code =
      magnitude > 0x7F800000U ? 0x7FU : fp8_magnitude(magnitude, 15, 2, 57344.0F, 0x7BU);
  return {static_cast<uint8_t>(((bits >> 24) & 0x80U) | code)};
}

// Rounds to nearest even and saturates at +-127. There is no code for NaN: it gives 0.
inline int8_t to_int8(float x) {
  if (std::isnan(x)) {
    return 0;
  }
  return static_cast<int8_t>(std::nearbyint(std::fmax(-127.0F, std::fmin(127.0F, x))));
}

}  // namespace paceline
