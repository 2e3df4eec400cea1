#include "attention/extend_workspace.h"

#include <algorithm>

#include "attention/split_plan.h"
#include "base/errors.h"

namespace paceline {

Result<ChunkedContext> plan_chunked_context(std::span<const int32_t> context_lens,
                                            int32_t workspace_tokens) {
  const auto n = static_cast<int32_t>(context_lens.size());
  if (workspace_tokens <= 0) {
    return invalid_argument("extend workspace of {} tokens; it needs at least 1", workspace_tokens);
  }
  if (n > workspace_tokens) {
    return unsupported("{} extends do not fit a workspace of {} tokens; run them in groups", n,
                       workspace_tokens);
  }
  ChunkedContext plan;
  plan.num_reqs = n;
  if (n == 0) {
    return plan;
  }
  if (const auto shortest = std::min_element(context_lens.begin(), context_lens.end());
      *shortest < 0) {
    return invalid_argument("request {} has a context of {} tokens",
                            shortest - context_lens.begin(), *shortest);
  }
  const int32_t longest = *std::max_element(context_lens.begin(), context_lens.end());
  plan.chunk_tokens = workspace_tokens / n;
  plan.num_chunks = static_cast<int>(ceil_div(longest, plan.chunk_tokens));
  for (int chunk = 0; chunk < plan.num_chunks; ++chunk) {
    const int32_t start = chunk * plan.chunk_tokens;
    int32_t total = 0;
    int32_t longest_here = 0;
    plan.cu_seq_lens.push_back(0);
    for (const int32_t context_len : context_lens) {
      const int32_t length = std::clamp(context_len - start, 0, plan.chunk_tokens);
      total += length;
      longest_here = std::max(longest_here, length);
      plan.chunk_starts.push_back(start);
      plan.cu_seq_lens.push_back(total);
    }
    plan.max_seq_lens.push_back(longest_here);
    plan.total_token_per_batch.push_back(total);
  }
  return plan;
}

std::vector<int32_t> token_to_batch(const ChunkedContext& plan, int chunk) {
  std::vector<int32_t> owners;
  owners.reserve(static_cast<size_t>(plan.total_token_per_batch[static_cast<size_t>(chunk)]));
  for (int req = 0; req < plan.num_reqs; ++req) {
    owners.insert(owners.end(), static_cast<size_t>(plan.length(chunk, req)), req);
  }
  return owners;
}

WindowedContext plan_windowed_context(std::span<const int32_t> query_lens,
                                      std::span<const int32_t> seq_lens, int32_t window) {
  WindowedContext plan;
  plan.cu_seq_lens.push_back(0);
  for (size_t i = 0; i < query_lens.size(); ++i) {
    const int32_t length = std::min(seq_lens[i], query_lens[i] + window);
    plan.total_tokens += length;
    plan.max_seq_len = std::max(plan.max_seq_len, length);
    plan.cu_seq_lens.push_back(plan.total_tokens);
    plan.seq_starts.push_back(seq_lens[i] - length);
  }
  return plan;
}

}  // namespace paceline
