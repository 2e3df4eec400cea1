// The oracle against PyTorch: tests/golden/make_oracle_expected.py wrote what is expected.
#include "conformance/oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

namespace paceline {
namespace {

// The script's generator: the same values to the bit.
std::vector<float> values(int64_t count, uint32_t seed) {
  std::vector<float> out;
  uint64_t state = seed;
  for (int64_t i = 0; i < count; ++i) {
    state = (state * 1103515245U + 12345U) % (uint64_t{1} << 31);
    out.push_back(static_cast<float>((state >> 8) % 65536) / 32768.0F - 1.0F);
  }
  return out;
}

TEST(Oracle, SaysWhatPyTorchSays) {
  std::ifstream file(PACELINE_TEST_DATA "/oracle_expected.json");
  ASSERT_TRUE(file.good());
  const nlohmann::json expected = nlohmann::json::parse(file);
  EXPECT_GE(expected["cases"].size(), 19U);
  for (const nlohmann::json& c : expected["cases"]) {
    OracleProblem p;
    p.num_heads = c["num_heads"];
    p.num_kv_heads = c["num_kv_heads"];
    p.head_size = c["head_size"];
    p.head_size_v = c["head_size_v"];
    p.query_len = c["query_len"];
    p.seq_len = c["seq_len"];
    p.scale = c["scale"];
    p.causal = c["causal"];
    p.sliding_window = c["window"];
    p.chunk_size = c["chunk"];
    p.soft_cap = c["soft_cap"];
    const auto q = values(p.query_len * p.num_heads * p.head_size, 1);
    const auto k = values(p.seq_len * p.num_kv_heads * p.head_size, 2);
    const auto v = values(p.seq_len * p.num_kv_heads * p.head_size_v, 3);
    std::vector<float> slopes;
    std::vector<float> sinks;
    for (int head = 0; head < p.num_heads; ++head) {
      slopes.push_back(std::exp2(static_cast<float>(-head - 1)));
      sinks.push_back(static_cast<float>(head) - 1.5F);
    }
    const auto tree = c["tree"].get<std::vector<int64_t>>();
    p.q = q;
    p.k = k;
    p.v = v;
    p.tree_mask = tree;
    if (c["alibi"].get<bool>()) {
      p.slopes = slopes;
    }
    if (c["sinks"].get<bool>()) {
      p.sinks = sinks;
    }
    const OracleResult result = oracle_attention(p);
    const auto out = c["out"].get<std::vector<double>>();
    const auto lse = c["lse"].get<std::vector<double>>();
    ASSERT_EQ(result.out.size(), out.size());
    ASSERT_EQ(result.lse.size(), lse.size());
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_NEAR(result.out[i], out[i], 1e-12) << c["name"] << " value " << i;
    }
    for (size_t i = 0; i < lse.size(); ++i) {
      EXPECT_NEAR(result.lse[i], lse[i], 1e-12) << c["name"] << " lse " << i;
    }
  }
}

}  // namespace
}  // namespace paceline
