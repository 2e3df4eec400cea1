#include "attention/extend_chunks.h"

#include <gtest/gtest.h>

#include <vector>

namespace paceline {
namespace {

// The lengths of all chunks of all sequences, for chunks of `tokens`.
std::vector<std::vector<int32_t>> lengths(const std::vector<int32_t>& seq_lens, int32_t tokens) {
  std::vector<std::vector<int32_t>> chunks;
  const int32_t longest = *std::max_element(seq_lens.begin(), seq_lens.end());
  for (int32_t start = 0; start < longest; start += tokens) {
    chunks.emplace_back();
    for (const int32_t seq_len : seq_lens) {
      chunks.back().push_back(chunk_length(seq_len, start, tokens));
    }
  }
  return chunks;
}

// Golden vectors 1 to 3 of aiter_fa section 4.5 (b), with the original's share of 32768 / n tokens.
TEST(ExtendChunks, GoldenLengths) {
  using Lengths = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(lengths({20000, 30}, 32768 / 2), (Lengths{{16384, 30}, {3616, 0}}));
  EXPECT_EQ(lengths({40000, 0}, 32768 / 2), (Lengths{{16384, 0}, {16384, 0}, {7232, 0}}));
  EXPECT_EQ(lengths({1000, 10922, 10923}, 32768 / 3), (Lengths{{1000, 10922, 10922}, {0, 0, 1}}));
}

TEST(ExtendChunks, EveryPassFitsTheWorkspace) {
  for (const int32_t workspace : {64, 100, 255, 256, 300, 1000, 32768}) {
    for (const int32_t extends : {1, 2, 3, 7, 64, 128, 129, 32768, 40000}) {
      const ExtendChunks chunks = plan_extend_chunks(extends, workspace);
      EXPECT_GE(chunks.requests_per_pass, 1);
      EXPECT_GE(chunks.chunk_tokens, std::min(workspace, kSplitTokens));
      EXPECT_LE(int64_t{chunks.chunk_tokens} * std::min(chunks.requests_per_pass, extends),
                workspace);
      if (workspace >= kSplitTokens) {
        EXPECT_EQ(chunks.chunk_tokens % kSplitTokens, 0);
      }
    }
  }
  EXPECT_EQ(plan_extend_chunks(2, 32768).chunk_tokens, 16384);
  EXPECT_EQ(plan_extend_chunks(3, 32768).chunk_tokens, 10752);  // the original: 10922
}

}  // namespace
}  // namespace paceline
