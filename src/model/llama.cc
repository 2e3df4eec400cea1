#include "model/llama.h"

#include <cmath>

#include "base/errors.h"
#include "base/status_macros.h"
#include "model/llama_weights.h"
#include "model/weight_loader.h"

namespace paceline {

Result<ModelConfig> LlamaModel::check(const GgufFile& gguf) {
  PACELINE_ASSIGN_OR_RETURN(ModelConfig config, read_model_config(gguf));
  PACELINE_RETURN_IF_ERROR(check_llama_weights(gguf, config));
  return config;
}

Result<std::unique_ptr<LlamaModel>> LlamaModel::load(Device& device, const GgufFile& gguf,
                                                     const ModelLimits& limits) {
  PACELINE_ASSIGN_OR_RETURN(ModelConfig config, check(gguf));
  PACELINE_ASSIGN_OR_RETURN(std::unique_ptr<Ops> ops, Ops::create(device));
  std::unique_ptr<LlamaModel> model(new LlamaModel(std::move(ops), std::move(config)));
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, device.create_stream());
  PACELINE_RETURN_IF_ERROR(model->load_weights(device, *stream, gguf, limits.max_model_len));
  PACELINE_RETURN_IF_ERROR(model->allocate(device, limits));
  return model;
}

Status LlamaModel::load_weights(Device& device, Stream& stream, const GgufFile& gguf,
                                int64_t max_model_len) {
  WeightLoader loader(device, stream, gguf);
  PACELINE_ASSIGN_OR_RETURN(embedding_, loader.matrix("token_embd.weight"));
  output_ = embedding_;  // tied, unless the file says otherwise
  if (loader.has("output.weight")) {
    PACELINE_ASSIGN_OR_RETURN(output_, loader.matrix("output.weight"));
  }
  PACELINE_ASSIGN_OR_RETURN(output_norm_, loader.vector("output_norm.weight"));
  for (int i = 0; i < config_.num_layers; ++i) {
    PACELINE_ASSIGN_OR_RETURN(const Layer layer, load_layer(loader, i));
    layers_.push_back(layer);
  }
  PACELINE_RETURN_IF_ERROR(load_rope_table(loader, max_model_len));
  weight_memory_ = loader.take_buffers();
  return {};
}

Result<LlamaModel::Layer> LlamaModel::load_layer(WeightLoader& loader, int index) {
  const auto name = [&](const char* part) { return fmt::format("blk.{}.{}.weight", index, part); };
  Layer layer{};
  PACELINE_ASSIGN_OR_RETURN(layer.attention_norm, loader.vector(name("attn_norm")));
  PACELINE_ASSIGN_OR_RETURN(layer.q, loader.matrix(name("attn_q")));
  PACELINE_ASSIGN_OR_RETURN(layer.k, loader.matrix(name("attn_k")));
  PACELINE_ASSIGN_OR_RETURN(layer.v, loader.matrix(name("attn_v")));
  PACELINE_ASSIGN_OR_RETURN(layer.o, loader.matrix(name("attn_output")));
  PACELINE_ASSIGN_OR_RETURN(layer.ffn_norm, loader.vector(name("ffn_norm")));
  PACELINE_ASSIGN_OR_RETURN(layer.gate, loader.matrix(name("ffn_gate")));
  PACELINE_ASSIGN_OR_RETURN(layer.up, loader.matrix(name("ffn_up")));
  PACELINE_ASSIGN_OR_RETURN(layer.down, loader.matrix(name("ffn_down")));
  return layer;
}

