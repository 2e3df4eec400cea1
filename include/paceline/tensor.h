// A non-owning view of a strided tensor in some device's memory.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "paceline/dtype.h"

namespace paceline {

// Shape and strides count elements, never bytes, and are 64-bit: a cache may be larger than 4 GiB
// elements. Nothing assumes contiguity unless a function says so.
struct TensorView {
  static constexpr int kMaxRank = 6;

  void* data = nullptr;
  DType dtype = DType::kFloat32;
  int rank = 0;
  std::array<int64_t, kMaxRank> shape{};
  std::array<int64_t, kMaxRank> strides{};

  // A contiguous, row-major view of at most kMaxRank dimensions, none negative.
  static TensorView contiguous(void* data, DType dtype, std::initializer_list<int64_t> shape);
  // A read-only tensor: the library writes only to tensors that a function names as outputs.
  static TensorView contiguous(const void* data, DType dtype,
                               std::initializer_list<int64_t> shape) {
    return contiguous(const_cast<void*>(data), dtype, shape);
  }

  // Of dimension i, 0 <= i < rank.
  int64_t dim(int i) const { return shape[static_cast<size_t>(i)]; }
  int64_t stride(int i) const { return strides[static_cast<size_t>(i)]; }
  int64_t numel() const;
  bool is_contiguous() const;
  bool defined() const { return data != nullptr; }

  // The view of rows [begin, begin + count) of the first dimension, which must exist (asserted).
  TensorView slice(int64_t begin, int64_t count) const;

  template <typename T>
  T* ptr() const {
    return static_cast<T*>(data);
  }

  // "float32[3, 8, 64]"; with strides when it is not contiguous.
  std::string to_string() const;
};

}  // namespace paceline
