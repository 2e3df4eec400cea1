// Whole rows of any floating-point dtype, one element at a time.
#pragma once

#include <cstdint>

#include "base/float_convert.h"
#include "paceline/dtype.h"

namespace paceline {

// Element i of a row of `dtype`, as float32.
inline float load_float(DType dtype, const void* row, int64_t i) {
  switch (dtype) {
    case DType::kFloat16:
      return to_float(static_cast<const Half*>(row)[i]);
    case DType::kBFloat16:
      return to_float(static_cast<const BFloat16*>(row)[i]);
    case DType::kFloat8E4M3:
      return to_float(static_cast<const Float8E4M3*>(row)[i]);
    default:
      return static_cast<const float*>(row)[i];
  }
}

// Rounds to nearest even; fp8 saturates.
inline void store_float(DType dtype, void* row, int64_t i, float value) {
  switch (dtype) {
    case DType::kFloat16:
      static_cast<Half*>(row)[i] = to_half(value);
      break;
    case DType::kBFloat16:
      static_cast<BFloat16*>(row)[i] = to_bfloat16(value);
      break;
    case DType::kFloat8E4M3:
      static_cast<Float8E4M3*>(row)[i] = to_float8_e4m3(value);
      break;
    default:
      static_cast<float*>(row)[i] = value;
      break;
  }
}

// What a cache of `dtype` and `scale` gives back for `value`.
inline float round_through(DType dtype, float scale, float value) {
  switch (dtype) {
    case DType::kFloat16:
      return to_float(to_half(value / scale)) * scale;
    case DType::kBFloat16:
      return to_float(to_bfloat16(value / scale)) * scale;
    case DType::kFloat8E4M3:
      return to_float(to_float8_e4m3(value / scale)) * scale;
    default:
      return value / scale * scale;
  }
}

// Pointer to element `offset` of a buffer of `dtype`.
inline const void* element_at(DType dtype, const void* base, int64_t offset) {
  return static_cast<const char*>(base) + offset * static_cast<int64_t>(dtype_size(dtype));
}
inline void* element_at(DType dtype, void* base, int64_t offset) {
  return static_cast<char*>(base) + offset * static_cast<int64_t>(dtype_size(dtype));
}

}  // namespace paceline