// Row p: cos then sin of p * theta^(-2i / rotary_dim), each frequency divided by rope_freqs[i]
// where the file has them (Llama 3.1). Frequencies and angles are rounded to float32, as
// transformers computes them.
Status LlamaModel::load_rope_table(WeightLoader& loader, int64_t max_model_len) {
  const auto half = static_cast<size_t>(config_.rotary_dim / 2);
  std::vector<float> factors(half, 1.0F);
  if (loader.has("rope_freqs.weight")) {
    factors = loader.host_vector("rope_freqs.weight");
  }
  std::vector<float> table(static_cast<size_t>(max_model_len) * 2 * half);
  for (size_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / config_.rotary_dim;
    const float frequency = static_cast<float>(std::pow(config_.rope_theta, exponent)) / factors[i];
    for (size_t position = 0; position < static_cast<size_t>(max_model_len); ++position) {
      const float angle = static_cast<float>(position) * frequency;
      table[position * 2 * half + i] = std::cos(angle);
      table[position * 2 * half + half + i] = std::sin(angle);
    }
  }
  PACELINE_ASSIGN_OR_RETURN(cos_sin_, loader.upload(table));
  return {};
}

Status LlamaModel::allocate(Device& device, const ModelLimits& limits) {
  const auto allocate_rows = [&](Buffer& buffer, int64_t rows, int64_t width) -> Status {
    PACELINE_ASSIGN_OR_RETURN(buffer, device.allocate(static_cast<size_t>(rows) *
                                                      static_cast<size_t>(width) * sizeof(float)));
    return {};
  };
  const int64_t tokens = limits.max_num_batched_tokens;
  const int64_t q_size = int64_t{config_.num_heads} * config_.head_size;
  const int64_t kv_size = int64_t{config_.num_kv_heads} * config_.head_size;
  PACELINE_RETURN_IF_ERROR(allocate_rows(hidden_, tokens, config_.hidden_size));
  PACELINE_RETURN_IF_ERROR(allocate_rows(normed_, tokens, config_.hidden_size));
  PACELINE_RETURN_IF_ERROR(allocate_rows(q_, tokens, q_size));
  PACELINE_RETURN_IF_ERROR(allocate_rows(k_, tokens, kv_size));
  PACELINE_RETURN_IF_ERROR(allocate_rows(v_, tokens, kv_size));
  PACELINE_RETURN_IF_ERROR(allocate_rows(attention_out_, tokens, q_size));
  PACELINE_RETURN_IF_ERROR(allocate_rows(gate_, tokens, config_.intermediate_size));
  PACELINE_RETURN_IF_ERROR(allocate_rows(up_, tokens, config_.intermediate_size));
  PACELINE_RETURN_IF_ERROR(allocate_rows(last_rows_, limits.max_num_logits, config_.hidden_size));
  return allocate_rows(logits_, limits.max_num_logits, config_.vocab_size);
}

namespace {

// (out (+)= W x) for contiguous rows.
GemmParams linear(const float* x, int64_t n, int64_t cols,
                  std::initializer_list<std::pair<const WeightMatrix*, float*>> outputs,
                  bool accumulate = false) {
  GemmParams p;
  p.x = x;
  p.x_stride = cols;
  p.n = n;
  p.accumulate = accumulate;
  for (const auto& [weights, out] : outputs) {
    p.outputs[static_cast<size_t>(p.num_outputs++)] = {*weights, out, weights->rows};
  }
  return p;
}

}  // namespace

Status LlamaModel::rotate(Stream& stream, const ModelInput& input, float* x, int num_heads) {
  RopeParams p;
  p.x = x;
  p.token_stride = int64_t{num_heads} * config_.head_size;
  p.n = input.num_tokens;
  p.num_heads = num_heads;
  p.head_size = config_.head_size;
  p.rotary_dim = config_.rotary_dim;
  p.interleaved = config_.rope_interleaved;
  p.positions = input.positions;
  p.cos_sin = cos_sin_;
  return ops_->rope(stream, p);
}

