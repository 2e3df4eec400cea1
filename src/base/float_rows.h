// Whole rows of any dtype that activations or caches have, one element at a time.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/float_convert.h"
#include "paceline/dtype.h"

namespace paceline {

inline float to_float(float x) { return x; }
inline float to_float(int8_t x) { return x; }

// Calls function(typed pointer) for a row of `dtype`; Pointer is void* or const void*.
template <typename Pointer, typename Function>
decltype(auto) with_row(DType dtype, Pointer row, const Function& function) {
  const auto typed = [row]<typename T>(T /*element*/) {
    using Element = std::conditional_t<std::is_same_v<Pointer, const void*>, const T, T>;
    return static_cast<Element*>(row);
  };
  switch (dtype) {
    case DType::kFloat16:
      return function(typed(Half{}));
    case DType::kBFloat16:
      return function(typed(BFloat16{}));
    case DType::kFloat8E4M3:
      return function(typed(Float8E4M3{}));
    case DType::kFloat8E4M3FNUZ:
      return function(typed(Float8E4M3FNUZ{}));
    case DType::kFloat8E5M2:
      return function(typed(Float8E5M2{}));
    case DType::kInt8:
      return function(typed(int8_t{}));
    default:
      return function(typed(float{}));
  }
}

// Rounds to nearest even; formats of 8 bits saturate.
inline void store_rounded(float value, float& out) { out = value; }
inline void store_rounded(float value, Half& out) { out = to_half(value); }
inline void store_rounded(float value, BFloat16& out) { out = to_bfloat16(value); }
inline void store_rounded(float value, Float8E4M3& out) { out = to_float8_e4m3(value); }
inline void store_rounded(float value, Float8E4M3FNUZ& out) { out = to_float8_e4m3fnuz(value); }
inline void store_rounded(float value, Float8E5M2& out) { out = to_float8_e5m2(value); }
inline void store_rounded(float value, int8_t& out) { out = to_int8(value); }

// Element i of a row of `dtype`, as float32.
inline float load_float(DType dtype, const void* row, int64_t i) {
  return with_row(dtype, row, [i](const auto* typed) { return to_float(typed[i]); });
}
inline void store_float(DType dtype, void* row, int64_t i, float value) {
  with_row(dtype, row, [&](auto* typed) { store_rounded(value, typed[i]); });
}

// n elements at once.
inline void load_floats(DType dtype, const void* row, int64_t n, float* values) {
  with_row(dtype, row, [&](const auto* typed) {
    for (int64_t i = 0; i < n; ++i) {
      values[i] = to_float(typed[i]);
    }
  });
}
inline void store_floats(DType dtype, void* row, int64_t n, const float* values) {
  with_row(dtype, row, [&](auto* typed) {
    for (int64_t i = 0; i < n; ++i) {
      store_rounded(values[i], typed[i]);
    }
  });
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
