// The numbers of a decoder, whatever file they came from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/gguf.h"
#include "paceline/dtype.h"

namespace paceline {

struct ModelConfig {
  std::string architecture;
  int num_layers = 0;
  int hidden_size = 0;
  int intermediate_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_size = 0;
  int64_t vocab_size = 0;
  int64_t max_position = 0;  // tokens the model was made for
  float rms_norm_eps = 0.0F;
  double rope_theta = 0.0;
  int rotary_dim = 0;
  bool rope_interleaved = false;  // pairs (2i, 2i+1): the order of GGUF's llama files
};

// From a GGUF's metadata. kUnsupported for an architecture or feature that is not served,
// kInvalidArgument or kNotFound for numbers that are missing or make no sense; messages name the
// key.
Result<ModelConfig> read_model_config(const GgufFile& gguf);

// Bytes that one token takes in the caches of all layers.
int64_t kv_bytes_per_token(const ModelConfig& config, DType kv_cache_dtype);

}  // namespace paceline
