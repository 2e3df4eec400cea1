// The Llama decoder: weights, activations, and one step's launches.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/model_config.h"
#include "ops/ops.h"
#include "paceline/attention.h"

namespace paceline {

// Sizes that activations are allocated for.
struct ModelLimits {
  int64_t max_num_batched_tokens = 0;
  int64_t max_num_logits = 0;  // rows of logits a step can ask for
  int64_t max_model_len = 0;
};

// One step's tokens; all pointers are device memory.
struct ModelInput {
  const int32_t* ids = nullptr;        // [num_tokens]
  const int32_t* positions = nullptr;  // [num_tokens]
  TensorView slot_mapping;             // int64 [num_tokens]
  int64_t num_tokens = 0;
  const int32_t* logits_indices = nullptr;  // [num_logits]: tokens whose logits are wanted
  int64_t num_logits = 0;
};

class LlamaModel {
 public:
  // Everything of a file that load() would refuse, found without loading it.
  static Result<ModelConfig> check(const GgufFile& gguf);
  // Loads all weights; blocks until they are on the device.
  static Result<std::unique_ptr<LlamaModel>> load(Device& device, const GgufFile& gguf,
                                                  const ModelLimits& limits);

  const ModelConfig& config() const { return config_; }

  // Enqueues one step: embedding, all layers, final norm, and logits[num_logits, vocab_size] for
  // the tokens asked. caches holds one view a layer.
  Status forward(Stream& stream, const ModelInput& input, AttentionBackend& attention,
                 const AttentionMetadata& metadata, std::span<const KVCacheView> caches);
  const float* logits() const { return logits_.as<const float>(); }

 private:
  struct Layer {
    const float* attention_norm;
    WeightMatrix q, k, v, o;
    const float* ffn_norm;
    WeightMatrix gate, up, down;
  };

  LlamaModel(std::unique_ptr<Ops> ops, ModelConfig config)
      : ops_(std::move(ops)), config_(std::move(config)) {}
  Status load_weights(Device& device, Stream& stream, const GgufFile& gguf, int64_t max_model_len);
  static Result<Layer> load_layer(class WeightLoader& loader, int index);
  Status load_rope_table(class WeightLoader& loader, int64_t max_model_len);
  Status allocate(Device& device, const ModelLimits& limits);
  Status attention_block(Stream& stream, const ModelInput& input, AttentionBackend& attention,
                         const AttentionMetadata& metadata, const Layer& layer,
                         const KVCacheView& cache);
  Status feed_forward_block(Stream& stream, int64_t num_tokens, const Layer& layer);
  Status rotate(Stream& stream, const ModelInput& input, float* x, int num_heads);

  std::unique_ptr<Ops> ops_;
  ModelConfig config_;
  std::vector<Buffer> weight_memory_;
  WeightMatrix embedding_;
  WeightMatrix output_;
  const float* output_norm_ = nullptr;
  const float* cos_sin_ = nullptr;
  std::vector<Layer> layers_;

  // Activations, float32, [max_num_batched_tokens, ...].
  Buffer hidden_;  // the residual stream
  Buffer normed_;
  Buffer q_, k_, v_, attention_out_;
  Buffer gate_, up_;
  Buffer last_rows_;  // [max_num_logits, hidden_size]: those whose logits are wanted
  Buffer logits_;     // [max_num_logits, vocab_size]
};

}  // namespace paceline
