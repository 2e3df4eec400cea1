// Element types of tensors and caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "paceline/status.h"

namespace paceline {

enum class DType : uint8_t {
  kFloat32,
  kFloat16,   // IEEE binary16
  kBFloat16,  // the upper half of a binary32, rounded to nearest even
  // 1 sign, 4 exponent, 3 mantissa bits, no infinity. OCP's (fn): bias 7, max 448; AMD gfx942's
  // (fnuz): bias 8, max 240, no negative zero.
  kFloat8E4M3,
  kFloat8E4M3FNUZ,
  kFloat8E5M2,  // OCP e5m2: 1 sign, 5 exponent (bias 15), 2 mantissa bits; max 57344
  kInt8,        // in caches: value = code * scale, codes -127 to 127
  kInt32,
  kInt64,
  kUInt8,
};

// Bytes of one element.
constexpr size_t dtype_size(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kFloat8E4M3:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kInt8:
    case DType::kUInt8:
      return 1;
    case DType::kInt64:
      return 8;
  }
  return 0;
}

constexpr bool is_fp8(DType dtype) {
  return dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E4M3FNUZ ||
         dtype == DType::kFloat8E5M2;
}
constexpr bool is_floating_point(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16 ||
         is_fp8(dtype);
}

// The largest code of a format of 8 bits: what a dynamic scale maps the largest value to.
constexpr float dtype_max(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3:
      return 448.0F;
    case DType::kFloat8E4M3FNUZ:
      return 240.0F;
    case DType::kFloat8E5M2:
      return 57344.0F;
    case DType::kInt8:
      return 127.0F;
    default:
      return 0.0F;
  }
}

// vLLM's spelling: "float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e4m3fnuz", "fp8_e5m2",
// "int8", "int32", "int64", "uint8".
const char* dtype_name(DType dtype);

// The inverse of dtype_name; also takes "fp32", "fp16", "half", "bf16", "fp8", "float8_e4m3fn".
// kInvalidArgument with the list of names for anything else.
Result<DType> parse_dtype(std::string_view name);

}  // namespace paceline
