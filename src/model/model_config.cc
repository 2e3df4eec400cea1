#include "model/model_config.h"

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace paceline {
namespace {

// Beyond these a number is no model's, and products of two stay far inside 64 bits.
constexpr uint64_t kMaxDimension = uint64_t{1} << 24;
constexpr uint64_t kMaxLayers = 4096;

class ConfigReader {
 public:
  ConfigReader(const GgufFile& gguf, std::string architecture)
      : gguf_(gguf), architecture_(std::move(architecture)) {}

  std::string key(const char* suffix) const { return architecture_ + "." + suffix; }
  bool has(const char* suffix) const { return gguf_.has(key(suffix)); }

  template <typename T>
  Status read(const char* suffix, uint64_t max, T& value) const {
    PACELINE_ASSIGN_OR_RETURN(const uint64_t given, gguf_.get_uint(key(suffix)));
    if (given == 0 || given > max) {
      return invalid_argument("{}: metadata key '{}' is {}; 1 to {} are possible", gguf_.name(),
                              key(suffix), given, max);
    }
    value = static_cast<T>(given);
    return {};
  }
  template <typename T>
  Status read_or(const char* suffix, uint64_t max, T fallback, T& value) const {
    value = fallback;
    return has(suffix) ? read(suffix, max, value) : Status();
  }
  Status read_positive(const char* suffix, double& value) const {
    PACELINE_ASSIGN_OR_RETURN(value, gguf_.get_float(key(suffix)));
    if (!(value > 0.0 && value <= 1e30)) {
      return invalid_argument("{}: metadata key '{}' is {}; above 0 to 1e30 is possible",
                              gguf_.name(), key(suffix), value);
    }
    return {};
  }

 private:
  const GgufFile& gguf_;
  std::string architecture_;
};

Status refuse_features(const GgufFile& gguf, const ConfigReader& reader) {
  if (reader.has("expert_count")) {
    PACELINE_ASSIGN_OR_RETURN(const uint64_t experts, gguf.get_uint(reader.key("expert_count")));
    if (experts > 0) {
      return unsupported("{}: a mixture of {} experts is not served", gguf.name(), experts);
    }
  }
  if (reader.has("rope.scaling.type")) {
    PACELINE_ASSIGN_OR_RETURN(const std::string type,
                              gguf.get_string(reader.key("rope.scaling.type")));
    if (type != "none") {
      return unsupported("{}: rope scaling '{}' is not served; possible is none", gguf.name(),
                         printable(type));
    }
  }
  for (const char* suffix : {"rope.scale_linear", "rope.scaling.factor"}) {
    if (reader.has(suffix)) {
      PACELINE_ASSIGN_OR_RETURN(const double factor, gguf.get_float(reader.key(suffix)));
      if (factor != 1.0 && factor != 0.0) {
        return unsupported("{}: {} {} is not served; possible is 1", gguf.name(),
                           reader.key(suffix), factor);
      }
    }
  }
  return {};
}

Status check_shape(const GgufFile& gguf, const ModelConfig& config) {
  if (config.num_heads % config.num_kv_heads != 0) {
    return invalid_argument("{}: {} attention heads are not a multiple of {} KV heads", gguf.name(),
                            config.num_heads, config.num_kv_heads);
  }
  if (config.rotary_dim > config.head_size || config.rotary_dim % 2 != 0) {
    return invalid_argument("{}: rope dimension {} must be even and at most the head size {}",
                            gguf.name(), config.rotary_dim, config.head_size);
  }
  return {};
}

}  // namespace

Result<ModelConfig> read_model_config(const GgufFile& gguf) {
  ModelConfig config;
  PACELINE_ASSIGN_OR_RETURN(config.architecture, gguf.get_string("general.architecture"));
  if (config.architecture != "llama") {
    return unsupported("{}: architecture '{}' is not served; possible is llama", gguf.name(),
                       printable(config.architecture));
  }
  const ConfigReader reader(gguf, config.architecture);
  PACELINE_RETURN_IF_ERROR(refuse_features(gguf, reader));
  PACELINE_RETURN_IF_ERROR(reader.read("block_count", kMaxLayers, config.num_layers));
  PACELINE_RETURN_IF_ERROR(reader.read("embedding_length", kMaxDimension, config.hidden_size));
  PACELINE_RETURN_IF_ERROR(
      reader.read("feed_forward_length", kMaxDimension, config.intermediate_size));
  PACELINE_RETURN_IF_ERROR(reader.read("attention.head_count", kMaxDimension, config.num_heads));
  PACELINE_RETURN_IF_ERROR(reader.read_or("attention.head_count_kv", kMaxDimension,
                                          config.num_heads, config.num_kv_heads));
  PACELINE_RETURN_IF_ERROR(reader.read("context_length", INT32_MAX, config.max_position));
  if (config.max_position < 2) {
    return invalid_argument("{}: metadata key '{}' is 1; a prompt and its continuation need 2",
                            gguf.name(), reader.key("context_length"));
  }
  if (!reader.has("attention.key_length") && config.hidden_size % config.num_heads != 0) {
    return invalid_argument("{}: embedding length {} is not a multiple of {} heads", gguf.name(),
                            config.hidden_size, config.num_heads);
  }
  PACELINE_RETURN_IF_ERROR(reader.read_or("attention.key_length", kMaxDimension,
                                          config.hidden_size / config.num_heads, config.head_size));
  int value_length = 0;
  PACELINE_RETURN_IF_ERROR(
      reader.read_or("attention.value_length", kMaxDimension, config.head_size, value_length));
  if (value_length != config.head_size) {
    return unsupported("{}: values of {} and keys of {} dimensions; they must be the same",
                       gguf.name(), value_length, config.head_size);
  }
  PACELINE_RETURN_IF_ERROR(
      reader.read_or("rope.dimension_count", kMaxDimension, config.head_size, config.rotary_dim));
  double eps = 0.0;
  PACELINE_RETURN_IF_ERROR(reader.read_positive("attention.layer_norm_rms_epsilon", eps));
  config.rms_norm_eps = static_cast<float>(eps);
  config.rope_theta = 10000.0;
  if (reader.has("rope.freq_base")) {
    PACELINE_RETURN_IF_ERROR(reader.read_positive("rope.freq_base", config.rope_theta));
  }
  config.rope_interleaved = true;
  const GgufTensor* embedding = gguf.find_tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return not_found("{}: tensor 'token_embd.weight' of 2 dimensions is missing", gguf.name());
  }
  config.vocab_size = embedding->shape[0];
  if (reader.has("vocab_size")) {
    PACELINE_ASSIGN_OR_RETURN(const uint64_t given, gguf.get_uint(reader.key("vocab_size")));
    if (given != static_cast<uint64_t>(config.vocab_size)) {
      return invalid_argument("{}: metadata key '{}' is {}; 'token_embd.weight' has {} rows",
                              gguf.name(), reader.key("vocab_size"), given, config.vocab_size);
    }
  }
  PACELINE_RETURN_IF_ERROR(check_shape(gguf, config));
  return config;
}

int64_t kv_bytes_per_token(const ModelConfig& config, DType kv_cache_dtype) {
  return int64_t{2} * config.num_layers * config.num_kv_heads * config.head_size *
         static_cast<int64_t>(dtype_size(kv_cache_dtype));
}

}  // namespace paceline
