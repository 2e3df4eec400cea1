// Whole rows of any dtype that activations or caches have, one element at a time.
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
    case DType::kFloat8E4M3FNUZ:
      return to_float(static_cast<const Float8E4M3FNUZ*>(row)[i]);
    case DType::kFloat8E5M2:
      return to_float(static_cast<const Float8E5M2*>(row)[i]);
    case DType::kInt8:
      return static_cast<const int8_t*>(row)[i];
    default:
      return static_cast<const float*>(row)[i];
  }
}

// Rounds to nearest even; formats of 8 bits saturate.
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
    case DType::kFloat8E4M3FNUZ:
      static_cast<Float8E4M3FNUZ*>(row)[i] = to_float8_e4m3fnuz(value);
      break;
    case DType::kFloat8E5M2:
      static_cast<Float8E5M2*>(row)[i] = to_float8_e5m2(value);
      break;
    case DType::kInt8:
      static_cast<int8_t*>(row)[i] = to_int8(value);
      break;
    default:
      static_cast<float*>(row)[i] = value;
      break;
  }
}

// `value` rounded to `dtype`.
inline float code_of(DType dtype, float value) {
  alignas(8) unsigned char stored[sizeof(float)];
  store_float(dtype, stored, 0, value);
  return load_float(dtype, stored, 0);
}

// What a cache of `dtype` and `scale` gives back for `value`.
inline float round_through(DType dtype, float scale, float value) {
  return code_of(dtype, value / scale) * scale;
}

// The greater magnitude, or NaN where one is.
inline float larger_magnitude(float largest, float value) {
  const float magnitude = std::fabs(value);
  return magnitude > largest || std::isnan(magnitude) ? magnitude : largest;
}

// The scale that a cache with a scale for each token and head gives a row whose largest magnitude
// is `largest`: it becomes the largest code.
inline float dynamic_scale(DType dtype, float largest) {
  const float scale = largest / dtype_max(dtype);
  return scale == 0.0F ? 1.0F : scale;  // nothing, or too little for a float32
}
inline float dynamic_scale_of_row(DType dtype, const float* row, int64_t n) {
  float largest = 0.0F;
  for (int64_t i = 0; i < n; ++i) {
    largest = larger_magnitude(largest, row[i]);
  }
  return dynamic_scale(dtype, largest);
}

// Pointer to element `offset` of a buffer of `dtype`.
inline const void* element_at(DType dtype, const void* base, int64_t offset) {
  return static_cast<const char*>(base) + offset * static_cast<int64_t>(dtype_size(dtype));
}
inline void* element_at(DType dtype, void* base, int64_t offset) {
  return static_cast<char*>(base) + offset * static_cast<int64_t>(dtype_size(dtype));
}

}  // namespace paceline
