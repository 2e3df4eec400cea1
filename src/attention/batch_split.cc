#include "attention/batch_split.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/errors.h"
#include "base/status_macros.h"

namespace paceline {
namespace {

enum Phase : int { kDecode = 0, kExtend = 1, kPrefill = 2 };
constexpr std::array<const char*, 3> kPhaseNames{"decode", "extend", "prefill"};

Phase phase_of(int32_t query_len, int32_t context_len, int threshold) {
  if (context_len == 0) {
    return kPrefill;
  }
  return query_len <= threshold ? kDecode : kExtend;
}

Status check_order(int threshold, std::span<const int32_t> query_start_loc,
                   std::span<const int32_t> seq_lens) {
  Phase latest = kDecode;
  for (size_t i = 0; i < seq_lens.size(); ++i) {
    const int32_t query_len = query_start_loc[i + 1] - query_start_loc[i];
    if (query_len == 0) {
      continue;  // padding
    }
    const Phase phase = phase_of(query_len, seq_lens[i] - query_len, threshold);
    if (phase < latest) {
      return invalid_argument(
          "request {} (query_len {}, seq_len {}) is a {} but stands after a {}; a batch must list "
          "decodes, then extends, then prefills",
          i, query_len, seq_lens[i], kPhaseNames[phase], kPhaseNames[latest]);
    }
    latest = phase;
  }
  return {};
}

}  // namespace

Result<BatchSplit> split_decodes_prefills_and_extends(int max_query_len, int num_tokens,
                                                      int threshold,
                                                      std::span<const int32_t> query_start_loc,
                                                      std::span<const int32_t> seq_lens) {
  const int num_reqs = static_cast<int>(query_start_loc.size()) - 1;
  BatchSplit split;
  if (max_query_len <= threshold) {
    split.num_decodes = num_reqs;
    split.num_decode_tokens = num_tokens;
    return split;
  }
  PACELINE_RETURN_IF_ERROR(check_order(threshold, query_start_loc, seq_lens));
  const auto query_len = [&](int i) {
    return query_start_loc[static_cast<size_t>(i) + 1] - query_start_loc[static_cast<size_t>(i)];
  };
  int first_extend = 0;
  while (first_extend < num_reqs && query_len(first_extend) <= threshold) {
    ++first_extend;
  }
  if (first_extend == num_reqs) {  // max_query_len was a loose bound
    split.num_decodes = num_reqs;
    split.num_decode_tokens = num_tokens;
    return split;
  }
  int first_prefill = first_extend;
  while (first_prefill < num_reqs &&
         (query_len(first_prefill) <= threshold ||
          seq_lens[static_cast<size_t>(first_prefill)] != query_len(first_prefill))) {
    ++first_prefill;
  }
  split.num_decodes = first_extend;
  split.num_extends = first_prefill - first_extend;
  split.num_prefills = num_reqs - first_prefill;
  split.num_decode_tokens = query_start_loc[static_cast<size_t>(first_extend)];
  split.num_prefill_tokens = split.num_prefills == 0
                                 ? 0
                                 : num_tokens - query_start_loc[static_cast<size_t>(first_prefill)];
  split.num_extend_tokens = num_tokens - split.num_decode_tokens - split.num_prefill_tokens;
  return split;
}

std::vector<int> reorder_batch(std::span<const int32_t> num_scheduled,
                               std::span<const int32_t> num_computed, int threshold) {
  const size_t n = num_scheduled.size();
  std::vector<Phase> phases(n);
  std::array<size_t, 3> counts{};
  for (size_t i = 0; i < n; ++i) {
    phases[i] = phase_of(num_scheduled[i], num_computed[i], threshold);
    ++counts[phases[i]];
  }
  const auto wanted = [&](size_t position) {
    if (position < counts[kDecode]) {
      return kDecode;
    }
    return position < counts[kDecode] + counts[kExtend] ? kExtend : kPrefill;
  };
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::vector<int> misplaced;
  for (size_t i = 0; i < n; ++i) {
    if (phases[i] != wanted(i)) {
      misplaced.push_back(static_cast<int>(i));
    }
  }
  std::vector<int> sorted = misplaced;
  std::stable_sort(sorted.begin(), sorted.end(), [&](int a, int b) {
    return phases[static_cast<size_t>(a)] < phases[static_cast<size_t>(b)];
  });
  for (size_t k = 0; k < misplaced.size(); ++k) {
    order[static_cast<size_t>(misplaced[k])] = sorted[k];
  }
  return order;
}

}  // namespace paceline
