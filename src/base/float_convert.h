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

inline constexpr float kFloat8E4M3Max = 448.0F;

inline float to_float(Float8E4M3 x) {
  const uint32_t sign = uint32_t{x.bits & 0x80U} << 24;
  const uint32_t magnitude = x.bits & 0x7FU;
  if (magnitude == 0x7FU) {
    return std::bit_cast<float>(sign | 0x7FC00000U);
  }
  const float scaled = std::bit_cast<float>(magnitude << 20) * 0x1.0p120F;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

// Values beyond +-448, infinities too, saturate; NaN stays NaN.
inline Float8E4M3 to_float8_e4m3(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    return {static_cast<uint8_t>(sign | 0x7FU)};
  }
  if (magnitude >= std::bit_cast<uint32_t>(kFloat8E4M3Max)) {
    return {static_cast<uint8_t>(sign | 0x7EU)};
  }
  if (magnitude < 0x3C800000U) {  // below 2^-6: a multiple of 2^-9, rounded by the adder
    const float shifted = std::bit_cast<float>(magnitude) + 0x1.0p14F;
    return {static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x46800000U))};
  }
  const uint32_t rounded = magnitude + 0x7FFFFU + ((magnitude >> 20) & 1U);
  return {static_cast<uint8_t>(sign | ((rounded - 0x3C000000U) >> 20))};
}

}  // namespace paceline
