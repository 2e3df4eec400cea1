#include "paceline/dtype.h"

#include <array>
#include <utility>

#include "base/errors.h"

namespace paceline {

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat8E4M3:
      return "fp8_e4m3";
    case DType::kFloat8E4M3FNUZ:
      return "fp8_e4m3fnuz";
    case DType::kFloat8E5M2:
      return "fp8_e5m2";
    case DType::kInt8:
      return "int8";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kUInt8:
      return "uint8";
  }
  return "unknown";
}

Result<DType> parse_dtype(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, DType>, 18> kNames{{
      {"float32", DType::kFloat32},
      {"float16", DType::kFloat16},
      {"bfloat16", DType::kBFloat16},
      {"fp8_e4m3", DType::kFloat8E4M3},
      {"fp8_e4m3fnuz", DType::kFloat8E4M3FNUZ},
      {"fp8_e5m2", DType::kFloat8E5M2},
      {"int8", DType::kInt8},
      {"int32", DType::kInt32},
      {"int64", DType::kInt64},
      {"uint8", DType::kUInt8},
      {"fp32", DType::kFloat32},
      {"fp16", DType::kFloat16},
      {"half", DType::kFloat16},
      {"bf16", DType::kBFloat16},
      {"fp8", DType::kFloat8E4M3},
      {"float8_e4m3fn", DType::kFloat8E4M3},
      {"float8_e4m3fnuz", DType::kFloat8E4M3FNUZ},
      {"float8_e5m2", DType::kFloat8E5M2},
  }};
  for (const auto& [spelling, dtype] : kNames) {
    if (spelling == name) {
      return dtype;
    }
  }
  return invalid_argument(
      "unknown dtype '{}'; possible are float32, float16, bfloat16, fp8_e4m3, fp8_e4m3fnuz, "
      "fp8_e5m2, int8, int32, int64, uint8",
      name);
}

}  // namespace paceline