Status LlamaModel::attention_block(Stream& stream, const ModelInput& input,
                                   AttentionBackend& attention, const AttentionMetadata& metadata,
                                   const Layer& layer, const KVCacheView& cache) {
  const int64_t n = input.num_tokens;
  PACELINE_RETURN_IF_ERROR(ops_->rms_norm(stream, hidden_.as<float>(), layer.attention_norm,
                                          config_.rms_norm_eps, n, config_.hidden_size,
                                          normed_.as<float>()));
  PACELINE_RETURN_IF_ERROR(ops_->gemm(stream, linear(normed_.as<float>(), n, config_.hidden_size,
                                                     {{&layer.q, q_.as<float>()},
                                                      {&layer.k, k_.as<float>()},
                                                      {&layer.v, v_.as<float>()}})));
  PACELINE_RETURN_IF_ERROR(rotate(stream, input, q_.as<float>(), config_.num_heads));
  PACELINE_RETURN_IF_ERROR(rotate(stream, input, k_.as<float>(), config_.num_kv_heads));
  const auto view = [&](const Buffer& buffer, int heads) {
    return TensorView::contiguous(buffer.data(), DType::kFloat32, {n, heads, config_.head_size});
  };
  const TensorView k = view(k_, config_.num_kv_heads);
  const TensorView v = view(v_, config_.num_kv_heads);
  PACELINE_RETURN_IF_ERROR(attention.update_kv_cache(stream, k, v, input.slot_mapping, cache));
  AttentionLayer attention_layer;
  attention_layer.cache = cache;
  PACELINE_RETURN_IF_ERROR(attention.forward(stream, metadata, attention_layer,
                                             view(q_, config_.num_heads), k, v,
                                             view(attention_out_, config_.num_heads)));
  return ops_->gemm(stream, linear(attention_out_.as<float>(), n, layer.o.cols,
                                   {{&layer.o, hidden_.as<float>()}}, true));
}

Status LlamaModel::feed_forward_block(Stream& stream, int64_t num_tokens, const Layer& layer) {
  PACELINE_RETURN_IF_ERROR(ops_->rms_norm(stream, hidden_.as<float>(), layer.ffn_norm,
                                          config_.rms_norm_eps, num_tokens, config_.hidden_size,
                                          normed_.as<float>()));
  PACELINE_RETURN_IF_ERROR(
      ops_->gemm(stream, linear(normed_.as<float>(), num_tokens, config_.hidden_size,
                                {{&layer.gate, gate_.as<float>()}, {&layer.up, up_.as<float>()}})));
  PACELINE_RETURN_IF_ERROR(ops_->silu_mul(stream, gate_.as<float>(), up_.as<float>(), num_tokens,
                                          config_.intermediate_size));
  return ops_->gemm(stream, linear(gate_.as<float>(), num_tokens, config_.intermediate_size,
                                   {{&layer.down, hidden_.as<float>()}}, true));
}

Status LlamaModel::forward(Stream& stream, const ModelInput& input, AttentionBackend& attention,
                           const AttentionMetadata& metadata, std::span<const KVCacheView> caches) {
  if (caches.size() != layers_.size()) {
    return invalid_argument("{} caches for {} layers", caches.size(), layers_.size());
  }
  PACELINE_RETURN_IF_ERROR(
      ops_->embed(stream, embedding_, input.ids, input.num_tokens, hidden_.as<float>()));
  for (size_t i = 0; i < layers_.size(); ++i) {
    PACELINE_RETURN_IF_ERROR(
        attention_block(stream, input, attention, metadata, layers_[i], caches[i]));
    PACELINE_RETURN_IF_ERROR(feed_forward_block(stream, input.num_tokens, layers_[i]));
  }
  if (input.num_logits == 0) {
    return {};
  }
  float* rows = last_rows_.as<float>();
  PACELINE_RETURN_IF_ERROR(ops_->gather_rows(stream, hidden_.as<float>(), input.logits_indices,
                                             input.num_logits, config_.hidden_size, rows));
  PACELINE_RETURN_IF_ERROR(ops_->rms_norm(stream, rows, output_norm_, config_.rms_norm_eps,
                                          input.num_logits, config_.hidden_size,
                                          normed_.as<float>()));
  return ops_->gemm(stream, linear(normed_.as<float>(), input.num_logits, config_.hidden_size,
                                   {{&output_, logits_.as<float>()}}));
}

}  // namespace paceline
