// Takes tensors of a GGUF to a device, one by one.
#pragma once

#include <string>
#include <vector>

#include "model/gguf.h"
#include "ops/ops.h"
#include "paceline/device.h"

namespace paceline {

// The tensors asked for must be there and served: check_llama_weights has seen to it.
class WeightLoader {
 public:
  WeightLoader(Device& device, Stream& stream, const GgufFile& gguf)
      : device_(device), stream_(stream), gguf_(gguf) {}

  bool has(const std::string& name) const { return gguf_.find_tensor(name) != nullptr; }
  // A matrix in its own format.
  Result<WeightMatrix> matrix(const std::string& name);
  // A vector decoded to float32, in device memory.
  Result<const float*> vector(const std::string& name);
  // The same on the host.
  std::vector<float> host_vector(const std::string& name) const;
  // float32 values computed by the caller.
  Result<const float*> upload(const std::vector<float>& values);

  // The memory of everything loaded; whoever uses the weights keeps it.
  std::vector<Buffer> take_buffers() { return std::move(buffers_); }

 private:
  Result<const uint8_t*> to_device(const void* data, size_t bytes);

  Device& device_;
  Stream& stream_;
  const GgufFile& gguf_;
  Buffer staging_;
  std::vector<Buffer> buffers_;
};

}  // namespace paceline
