#include "model/weight_loader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/status_macros.h"

namespace paceline {
namespace {
constexpr size_t kStagingBytes = size_t{8} << 20;
}  // namespace

Result<const GgufTensor*> WeightLoader::find(const std::string& name,
                                             const std::vector<int64_t>& shape) {
  const GgufTensor* tensor = gguf_.find_tensor(name);
  if (tensor == nullptr) {
    return not_found("{}: tensor '{}' of shape [{}] is missing", gguf_.name(), name,
                     fmt::join(shape, ", "));
  }
  if (tensor->shape != shape) {
    return invalid_argument("{}: tensor '{}' has shape [{}]; [{}] expected", gguf_.name(), name,
                            fmt::join(tensor->shape, ", "), fmt::join(shape, ", "));
  }
  if (!tensor->format.has_value()) {
    return unsupported(
        "{}: tensor '{}' is of {}; possible are F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q6_K",
        gguf_.name(), name, tensor->type_name);
  }
  taken_.insert(name);
  return tensor;
}

Result<const uint8_t*> WeightLoader::to_device(const void* data, size_t bytes) {
  if (staging_.data() == nullptr) {
    PACELINE_ASSIGN_OR_RETURN(staging_, device_.allocate(kStagingBytes, MemoryKind::kPinnedHost));
  }
  PACELINE_ASSIGN_OR_RETURN(Buffer buffer, device_.allocate(bytes));
  for (size_t at = 0; at < bytes; at += kStagingBytes) {
    const size_t count = std::min(kStagingBytes, bytes - at);
    std::memcpy(staging_.data(), static_cast<const uint8_t*>(data) + at, count);
    PACELINE_RETURN_IF_ERROR(
        stream_.copy(buffer.as<uint8_t>() + at, staging_.data(), count, CopyKind::kHostToDevice));
    PACELINE_RETURN_IF_ERROR(stream_.synchronize());
  }
  buffers_.push_back(std::move(buffer));
  return buffers_.back().as<const uint8_t>();
}

Result<WeightMatrix> WeightLoader::matrix(const std::string& name, int64_t rows, int64_t cols) {
  PACELINE_ASSIGN_OR_RETURN(const GgufTensor* tensor, find(name, {rows, cols}));
  WeightMatrix matrix;
  matrix.format = *tensor->format;
  matrix.rows = rows;
  matrix.cols = cols;
  PACELINE_ASSIGN_OR_RETURN(matrix.data, to_device(tensor->data, tensor->bytes));
  return matrix;
}

Result<std::vector<float>> WeightLoader::host_vector(const std::string& name, int64_t size) {
  PACELINE_ASSIGN_OR_RETURN(const GgufTensor* tensor, find(name, {size}));
  std::vector<float> values(static_cast<size_t>(size));
  dequantize_row(*tensor->format, tensor->data, size, values.data());
  return values;
}

Result<const float*> WeightLoader::vector(const std::string& name, int64_t size) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<float> values, host_vector(name, size));
  return upload(values);
}

Result<const float*> WeightLoader::upload(const std::vector<float>& values) {
  PACELINE_ASSIGN_OR_RETURN(const uint8_t* data,
                            to_device(values.data(), values.size() * sizeof(float)));
  return reinterpret_cast<const float*>(data);
}

Status WeightLoader::finish() const {
  std::vector<std::string> unused;
  for (const GgufTensor& tensor : gguf_.tensors()) {
    if (!taken_.contains(tensor.name)) {
      unused.push_back(printable(tensor.name));
    }
  }
  if (unused.empty()) {
    return {};
  }
  const size_t count = unused.size();
  unused.resize(std::min<size_t>(count, 5));
  return unsupported("{}: {} tensors are not part of the served architecture: {}{}", gguf_.name(),
                     count, fmt::join(unused, ", "), count > unused.size() ? ", ..." : "");
}

}  // namespace paceline
