#include "base/weight_format.h"

#include <cstring>

#include "base/float_convert.h"

namespace paceline {
namespace {

template <typename T>
T read(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

float read_half(const uint8_t* p) { return to_float(Half{read<uint16_t>(p)}); }

void dequantize_q8_0(const uint8_t* block, float* dst) {
  const float d = read_half(block);
  for (int i = 0; i < 32; ++i) {
    dst[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
  }
}

void dequantize_q4_0(const uint8_t* block, float* dst) {
  const float d = read_half(block);
  for (int i = 0; i < 16; ++i) {
    dst[i] = d * static_cast<float>((block[2 + i] & 0xF) - 8);
    dst[i + 16] = d * static_cast<float>((block[2 + i] >> 4) - 8);
  }
}

void dequantize_q4_1(const uint8_t* block, float* dst) {
  const float d = read_half(block);
  const float m = read_half(block + 2);
  for (int i = 0; i < 16; ++i) {
    dst[i] = d * static_cast<float>(block[4 + i] & 0xF) + m;
    dst[i + 16] = d * static_cast<float>(block[4 + i] >> 4) + m;
  }
}

void dequantize_q6_k(const uint8_t* block, float* dst) {
  const float d = read_half(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int l = i % 32;
    const int quarter = (i % 128) / 32;
    const uint8_t low_byte = block[half * 64 + (quarter % 2) * 32 + l];
    const int low = quarter < 2 ? low_byte & 0xF : low_byte >> 4;
    const int high = (block[128 + half * 32 + l] >> (2 * quarter)) & 3;
    const float scale = d * static_cast<float>(static_cast<int8_t>(block[192 + i / 16]));
    dst[i] = scale * static_cast<float>((low | (high << 4)) - 32);
  }
}

}  // namespace

const char* weight_format_name(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "F32";
    case WeightFormat::kF16:
      return "F16";
    case WeightFormat::kBF16:
      return "BF16";
    case WeightFormat::kQ8_0:
      return "Q8_0";
    case WeightFormat::kQ4_0:
      return "Q4_0";
    case WeightFormat::kQ4_1:
      return "Q4_1";
    case WeightFormat::kQ6_K:
      return "Q6_K";
  }
  return "unknown";
}

int64_t weight_block_elements(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      return 1;
    case WeightFormat::kQ8_0:
    case WeightFormat::kQ4_0:
    case WeightFormat::kQ4_1:
      return 32;
    case WeightFormat::kQ6_K:
      return 256;
  }
  return 1;
}

size_t weight_block_bytes(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return 4;
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      return 2;
    case WeightFormat::kQ8_0:
      return 34;
    case WeightFormat::kQ4_0:
      return 18;
    case WeightFormat::kQ4_1:
      return 20;
    case WeightFormat::kQ6_K:
      return 210;
  }
  return 1;
}

void dequantize_row(WeightFormat format, const uint8_t* src, int64_t n, float* dst) {
  const int64_t elements = weight_block_elements(format);
  const size_t bytes = weight_block_bytes(format);
  for (int64_t i = 0; i < n; i += elements, src += bytes, dst += elements) {
    switch (format) {
      case WeightFormat::kF32:
        *dst = read<float>(src);
        break;
      case WeightFormat::kF16:
        *dst = read_half(src);
        break;
      case WeightFormat::kBF16:
        *dst = to_float(BFloat16{read<uint16_t>(src)});
        break;
      case WeightFormat::kQ8_0:
        dequantize_q8_0(src, dst);
        break;
      case WeightFormat::kQ4_0:
        dequantize_q4_0(src, dst);
        break;
      case WeightFormat::kQ4_1:
        dequantize_q4_1(src, dst);
        break;
      case WeightFormat::kQ6_K:
        dequantize_q6_k(src, dst);
        break;
    }
  }
}

}  // namespace paceline
