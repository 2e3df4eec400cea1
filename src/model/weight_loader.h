// Takes tensors of a GGUF to a device, one by one, and keeps account of which were taken.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "model/gguf.h"
#include "ops/ops.h"
#include "paceline/device.h"

namespace paceline {

class WeightLoader {
 public:
  WeightLoader(Device& device, Stream& stream, const GgufFile& gguf)
      : device_(device), stream_(stream), gguf_(gguf) {}

  bool has(const std::string& name) const { return gguf_.find_tensor(name) != nullptr; }
  // A [rows, cols] matrix in its own format. Errors name the tensor, its shape and what was
  // expected.
  Result<WeightMatrix> matrix(const std::string& name, int64_t rows, int64_t cols);
  // A vector of `size`, decoded to float32, in device memory.
  Result<const float*> vector(const std::string& name, int64_t size);
  // The same on the host.
  Result<std::vector<float>> host_vector(const std::string& name, int64_t size);
  // float32 values computed by the caller.
  Result<const float*> upload(const std::vector<float>& values);

  // kUnsupported, naming some, when the file has tensors that nobody took: the model would not be
  // what it says.
  Status finish() const;
  // The memory of everything loaded; whoever uses the weights keeps it.
  std::vector<Buffer> take_buffers() { return std::move(buffers_); }

 private:
  Result<const GgufTensor*> find(const std::string& name, const std::vector<int64_t>& shape);
  Result<const uint8_t*> to_device(const void* data, size_t bytes);

  Device& device_;
  Stream& stream_;
  const GgufFile& gguf_;
  Buffer staging_;
  std::vector<Buffer> buffers_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace paceline
