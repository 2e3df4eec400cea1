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

TEST(FloatConvert, Float8RoundsToNearestEven) {
  std::mt19937 rng(2);
  for (int i = 0; i < 20000; ++i) {
    const float x = std::ldexp(std::uniform_real_distribution<float>(-2, 2)(rng),
                               std::uniform_int_distribution<int>(-12, 7)(rng));
    const auto expected = nearest_by_search<Float8E4M3, uint8_t>(x, 0x80, 0x7E);
    EXPECT_EQ(to_float8_e4m3(x).bits, expected.bits) << x;
  }
}

TEST(FloatConvert, Float8EveryCodeAndTheEdges) {
  for (uint32_t code = 0; code < 256; ++code) {
    const Float8E4M3 value{static_cast<uint8_t>(code)};
    if (std::isnan(to_float(value))) {
      EXPECT_EQ(code & 0x7FU, 0x7FU);
    } else {
      EXPECT_EQ(to_float8_e4m3(to_float(value)).bits, code);
    }
  }
  EXPECT_EQ(to_float(to_float8_e4m3(1e30F)), 448.0F);
  EXPECT_EQ(to_float(to_float8_e4m3(-std::numeric_limits<float>::infinity())), -448.0F);
  EXPECT_TRUE(std::isnan(to_float(to_float8_e4m3(std::nanf("")))));
  EXPECT_EQ(to_float(Float8E4M3{0x01}), 0x1.0p-9F);
  EXPECT_EQ(to_float(Float8E4M3{0x38}), 1.0F);
}

}  // namespace
}  // namespace paceline
