#include "attention/extend_workspace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "attention/split_plan.h"

namespace paceline {
namespace {

using Ints = std::vector<int32_t>;

Ints lengths_of(const ChunkedContext& plan, int chunk) {
  Ints lengths;
  for (int req = 0; req < plan.num_reqs; ++req) {
    lengths.push_back(plan.length(chunk, req));
  }
  return lengths;
}

// aiter_fa_spec.md section 4.5, golden vectors.
TEST(ChunkedContext, Golden1) {
  const ChunkedContext plan = plan_chunked_context(Ints{20000, 30}).value();
  EXPECT_EQ(plan.chunk_tokens, 16384);
  ASSERT_EQ(plan.num_chunks, 2);
  EXPECT_EQ(lengths_of(plan, 0), (Ints{16384, 30}));
  EXPECT_EQ(lengths_of(plan, 1), (Ints{3616, 0}));
  EXPECT_EQ(plan.cu_seq_lens, (Ints{0, 16384, 16414, 0, 3616, 3616}));
  EXPECT_EQ(plan.chunk_starts, (Ints{0, 0, 16384, 16384}));
  EXPECT_EQ(plan.max_seq_lens, (Ints{16384, 3616}));
  EXPECT_EQ(plan.total_token_per_batch, (Ints{16414, 3616}));
  const Ints owners = token_to_batch(plan, 0);
  EXPECT_EQ(owners.size(), 16414U);
  EXPECT_EQ(owners[16383], 0);
  EXPECT_EQ(owners[16384], 1);
}

TEST(ChunkedContext, Golden2AnEmptyRequest) {
  const ChunkedContext plan = plan_chunked_context(Ints{40000, 0}).value();
  ASSERT_EQ(plan.num_chunks, 3);
  EXPECT_EQ(lengths_of(plan, 0), (Ints{16384, 0}));
  EXPECT_EQ(lengths_of(plan, 1), (Ints{16384, 0}));
  EXPECT_EQ(lengths_of(plan, 2), (Ints{7232, 0}));
}

TEST(ChunkedContext, Golden3AChunkOfOneToken) {
  const ChunkedContext plan = plan_chunked_context(Ints{1000, 10922, 10923}).value();
  EXPECT_EQ(plan.chunk_tokens, 10922);
  ASSERT_EQ(plan.num_chunks, 2);
  EXPECT_EQ(lengths_of(plan, 0), (Ints{1000, 10922, 10922}));
  EXPECT_EQ(lengths_of(plan, 1), (Ints{0, 0, 1}));
  EXPECT_EQ(token_to_batch(plan, 1), (Ints{2}));
}

TEST(ChunkedContext, InvariantsAndEdges) {
  const ChunkedContext plan = plan_chunked_context(Ints(100, 5000)).value();
  for (int req = 0; req < plan.num_reqs; ++req) {
    int32_t sum = 0;
    for (int chunk = 0; chunk < plan.num_chunks; ++chunk) {
      sum += plan.length(chunk, req);
    }
    EXPECT_EQ(sum, 5000);
  }
  for (const int32_t total : plan.total_token_per_batch) {
    EXPECT_LE(total, kExtendWorkspaceTokens);
  }
  EXPECT_EQ(plan_chunked_context(Ints(33000, 5)).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(plan_chunked_context(Ints{-1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(plan_chunked_context(Ints{}).value().num_chunks, 0);
}

TEST(WindowedContext, Golden) {
  const WindowedContext plan = plan_windowed_context(Ints{4, 6}, Ints{20004, 36}, 128);
  EXPECT_EQ(plan.cu_seq_lens, (Ints{0, 132, 168}));
  EXPECT_EQ(plan.seq_starts, (Ints{19872, 0}));
  EXPECT_EQ(plan.max_seq_len, 132);
  EXPECT_EQ(plan.total_tokens, 168);
}

TEST(SplitPlan, CutsRowsByTheirOwnLength) {
  const Ints starts{0, 1, 3, 3, 4};
  const Ints seq_lens{256, 600, 0, 0};
  std::vector<DecodeWork> work(16);
  Ints first_partial(5);
  const int32_t count =
      plan_decodes(starts.data(), seq_lens.data(), 4, work.data(), first_partial.data());
  ASSERT_EQ(count, 5);  // 1 + 3 + padding + 1 for the row without tokens
  EXPECT_EQ(work[0].req, 0);
  EXPECT_EQ(work[3].req, 1);
  EXPECT_EQ(work[3].split, 2);
  EXPECT_EQ(work[4].req, 3);
  EXPECT_EQ(first_partial, (Ints{0, 0, 6, 6, 6}));  // row 1: 3 splits of 2 query tokens
}

TEST(SplitPlan, TilesCoverEveryQueryTokenOnceLastFirst) {
  const Ints starts{0, 1, 34, 34, 50};
  std::vector<TileWork> tiles(16);
  ASSERT_EQ(plan_query_tiles(starts.data(), 1, 3, 16, tiles.data()), 4);
  EXPECT_EQ(tiles[0].first_token, 32);
  EXPECT_EQ(tiles[2].first_token, 0);
  EXPECT_EQ(tiles[3].req, 3);
}

}  // namespace
}  // namespace paceline
