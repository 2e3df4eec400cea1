// The tensors of a Llama file: which there are, of what shape. Knows nothing of devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/gguf.h"
#include "model/model_config.h"

namespace paceline {

struct WeightSpec {
  std::string name;
  std::vector<int64_t> shape;  // outermost first: [rows, cols] of a matrix
  bool optional = false;
};

// In the order of the forward pass.
std::vector<WeightSpec> llama_weights(const ModelConfig& config);

// Whether the file holds every tensor of the config in the shape it must have and in a format that
// is served, and none besides: with a tensor left out the model would not be what it says.
// kNotFound, kInvalidArgument, kUnsupported; the message names the tensor.
Status check_llama_weights(const GgufFile& gguf, const ModelConfig& config);

}  // namespace paceline
