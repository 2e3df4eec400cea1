#include "model/gguf_tokenizer.h"

#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace paceline {
namespace {

template <typename T>
Status out_of_range(const GgufFile& gguf, const char* key, T value) {
  return invalid_argument("{}: metadata key '{}' holds {}; 0 to {} are possible", gguf.name(), key,
                          value, INT32_MAX);
}

Status read_id(const GgufFile& gguf, const char* key, std::optional<int32_t>& id) {
  if (gguf.has(key)) {
    PACELINE_ASSIGN_OR_RETURN(const uint64_t given, gguf.get_uint(key));
    if (given > INT32_MAX) {
      return out_of_range(gguf, key, given);
    }
    id = static_cast<int32_t>(given);
  }
  return {};
}

Status read_types(const GgufFile& gguf, std::vector<int32_t>& types) {
  constexpr const char* kKey = "tokenizer.ggml.token_type";
  if (gguf.has(kKey)) {
    PACELINE_ASSIGN_OR_RETURN(const std::vector<int64_t> given, gguf.get_int_array(kKey));
    for (const int64_t type : given) {
      if (type < 0 || type > INT32_MAX) {
        return out_of_range(gguf, kKey, type);
      }
      types.push_back(static_cast<int32_t>(type));
    }
  }
  return {};
}

Result<TokenizerSpec> read_spec(const GgufFile& gguf) {
  PACELINE_ASSIGN_OR_RETURN(const std::string model, gguf.get_string("tokenizer.ggml.model"));
  if (model != "gpt2") {
    return unsupported("{}: tokenizer '{}' is not served; possible is gpt2 (byte-level BPE)",
                       gguf.name(), printable(model));
  }
  TokenizerSpec spec;
  PACELINE_ASSIGN_OR_RETURN(spec.tokens, gguf.get_string_array("tokenizer.ggml.tokens"));
  PACELINE_ASSIGN_OR_RETURN(spec.merges, gguf.get_string_array("tokenizer.ggml.merges"));
  PACELINE_RETURN_IF_ERROR(read_types(gguf, spec.token_types));
  spec.pre_tokenizer = "default";
  if (gguf.has("tokenizer.ggml.pre")) {
    PACELINE_ASSIGN_OR_RETURN(spec.pre_tokenizer, gguf.get_string("tokenizer.ggml.pre"));
  }
  PACELINE_RETURN_IF_ERROR(read_id(gguf, "tokenizer.ggml.bos_token_id", spec.bos_id));
  PACELINE_RETURN_IF_ERROR(read_id(gguf, "tokenizer.ggml.eos_token_id", spec.eos_id));
  PACELINE_RETURN_IF_ERROR(read_id(gguf, "tokenizer.ggml.eot_token_id", spec.eot_id));
  // Llama 3's files leave the flag out and mean it.
  spec.add_bos = spec.pre_tokenizer == "llama-bpe" || spec.pre_tokenizer == "llama3" ||
                 spec.pre_tokenizer == "llama-v3";
  if (gguf.has("tokenizer.ggml.add_bos_token")) {
    PACELINE_ASSIGN_OR_RETURN(spec.add_bos, gguf.get_bool("tokenizer.ggml.add_bos_token"));
  }
  return spec;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const GgufFile& gguf) {
  PACELINE_ASSIGN_OR_RETURN(TokenizerSpec spec, read_spec(gguf));
  auto tokenizer = Tokenizer::create(std::move(spec));
  if (!tokenizer.ok()) {
    return Status(tokenizer.status().code(), gguf.name() + ": " + tokenizer.status().message());
  }
  return tokenizer;
}

}  // namespace paceline
