#include "model/weight_loader.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"

namespace paceline {
namespace {
constexpr size_t kStagingBytes = size_t{8} << 20;
}  // namespace

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

Result<WeightMatrix> WeightLoader::matrix(const std::string& name) {
  const GgufTensor& tensor = *gguf_.find_tensor(name);
  WeightMatrix matrix;
  matrix.format = *tensor.format;
  matrix.rows = tensor.shape[0];
  matrix.cols = tensor.shape[1];
  PACELINE_ASSIGN_OR_RETURN(matrix.data, to_device(tensor.data, tensor.bytes));
  return matrix;
}

std::vector<float> WeightLoader::host_vector(const std::string& name) const {
  const GgufTensor& tensor = *gguf_.find_tensor(name);
  std::vector<float> values(static_cast<size_t>(tensor.shape[0]));
  dequantize_row(*tensor.format, tensor.data, tensor.shape[0], values.data());
  return values;
}

Result<const float*> WeightLoader::vector(const std::string& name) {
  return upload(host_vector(name));
}

Result<const float*> WeightLoader::upload(const std::vector<float>& values) {
  PACELINE_ASSIGN_OR_RETURN(const uint8_t* data,
                            to_device(values.data(), values.size() * sizeof(float)));
  return reinterpret_cast<const float*>(data);
}

}  // namespace paceline
