#include "model/llama_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace paceline {
namespace {

Status check_weight(const GgufFile& gguf, const WeightSpec& spec) {
  const GgufTensor* tensor = gguf.find_tensor(spec.name);
  if (tensor == nullptr) {
    return spec.optional ? Status()
                         : not_found("{}: tensor '{}' of shape [{}] is missing", gguf.name(),
                                     spec.name, fmt::join(spec.shape, ", "));
  }
  if (tensor->shape != spec.shape) {
    return invalid_argument("{}: tensor '{}' has shape [{}]; [{}] expected", gguf.name(), spec.name,
                            fmt::join(tensor->shape, ", "), fmt::join(spec.shape, ", "));
  }
  if (!tensor->format.has_value()) {
    return unsupported(
        "{}: tensor '{}' is of {}; possible are F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q6_K",
        gguf.name(), spec.name, tensor->type_name);
  }
  return {};
}

}  // namespace

std::vector<WeightSpec> llama_weights(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  const int64_t q_size = int64_t{config.num_heads} * config.head_size;
  const int64_t kv_size = int64_t{config.num_kv_heads} * config.head_size;
  std::vector<WeightSpec> specs{{"token_embd.weight", {config.vocab_size, hidden}}};
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const auto add = [&](const char* name, std::vector<int64_t> shape) {
      specs.push_back({fmt::format("blk.{}.{}.weight", layer, name), std::move(shape)});
    };
    add("attn_norm", {hidden});
    add("attn_q", {q_size, hidden});
    add("attn_k", {kv_size, hidden});
    add("attn_v", {kv_size, hidden});
    add("attn_output", {hidden, q_size});
    add("ffn_norm", {hidden});
    add("ffn_gate", {inner, hidden});
    add("ffn_up", {inner, hidden});
    add("ffn_down", {hidden, inner});
  }
  specs.push_back({"output_norm.weight", {hidden}});
  specs.push_back({"output.weight", {config.vocab_size, hidden}, true});  // absent: tied
  specs.push_back({"rope_freqs.weight", {config.rotary_dim / 2}, true});  // Llama 3.1
  return specs;
}

Status check_llama_weights(const GgufFile& gguf, const ModelConfig& config) {
  std::set<std::string, std::less<>> known;
  for (WeightSpec& spec : llama_weights(config)) {
    PACELINE_RETURN_IF_ERROR(check_weight(gguf, spec));
    known.insert(std::move(spec.name));
  }
  std::vector<std::string> unknown;
  for (const GgufTensor& tensor : gguf.tensors()) {
    if (!known.contains(tensor.name)) {
      unknown.push_back(printable(tensor.name));
    }
  }
  if (unknown.empty()) {
    return {};
  }
  const size_t count = unknown.size();
  unknown.resize(std::min<size_t>(count, 5));
  return unsupported("{}: {} tensors are not part of the served architecture: {}{}", gguf.name(),
                     count, fmt::join(unknown, ", "), count > unknown.size() ? ", ..." : "");
}

}  // namespace paceline
