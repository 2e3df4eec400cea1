// Model files that cannot be run: each says what is wrong and where.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "engine/engine.h"
#include "model/gguf_tokenizer.h"
#include "support/test_model.h"

namespace paceline {
namespace {

class ModelErrors : public ::testing::Test {
 protected:
  // Loads the file as the program does; returns why that fails.
  static Status load(const std::string& bytes) {
    const auto gguf =
        GgufFile::parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "m.gguf");
    if (!gguf.ok()) {
      return gguf.status();
    }
    if (const auto tokenizer = load_tokenizer(**gguf); !tokenizer.ok()) {
      return tokenizer.status();
    }
    const auto device = create_device("cpu", {.num_threads = 1}).value();
    EngineOptions options;
    options.max_num_seqs = 1;
    options.max_model_len = 32;
    const auto engine = Engine::create(*device, **gguf, options, {});
    // check() finds, without loading, what create() finds in the file.
    if (const Status found = Engine::check(DeviceKind::kCpu, **gguf); !found.ok()) {
      EXPECT_EQ(found.message(), engine.status().message());
    }
    return engine.ok() ? Status() : engine.status();
  }

  // Replaces the first occurrence of a name in the file by one of the same length.
  static std::string renamed(const std::string& from, const std::string& to) {
    std::string bytes = testing::make_tiny_gguf({});
    const size_t at = bytes.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    EXPECT_EQ(from.size(), to.size());
    return bytes.replace(at, from.size(), to);
  }

  // The uint32 value of a metadata key, replaced.
  static std::string with_number(const std::string& key, uint32_t value) {
    std::string bytes = testing::make_tiny_gguf({});
    const size_t at = bytes.find(key) + key.size() + 4;
    std::memcpy(bytes.data() + at, &value, 4);
    return bytes;
  }

  static void expect_refused(const std::string& bytes, const std::string& words) {
    const Status status = load(bytes);
    EXPECT_FALSE(status.ok()) << words;
    EXPECT_EQ(status.message().rfind("m.gguf: ", 0), 0U) << status.message();
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
};

TEST_F(ModelErrors, TheTinyModelItselfLoads) {
  const std::string bytes = testing::make_tiny_gguf({});
  EXPECT_TRUE(load(bytes).ok());
  const auto gguf =
      GgufFile::parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "m").value();
  EXPECT_TRUE(Engine::check(DeviceKind::kCpu, *gguf).ok());
  EXPECT_TRUE(load(testing::make_tiny_gguf({.tied = false})).ok());
}

TEST_F(ModelErrors, ArchitectureAndTokenizer) {
  std::string other = testing::make_tiny_gguf({});
  const std::string key = "general.architecture";
  const size_t value = other.find(key) + key.size() + 4 + 8;
  other.replace(value, 5, "mamba");
  expect_refused(other, "architecture 'mamba'");
  expect_refused(renamed("gpt2", "bert"), "tokenizer 'bert'");
  expect_refused(renamed("tokenizer.ggml.merges", "tokenizer.ggml.mergez"),
                 "'tokenizer.ggml.merges' is missing");
}

TEST_F(ModelErrors, MissingAndUnknownTensors) {
  expect_refused(renamed("blk.1.attn_k.weight", "blk.1.attn_x.weight"),
                 "tensor 'blk.1.attn_k.weight' of shape [32, 64] is missing");
  expect_refused(renamed("output_norm.weight", "output_nerm.weight"), "output_norm.weight");
  expect_refused(with_number("llama.block_count", 1), "not part of the served architecture");
}

TEST_F(ModelErrors, NumbersThatMakeNoSense) {
  expect_refused(with_number("llama.block_count", 0), "llama.block_count");
  expect_refused(with_number("llama.block_count", 3), "blk.2.attn_norm.weight");
  expect_refused(with_number("llama.block_count", 0xFFFFFFFFU), "1 to 4096");
  expect_refused(with_number("llama.embedding_length", 63), "not a multiple of 4 heads");
  expect_refused(with_number("llama.embedding_length", 128), "has shape [300, 64]");
  expect_refused(with_number("llama.attention.head_count", 0), "head_count");
  expect_refused(with_number("llama.attention.head_count_kv", 3), "not a multiple of 3 KV heads");
  expect_refused(with_number("llama.context_length", 0), "context_length");
  expect_refused(with_number("llama.context_length", 1), "a prompt and its continuation need 2");
  expect_refused(with_number("llama.vocab_size", 299), "'token_embd.weight' has 300 rows");
  expect_refused(with_number("tokenizer.ggml.bos_token_id", 0xFFFFFFFFU), "holds 4294967295");
  expect_refused(with_number("llama.feed_forward_length", 100), "ffn_gate.weight");
  expect_refused(with_number("tokenizer.ggml.eos_token_id", 300), "EOS id 300");
  expect_refused(renamed("llama.context_length", "llama.context_lemgth"),
                 "'llama.context_length' is missing");
}

TEST_F(ModelErrors, MutationsNeverCrash) {
  const std::string file = testing::make_tiny_gguf({.num_layers = 1});
  const size_t header = file.find("blk.0.ffn_down.weight") + 64;
  std::mt19937 rng(11);
  for (int round = 0; round < 400; ++round) {
    std::string bytes = file;
    for (int edits = 1 + static_cast<int>(rng() % 4); edits > 0; --edits) {
      bytes[rng() % header] = static_cast<char>(rng());
    }
    const Status status = load(bytes);
    EXPECT_TRUE(status.ok() || !status.message().empty());
  }
  for (size_t length = 0; length < file.size(); length += 1 + length / 40) {
    EXPECT_FALSE(load(file.substr(0, length)).ok());
  }
}

}  // namespace
}  // namespace paceline
