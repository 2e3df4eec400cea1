// How the gather strategy of extends goes through the cache: the requests in passes, and each
// pass's tokens in chunks that fit the workspace together (aiter_fa: section 4.5).
//
// The original gives each of n extends workspace / n tokens of a chunk, and divides by zero when
// there are more extends than tokens. Here a chunk is a multiple of kSplitTokens where the
// workspace allows it, so that chunks end where splits do and the results have the bits of the
// other strategy; and extends that do not fit together go in several passes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/split_plan.h"

namespace paceline {

struct ExtendChunks {
  int32_t chunk_tokens;       // of each request of a pass
  int32_t requests_per_pass;  // at most
};

constexpr ExtendChunks plan_extend_chunks(int32_t num_extends, int32_t workspace_tokens) {
  const int32_t share = workspace_tokens / std::max(1, num_extends);
  if (share >= kSplitTokens) {
    return {share / kSplitTokens * kSplitTokens, num_extends};
  }
  const int32_t chunk = std::min(workspace_tokens, kSplitTokens);
  return {chunk, workspace_tokens / chunk};
}

// Tokens of a sequence that the chunk at `chunk_start` holds.
PACELINE_HOST_DEVICE constexpr int32_t chunk_length(int32_t seq_len, int32_t chunk_start,
                                                    int32_t chunk_tokens) {
  const int32_t left = seq_len - chunk_start;
  return left <= 0 ? 0 : (left < chunk_tokens ? left : chunk_tokens);
}

}  // namespace paceline
