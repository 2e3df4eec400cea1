// The order of a batch, and its split into decodes, extends and prefills (aiter_fa: sections 2.1
// and 2.2).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "paceline/status.h"

namespace paceline {

struct BatchSplit {
  int num_decodes = 0;
  int num_extends = 0;
  int num_prefills = 0;
  int num_decode_tokens = 0;
  int num_extend_tokens = 0;
  int num_prefill_tokens = 0;

  bool operator==(const BatchSplit&) const = default;
};

// `max_query_len` may be an upper bound, and `num_tokens` may be padded. seq_lens is read only when
// max_query_len exceeds the threshold.
//
// kInvalidArgument, naming the request, when a decode, extend or prefill stands after a request of
// a later phase: its cached tokens would be ignored. A fresh prompt of no more than `threshold`
// tokens may stand anywhere after the decodes; it is served right by the region it falls in.
Result<BatchSplit> split_decodes_prefills_and_extends(int max_query_len, int num_tokens,
                                                      int threshold,
                                                      std::span<const int32_t> query_start_loc,
                                                      std::span<const int32_t> seq_lens);

// The order that the split demands, with as few moves as possible: requests already inside their
// region stay. `num_scheduled` and `num_computed` are tokens of each request in this step and
// before it. Returns for every position the index of the request that belongs there; the identity
// when nothing has to move.
std::vector<int> reorder_batch(std::span<const int32_t> num_scheduled,
                               std::span<const int32_t> num_computed, int threshold);

}  // namespace paceline
