#include "attention/batch_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

namespace paceline {
namespace {

struct Case {
  const char* name;
  std::vector<int32_t> query_lens;
  std::vector<int32_t> seq_lens;
  int threshold;
  BatchSplit expected;
  int max_query_len = -1;  // -1: the exact one
  int num_tokens = -1;
};

std::vector<int32_t> starts_of(const std::vector<int32_t>& lens) {
  std::vector<int32_t> starts(lens.size() + 1, 0);
  std::partial_sum(lens.begin(), lens.end(), starts.begin() + 1);
  return starts;
}

Result<BatchSplit> split(const Case& c) {
  const std::vector<int32_t> starts = starts_of(c.query_lens);
  const int longest =
      c.query_lens.empty() ? 0 : *std::max_element(c.query_lens.begin(), c.query_lens.end());
  return split_decodes_prefills_and_extends(c.max_query_len < 0 ? longest : c.max_query_len,
                                            c.num_tokens < 0 ? starts.back() : c.num_tokens,
                                            c.threshold, starts, c.seq_lens);
}

// aiter_fa_spec.md section 2.3. Case D is the original's defect, done right.
const std::vector<Case> kGolden{
    {"A mixed", {1, 1, 1, 4, 6, 5, 7}, {10, 300, 17, 20004, 36, 5, 7}, 1, {3, 2, 2, 3, 10, 12}},
    {"B decode only", {1, 1}, {9, 40}, 1, {2, 0, 0, 2, 0, 0}},
    {"C empty", {}, {}, 1, {0, 0, 0, 0, 0, 0}},
    {"D loose bound", {1, 1}, {9, 40}, 1, {2, 0, 0, 2, 0, 0}, 8},
    {"E prompt after extend", {1, 4, 1}, {8, 20, 1}, 1, {1, 2, 0, 1, 5, 0}},
    {"F and a prefill", {1, 4, 1, 7}, {8, 20, 1, 7}, 1, {1, 2, 1, 1, 5, 7}},
    {"G prompt, prefill", {1, 1, 7}, {8, 1, 7}, 1, {2, 0, 1, 2, 0, 7}},
    {"H speculative", {4, 4, 2, 9}, {100, 50, 30, 9}, 4, {3, 0, 1, 10, 0, 9}},
    {"I ragged", {4, 1, 3}, {100, 50, 30}, 4, {3, 0, 0, 8, 0, 0}},
    {"J padded", {1, 1, 0, 0}, {5, 6, 0, 0}, 1, {4, 0, 0, 4, 0, 0}, -1, 4},
    {"K only prefill", {5, 7}, {5, 7}, 1, {0, 0, 2, 0, 0, 12}},
    {"L only extend", {5, 7}, {9, 70}, 1, {0, 2, 0, 0, 12, 0}},
};

TEST(BatchSplit, GoldenVectors) {
  for (const Case& c : kGolden) {
    const Result<BatchSplit> result = split(c);
    ASSERT_TRUE(result.ok()) << c.name << ": " << result.status().to_string();
    EXPECT_EQ(*result, c.expected) << c.name;
  }
}

TEST(BatchSplit, GoldenMOutOfOrderIsRejected) {
  const Result<BatchSplit> result = split({"M", {5, 4}, {5, 20}, 1, {}});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(result.status().message().find("request 1 (query_len 4, seq_len 20)"),
            std::string::npos)
      << result.status().message();
}

TEST(BatchSplit, ADecodeAfterAnExtendIsRejected) {
  EXPECT_FALSE(split({"", {4, 1}, {20, 9}, 1, {}}).ok());
  EXPECT_FALSE(split({"", {4, 1}, {4, 9}, 1, {}}).ok());
}

TEST(ReorderBatch, SortsIntoRegionsAndLeavesWhatIsInPlace) {
  std::mt19937 rng(7);
  for (int round = 0; round < 500; ++round) {
    const auto n = static_cast<size_t>(rng() % 12);
    const int threshold = 1 + static_cast<int>(rng() % 3);
    std::vector<int32_t> scheduled(n);
    std::vector<int32_t> computed(n);
    for (size_t i = 0; i < n; ++i) {
      scheduled[i] = 1 + static_cast<int32_t>(rng() % 6);
      computed[i] = rng() % 3 == 0 ? 0 : static_cast<int32_t>(rng() % 50);
    }
    const std::vector<int> order = reorder_batch(scheduled, computed, threshold);
    std::vector<int> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    const auto label = [&](size_t i) {
      return computed[i] == 0 ? 2 : (scheduled[i] <= threshold ? 0 : 1);
    };
    std::vector<int> before(n);
    std::vector<int> after(n);
    for (size_t i = 0; i < n; ++i) {
      EXPECT_EQ(sorted[i], static_cast<int>(i));  // a permutation
      before[i] = label(i);
      after[i] = label(static_cast<size_t>(order[i]));
    }
    EXPECT_TRUE(std::is_sorted(after.begin(), after.end()));
    for (size_t i = 0; i < n; ++i) {
      if (before[i] == after[i]) {
        EXPECT_EQ(order[i], static_cast<int>(i)) << "moved without need";
      }
    }
  }
}

}  // namespace
}  // namespace paceline
