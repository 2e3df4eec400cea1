// How weights are stored: plain floats and the block-quantised formats of GGUF. The scalar decoder
// here is the reference that the SIMD ones are compared with, bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline {

// Blocks, with byte offsets; d and m are float16.
//   Q8_0  32 weights, 34 bytes   0: d   2: int8 q[32]                          w = d * q
//   Q4_0  32 weights, 18 bytes   0: d   2: nibbles[16]                         w = d * (q - 8)
//   Q4_1  32 weights, 20 bytes   0: d   2: m   4: nibbles[16]                  w = d * q + m
//         byte j holds weight j in its low and weight j + 16 in its high nibble
//   Q6_K 256 weights, 210 bytes  0: low nibbles[128]  128: high 2 bits[64]  192: int8 scale[16]
//   208: d
//         w = d * scale[i / 16] * (q - 32), q = low | high << 4. Each half of 128 weights takes 64
//         low bytes and 32 high bytes: byte l (0..31) of the high ones serves weights l, l+32,
//         l+64, l+96 with its bit pairs 0..3; low byte l serves l and l+64, low byte l+32 serves
//         l+32 and l+96, low nibble first.
enum class WeightFormat : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1, kQ6_K };

const char* weight_format_name(WeightFormat format);  // "F32", "Q4_1", ...
int64_t weight_block_elements(
    WeightFormat format);  // weights a block: a row's length is a multiple
size_t weight_block_bytes(WeightFormat format);

// Bytes of a row of n weights.
inline size_t weight_row_bytes(WeightFormat format, int64_t n) {
  return static_cast<size_t>(n / weight_block_elements(format)) * weight_block_bytes(format);
}

// n weights, a multiple of the block, from memory of any alignment.
void dequantize_row(WeightFormat format, const uint8_t* src, int64_t n, float* dst);

}  // namespace paceline
