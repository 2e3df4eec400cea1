#include "base/weight_format.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/float_convert.h"

namespace paceline {
namespace {

void put_half(std::vector<uint8_t>& block, size_t at, float value) {
  const uint16_t bits = to_half(value).bits;
  block[at] = static_cast<uint8_t>(bits & 0xFF);
  block[at + 1] = static_cast<uint8_t>(bits >> 8);
}

TEST(WeightFormat, Q80) {
  std::vector<uint8_t> block(34, 0);
  put_half(block, 0, 0.5F);
  block[2] = 3;
  block[33] = static_cast<uint8_t>(-128);
  std::array<float, 32> out{};
  dequantize_row(WeightFormat::kQ8_0, block.data(), 32, out.data());
  EXPECT_EQ(out[0], 1.5F);
  EXPECT_EQ(out[1], 0.0F);
  EXPECT_EQ(out[31], -64.0F);
}

TEST(WeightFormat, Q40AndQ41PutHighNibblesInTheSecondHalf) {
  std::vector<uint8_t> block(18, 0x88);  // all weights zero
  put_half(block, 0, 2.0F);
  block[2] = 0xF1;
  std::array<float, 32> out{};
  dequantize_row(WeightFormat::kQ4_0, block.data(), 32, out.data());
  EXPECT_EQ(out[0], 2.0F * (1 - 8));
  EXPECT_EQ(out[16], 2.0F * (15 - 8));
  EXPECT_EQ(out[1], 0.0F);

  block.assign(20, 0x00);
  put_half(block, 0, 0.25F);
  put_half(block, 2, -1.0F);
  block[19] = 0xA5;
  dequantize_row(WeightFormat::kQ4_1, block.data(), 32, out.data());
  EXPECT_EQ(out[15], 0.25F * 5 - 1);
  EXPECT_EQ(out[31], 0.25F * 10 - 1);
  EXPECT_EQ(out[0], -1.0F);
}

// Every weight of a Q6_K block set alone, by the layout in the header, and read back.
TEST(WeightFormat, Q6KEveryWeightHasItsOwnBits) {
  for (int i = 0; i < 256; ++i) {
    std::vector<uint8_t> block(210, 0);
    put_half(block, 208, 0.5F);
    for (int s = 0; s < 16; ++s) {
      block[192 + static_cast<size_t>(s)] = static_cast<uint8_t>(s + 1);
    }
    const int code = 1 + (i * 7) % 63;
    const int half = i / 128;
    const int within = i % 128;
    const int low_byte = half * 64 + within % 64;
    const int high_byte = 128 + half * 32 + within % 32;
    block[static_cast<size_t>(low_byte)] |=
        static_cast<uint8_t>((code & 15) << (within < 64 ? 0 : 4));
    block[static_cast<size_t>(high_byte)] |=
        static_cast<uint8_t>((code >> 4) << (2 * (within / 32)));
    std::array<float, 256> out{};
    dequantize_row(WeightFormat::kQ6_K, block.data(), 256, out.data());
    for (int j = 0; j < 256; ++j) {
      const int expected = (j == i ? code : 0) - 32;
      ASSERT_EQ(out[static_cast<size_t>(j)], 0.5F * static_cast<float>((j / 16 + 1) * expected))
          << i << " " << j;
    }
  }
}

TEST(WeightFormat, PlainFloatsFromUnalignedMemory) {
  std::vector<uint8_t> bytes(1 + 8);
  const std::array<float, 2> values{1.5F, -3.25F};
  std::memcpy(bytes.data() + 1, values.data(), 8);
  std::array<float, 2> out{};
  dequantize_row(WeightFormat::kF32, bytes.data() + 1, 2, out.data());
  EXPECT_EQ(out, values);
  const uint16_t bf16 = to_bfloat16(-3.25F).bits;
  std::memcpy(bytes.data() + 1, &bf16, 2);
  dequantize_row(WeightFormat::kBF16, bytes.data() + 1, 1, out.data());
  EXPECT_EQ(out[0], -3.25F);
  EXPECT_EQ(weight_row_bytes(WeightFormat::kQ6_K, 512), 420U);
}

}  // namespace
}  // namespace paceline
