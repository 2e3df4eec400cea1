// Element types of tensors and caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "paceline/status.h"

namespace paceline {

enum class DType : uint8_t {
  kFloat32,
  kFloat16,     // IEEE binary16
  kBFloat16,    // the upper half of a binary32, rounded to nearest even
  kFloat8E4M3,  // OCP e4m3fn: 1 sign, 4 exponent (bias 7), 3 mantissa bits; max 448, no infinity
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
    case DType::kUInt8:
      return 1;
    case DType::kInt64:
      return 8;
  }
  return 0;
}

constexpr bool is_floating_point(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16 ||
         dtype == DType::kFloat8E4M3;
}

// vLLM's spelling: "float32", "float16", "bfloat16", "fp8_e4m3", "int32", "int64", "uint8".
const char* dtype_name(DType dtype);

// The inverse of dtype_name; also takes "fp32", "fp16", "half", "bf16", "fp8", "float8_e4m3fn".
// kInvalidArgument with the list of names for anything else.
Result<DType> parse_dtype(std::string_view name);

}  // namespace paceline
