#include "base/float_convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace paceline {
namespace {

// The nearest representable value found by search over all codes, ties to the even code.
template <typename T, typename Bits>
T nearest_by_search(float x, Bits num_codes, Bits max_finite) {
  Bits best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (Bits code = 0; code <= max_finite; ++code) {
    const double distance = std::abs(double{to_float(T{code})} - std::abs(double{x}));
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) {
      best = code;
      best_distance = distance;
    }
  }
  return T{static_cast<Bits>(best | (std::signbit(x) ? num_codes : Bits{0}))};
}

TEST(FloatConvert, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const Half half{static_cast<uint16_t>(code)};
    const float value = to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_half(value))));
    } else {
      EXPECT_EQ(to_half(value).bits, half.bits) << value;
    }
  }
}

TEST(FloatConvert, EveryBFloat16SurvivesTheRoundTrip) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const BFloat16 value{static_cast<uint16_t>(code)};
    if (std::isnan(to_float(value))) {
      EXPECT_TRUE(std::isnan(to_float(to_bfloat16(to_float(value)))));
    } else {
      EXPECT_EQ(to_bfloat16(to_float(value)).bits, value.bits);
    }
  }
}

TEST(FloatConvert, HalfMatchesTheHardwareOrCompilerType) {
  std::mt19937 rng(1);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::ldexp(std::uniform_real_distribution<float>(-2, 2)(rng),
                               std::uniform_int_distribution<int>(-28, 18)(rng));
#ifdef __FLT16_MAX__
    const auto native = static_cast<_Float16>(x);
    EXPECT_EQ(to_half(x).bits, std::bit_cast<uint16_t>(native)) << x;
#else
    EXPECT_LE(std::abs(to_float(to_half(x)) - x), std::abs(x) * 0x1.0p-11F + 0x1.0p-25F) << x;
#endif
  }
}

template <typename T>
struct Float8Format;
template <>
struct Float8Format<Float8E4M3> {
  static constexpr uint8_t kMaxCode = 0x7E;
  static constexpr float kMax = 448.0F;
  static constexpr float kLeast = 0x1p-9F;
  static constexpr uint8_t kOne = 0x38;
  static Float8E4M3 convert(float x) { return to_float8_e4m3(x); }
};
template <>
struct Float8Format<Float8E4M3FNUZ> {
  static constexpr uint8_t kMaxCode = 0x7F;
  static constexpr float kMax = 240.0F;
  static constexpr float kLeast = 0x1p-10F;
  static constexpr uint8_t kOne = 0x40;
  static Float8E4M3FNUZ convert(float x) { return to_float8_e4m3fnuz(x); }
};
template <>
struct Float8Format<Float8E5M2> {
  static constexpr uint8_t kMaxCode = 0x7B;
  static constexpr float kMax = 57344.0F;
  static constexpr float kLeast = 0x1p-16F;
  static constexpr uint8_t kOne = 0x3C;
  static Float8E5M2 convert(float x) { return to_float8_e5m2(x); }
};

template <typename T>
class Float8 : public ::testing::Test {};
using Float8Types = ::testing::Types<Float8E4M3, Float8E4M3FNUZ, Float8E5M2>;
TYPED_TEST_SUITE(Float8, Float8Types);

TYPED_TEST(Float8, RoundsToNearestEven) {
  using Format = Float8Format<TypeParam>;
  std::mt19937 rng(2);
  for (int i = 0; i < 20000; ++i) {
    const float x = std::ldexp(std::uniform_real_distribution<float>(-2, 2)(rng),
                               std::uniform_int_distribution<int>(-19, 17)(rng));
    auto expected = nearest_by_search<TypeParam, uint8_t>(x, 0x80, Format::kMaxCode);
    if (to_float(TypeParam{0x80}) != 0.0F && expected.bits == 0x80) {
      expected.bits = 0;  // fnuz: no negative zero
    }
    EXPECT_EQ(Format::convert(x).bits, expected.bits) << x;
  }
}

TYPED_TEST(Float8, EveryCodeAndTheEdges) {
  using Format = Float8Format<TypeParam>;
  for (uint32_t code = 0; code < 256; ++code) {
    const TypeParam value{static_cast<uint8_t>(code)};
    const float wide = to_float(value);
    if (std::isfinite(wide)) {
      EXPECT_EQ(Format::convert(wide).bits, code);
    } else {
      EXPECT_TRUE((code & 0x7FU) > Format::kMaxCode || code == 0x80U) << code;
    }
  }
  EXPECT_EQ(to_float(Format::convert(1e30F)), Format::kMax);
  EXPECT_EQ(to_float(Format::convert(-std::numeric_limits<float>::infinity())), -Format::kMax);
  EXPECT_TRUE(std::isnan(to_float(Format::convert(std::nanf("")))));
  EXPECT_EQ(to_float(TypeParam{0x01}), Format::kLeast);
  EXPECT_EQ(to_float(TypeParam{Format::kOne}), 1.0F);
}

TEST(FloatConvert, Int8RoundsToNearestEvenAndSaturates) {
  EXPECT_EQ(to_int8(2.5F), 2);
  EXPECT_EQ(to_int8(-3.5F), -4);
  EXPECT_EQ(to_int8(1e9F), 127);
  EXPECT_EQ(to_int8(-std::numeric_limits<float>::infinity()), -127);
  EXPECT_EQ(to_int8(std::nanf("")), 0);
}

}  // namespace
}  // namespace paceline
