#include "support/test_model.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <vector>

#include "support/gguf_writer.h"

namespace paceline::testing {
namespace {

// GPT-2's printable stand-in for a byte, in UTF-8: printable Latin-1 stands for itself, the others
// for U+0100 and up.
std::string byte_symbol(int byte) {
  int code = byte;
  const auto printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  };
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) {
      code += printable(b) ? 0 : 1;
    }
  }
  if (code < 0x80) {
    return {static_cast<char>(code)};
  }
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

void add_tokenizer(GgufWriter& writer, int vocab_size) {
  std::vector<std::string> tokens{"<|endoftext|>", "<s>", "</s>"};
  std::vector<int32_t> types{3, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(byte_symbol(byte));
    types.push_back(1);
  }
  while (static_cast<int>(tokens.size()) < vocab_size) {
    tokens.push_back(fmt::format("<filler{}>", tokens.size()));
    types.push_back(1);
  }
  writer.add_string("tokenizer.ggml.model", "gpt2");
  writer.add_string("tokenizer.ggml.pre", "gpt-2");
  writer.add_strings("tokenizer.ggml.tokens", tokens);
  writer.add_int32s("tokenizer.ggml.token_type", types);
  writer.add_strings("tokenizer.ggml.merges", {});
  writer.add_uint32("tokenizer.ggml.bos_token_id", 1);
  writer.add_uint32("tokenizer.ggml.eos_token_id", 2);
}

}  // namespace

std::string smollm2_path() {
  const char* given = std::getenv("PACELINE_TEST_MODEL");
  if (given != nullptr) {
    return std::filesystem::exists(given) ? given : "";
  }
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string folder = cache != nullptr && *cache != '\0'
                                 ? std::string(cache)
                                 : std::string(home != nullptr ? home : "") + "/.cache";
  const std::string path = folder + "/paceline/SmolLM2-135M-Instruct.Q4_1.gguf";
  return std::filesystem::exists(path) ? path : "";
}

std::string make_tiny_gguf(const TinyModel& shape) {
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_string("general.name", "tiny");
  const auto number = [&](const char* key, int value) {
    writer.add_uint32(std::string("llama.") + key, static_cast<uint32_t>(value));
  };
  number("vocab_size", shape.vocab_size);
  number("block_count", shape.num_layers);
  number("context_length", shape.context_length);
  number("embedding_length", shape.hidden_size);
  number("feed_forward_length", shape.intermediate_size);
  number("attention.head_count", shape.num_heads);
  number("attention.head_count_kv", shape.num_kv_heads);
  writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  writer.add_float32("llama.rope.freq_base", 10000.0F);
  add_tokenizer(writer, shape.vocab_size);

  std::mt19937 rng(shape.seed);
  std::normal_distribution<float> normal;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& dims, float mean,
                       float deviation) {
    int64_t count = 1;
    for (const int64_t dim : dims) {
      count *= dim;
    }
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) {
      value = mean + deviation * normal(rng);
    }
    writer.add_tensor(name, WeightFormat::kF32, dims, values);
  };
  const int64_t hidden = shape.hidden_size;
  const int64_t kv = hidden / shape.num_heads * shape.num_kv_heads;
  const float spread = 1.0F / std::sqrt(static_cast<float>(hidden));
  add("token_embd.weight", {shape.vocab_size, hidden}, 0.0F, 1.0F);
  add("output_norm.weight", {hidden}, 1.0F, 0.1F);
  if (!shape.tied) {
    add("output.weight", {shape.vocab_size, hidden}, 0.0F, spread);
  }
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    const std::string prefix = fmt::format("blk.{}.", layer);
    add(prefix + "attn_norm.weight", {hidden}, 1.0F, 0.1F);
    add(prefix + "attn_q.weight", {hidden, hidden}, 0.0F, 2 * spread);
    add(prefix + "attn_k.weight", {kv, hidden}, 0.0F, 2 * spread);
    add(prefix + "attn_v.weight", {kv, hidden}, 0.0F, 2 * spread);
    add(prefix + "attn_output.weight", {hidden, hidden}, 0.0F, spread);
    add(prefix + "ffn_norm.weight", {hidden}, 1.0F, 0.1F);
    add(prefix + "ffn_gate.weight", {shape.intermediate_size, hidden}, 0.0F, spread);
    add(prefix + "ffn_up.weight", {shape.intermediate_size, hidden}, 0.0F, spread);
    add(prefix + "ffn_down.weight", {hidden, shape.intermediate_size}, 0.0F, spread);
  }
  return writer.finish();
}

}  // namespace paceline::testing
