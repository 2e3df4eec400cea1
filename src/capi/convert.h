// C structs to C++ ones, checked: every constant is known, every rank and size makes sense.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/status_macros.h"
#include "paceline/attention.h"
#include "paceline/paceline.h"

namespace paceline::capi {

// The sizes that a struct had in the versions so far: from the first one's to this one's. A struct
// that grows gets a specialisation with its first size.
template <typename Struct>
inline constexpr size_t kFirstSize = sizeof(Struct);

template <typename Struct>
Status check_size(const char* name, size_t size) {
  if (size >= kFirstSize<Struct> && size <= sizeof(Struct)) {
    return {};
  }
  return invalid_argument("struct_size of {} is {}; {} to {} are possible, and {}_init sets it",
                          name, size, kFirstSize<Struct>, sizeof(Struct), name);
}

// Writes the defaults as far as the caller's struct goes.
template <typename Struct>
Status init_struct(const char* name, Struct* given, size_t size, Struct defaults) {
  if (given == nullptr) {
    return invalid_argument("{} must not be null", name);
  }
  PACELINE_RETURN_IF_ERROR(check_size<Struct>(name, size));
  defaults.struct_size = size;
  std::memcpy(given, &defaults, size);
  return {};
}

// A copy of the caller's struct; what a shorter one lacks has its default.
template <typename Struct>
Result<Struct> read_struct(const char* name, const Struct* given, const Struct& defaults) {
  if (given == nullptr) {
    return invalid_argument("{} must not be null", name);
  }
  PACELINE_RETURN_IF_ERROR(check_size<Struct>(name, given->struct_size));
  Struct whole = defaults;
  std::memcpy(&whole, given, given->struct_size);
  return whole;
}

// Fills the caller's struct as far as it goes.
template <typename Struct>
Status write_struct(const char* name, Struct values, Struct* given) {
  if (given == nullptr) {
    return invalid_argument("{} must not be null", name);
  }
  PACELINE_RETURN_IF_ERROR(check_size<Struct>(name, given->struct_size));
  values.struct_size = given->struct_size;
  std::memcpy(given, &values, values.struct_size);
  return {};
}

// The constant `value` of an enum whose last one is `last`.
template <typename Enum>
Result<Enum> to_enum(const char* name, int32_t value, Enum last) {
  if (value < 0 || value > static_cast<int32_t>(last)) {
    return invalid_argument("{} is {}; 0 to {} are possible", name, value,
                            static_cast<int32_t>(last));
  }
  return static_cast<Enum>(value);
}

paceline_attention_spec default_spec();
paceline_kv_cache_shape default_cache_shape();
paceline_attention_layer default_layer();

// Null gives an undefined view.
Result<TensorView> to_view(const char* name, const paceline_tensor* tensor);
paceline_tensor from_view(const TensorView& view);
Result<KVCacheShape> to_cache_shape(const paceline_kv_cache_shape* shape);
Result<KVCacheView> to_cache(const paceline_kv_cache* cache);
Result<AttentionSpec> to_spec(const paceline_attention_spec* spec);
Result<AttentionLimits> to_limits(const paceline_attention_limits* limits);
Result<AttentionLayer> to_layer(const paceline_attention_layer* layer);
// The spans point into the caller's arrays.
Result<CommonAttentionMetadata> to_batch(const paceline_attention_batch* batch);

}  // namespace paceline::capi
