// The original's plan for extends: context gathered into a workspace of fixed size, chunk by chunk,
// and the chunks' results merged by LSE (aiter_fa: section 4.5). Extends here read the cache in
// place; this plan is what a kernel without paged reads needs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "paceline/status.h"

namespace paceline {

constexpr int32_t kExtendWorkspaceTokens = 32 * 1024;

// Chunk k takes tokens [k * chunk_tokens, ...) of every request's context.
struct ChunkedContext {
  int32_t chunk_tokens = 0;  // workspace tokens of each request, the same for all
  int num_chunks = 0;
  int num_reqs = 0;
  std::vector<int32_t> chunk_starts;           // [num_chunks, num_reqs]
  std::vector<int32_t> cu_seq_lens;            // [num_chunks, num_reqs + 1], from 0
  std::vector<int32_t> max_seq_lens;           // [num_chunks]
  std::vector<int32_t> total_token_per_batch;  // [num_chunks], at most the workspace

  int32_t length(int chunk, int req) const {
    const auto at =
        static_cast<size_t>(chunk) * (static_cast<size_t>(num_reqs) + 1) + static_cast<size_t>(req);
    return cu_seq_lens[at + 1] - cu_seq_lens[at];
  }
};

// kInvalidArgument for a negative context or a workspace without a token. kUnsupported for more
// requests than workspace tokens: the caller runs them in groups of at most `workspace_tokens`.
Result<ChunkedContext> plan_chunked_context(std::span<const int32_t> context_lens,
                                            int32_t workspace_tokens = kExtendWorkspaceTokens);

// The request that owns each token of chunk `chunk`: length total_token_per_batch[chunk].
std::vector<int32_t> token_to_batch(const ChunkedContext& plan, int chunk);

// What a layer with a sliding window gathers: the last query_len + window tokens of every request.
struct WindowedContext {
  std::vector<int32_t> cu_seq_lens;  // [num_reqs + 1]
  std::vector<int32_t> seq_starts;   // [num_reqs], first token gathered
  int32_t max_seq_len = 0;
  int32_t total_tokens = 0;
};

WindowedContext plan_windowed_context(std::span<const int32_t> query_lens,
                                      std::span<const int32_t> seq_lens, int32_t window);

}  // namespace paceline
