#include "paceline/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cassert>

namespace paceline {

TensorView TensorView::contiguous(void* data, DType dtype, std::initializer_list<int64_t> shape) {
  assert(shape.size() <= kMaxRank);
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), view.shape.begin());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    view.strides[i] = stride;
    stride *= view.shape[i];
  }
  return view;
}

int64_t TensorView::numel() const {
  int64_t count = 1;
  for (int i = 0; i < rank; ++i) {
    count *= dim(i);
  }
  return count;
}

bool TensorView::is_contiguous() const {
  int64_t expected = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (dim(i) != 1 && stride(i) != expected) {
      return false;
    }
    expected *= dim(i);
  }
  return true;
}

TensorView TensorView::slice(int64_t begin, int64_t count) const {
  assert(rank > 0 && begin >= 0 && count >= 0 && begin + count <= dim(0));
  TensorView view = *this;
  view.data =
      static_cast<char*>(data) + begin * stride(0) * static_cast<int64_t>(dtype_size(dtype));
  view.shape[0] = count;
  return view;
}

std::string TensorView::to_string() const {
  const auto n = static_cast<size_t>(rank);
  std::string text =
      fmt::format("{}[{}]", dtype_name(dtype), fmt::join(shape.begin(), shape.begin() + n, ", "));
  if (!is_contiguous()) {
    text += fmt::format(" strides [{}]", fmt::join(strides.begin(), strides.begin() + n, ", "));
  }
  return text;
}

}  // namespace paceline
