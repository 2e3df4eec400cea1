#include "model/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "support/test_model.h"

namespace paceline {
namespace {

// The vocabulary of the real model, against Hugging Face tokenizers
// (tests/golden/make_smollm2_expected.py).
TEST(GgufTokenizer, GoldenSmolLM2) {
  const std::string path = testing::smollm2_path();
  if (path.empty()) {
    GTEST_SKIP() << "the SmolLM2 model is not in the cache; scripts/get-model fetches it";
  }
  const auto gguf = GgufFile::open(path).value();
  const auto t = load_tokenizer(*gguf).value();
  std::ifstream file(std::string(PACELINE_TEST_DATA_DIR) + "/smollm2/tokenizer_expected.json");
  const auto cases = nlohmann::json::parse(file);
  ASSERT_GT(cases.size(), 100U);
  for (const auto& c : cases) {
    const std::vector<int32_t> ids = t->encode(c["text"].get<std::string>()).value();
    EXPECT_EQ(ids, c["ids"].get<std::vector<int32_t>>()) << c["text"];
    EXPECT_EQ(t->decode(ids), c["decoded"].get<std::string>());
  }
}

}  // namespace
}  // namespace paceline
