#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/status_macros.h"
#include "paceline/dtype.h"
#include "paceline/status.h"
#include "paceline/tensor.h"

namespace paceline {
namespace {

Result<int> half_of(int x) {
  if (x % 2 != 0) {
    return invalid_argument("{} is odd; an even number is needed", x);
  }
  return x / 2;
}

Result<int> quarter_of(int x) {
  PACELINE_ASSIGN_OR_RETURN(const int half, half_of(x));
  return half_of(half);
}

TEST(Status, CarriesCodeAndMessageThroughCallers) {
  EXPECT_EQ(quarter_of(12).value(), 3);
  const Result<int> bad = quarter_of(6);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(bad.status().to_string(), "invalid argument: 3 is odd; an even number is needed");
}

TEST(DType, NamesRoundTrip) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3,
                            DType::kInt32, DType::kInt64, DType::kUInt8}) {
    EXPECT_EQ(parse_dtype(dtype_name(dtype)).value(), dtype);
  }
  EXPECT_EQ(parse_dtype("bf16").value(), DType::kBFloat16);
  EXPECT_NE(parse_dtype("int4").status().message().find("bfloat16"), std::string::npos);
}

TEST(TensorView, SliceAndStrides) {
  float data[24] = {};
  const auto view = TensorView::contiguous(data, DType::kFloat32, {4, 3, 2});
  EXPECT_EQ(view.numel(), 24);
  EXPECT_TRUE(view.is_contiguous());
  EXPECT_EQ(view.slice(2, 2).data, data + 12);
  EXPECT_EQ(view.slice(2, 2).dim(0), 2);
  TensorView transposed = view;
  std::swap(transposed.shape[0], transposed.shape[1]);
  std::swap(transposed.strides[0], transposed.strides[1]);
  EXPECT_FALSE(transposed.is_contiguous());
  EXPECT_EQ(transposed.to_string(), "float32[3, 4, 2] strides [2, 6, 1]");
}

}  // namespace
}  // namespace paceline
