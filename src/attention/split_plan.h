// The planning rule: how the work of a batch is cut up. One header, compiled for the host and for
// devices; planning runs on the device, from the device's own lengths.
//
// KV tokens are cut at absolute multiples of kSplitTokens, for every row and every phase. A token's
// attention is a fold, in order, over the splits it sees. So how a row is cut depends on that row
// alone, and decode, extend and prefill compute the same folds. The price, a partial of (head_size
// + 2) floats for each query head and split, is 1.6 % of the KV bytes at head_size 128, four query
// heads a KV head and a 16-bit cache.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace paceline {

constexpr int32_t kSplitTokens = 256;

PACELINE_HOST_DEVICE constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Splits of a row with `seq_len` tokens. A row without tokens still has one, which writes its empty
// result.
PACELINE_HOST_DEVICE constexpr int32_t num_splits(int32_t seq_len) {
  return seq_len <= 0 ? 1 : static_cast<int32_t>(ceil_div(seq_len, kSplitTokens));
}

// The masks of a layer, but for its tree: 0 stands for none.
struct MaskParams {
  const int64_t* tree_mask;  // [tokens of the batch], or null
  int32_t sliding_window;
  int32_t chunk_size;
  bool causal;
};

// The first key that a query at `position` sees.
PACELINE_HOST_DEVICE constexpr int32_t first_visible(const MaskParams& m, int32_t position) {
  int32_t lo = 0;
  if (m.sliding_window > 0 && position - m.sliding_window + 1 > lo) {
    lo = position - m.sliding_window + 1;
  }
  if (m.chunk_size > 0 && position / m.chunk_size * m.chunk_size > lo) {
    lo = position / m.chunk_size * m.chunk_size;
  }
  return lo;
}

// The first split that any query of a request sees.
PACELINE_HOST_DEVICE constexpr int32_t first_split(const MaskParams& m, int32_t context_len) {
  return context_len <= 0 ? 0 : first_visible(m, context_len) / kSplitTokens;
}

// One split of decodes: tokens [split * kSplitTokens, ...) of the requests [req, req + num_reqs).
// More than one request only for a split that lies in the batch's common prefix.
struct DecodeWork {
  int32_t req;
  int32_t num_reqs;
  int32_t split;
};

// Query tokens [first_token, first_token + tile) of request `req`, counted inside its query.
struct TileWork {
  int32_t req;
  int32_t first_token;
};

enum WorkList : int { kDecodeList, kWindowedList, kExtendList, kPrefillList, kNumWorkLists };

// Lists the work of decodes 0 .. num_decodes-1 and returns its length: first the splits of the
// common prefix, each for as many requests as fill a tile of query tokens; then what is left, row
// by row. Splits that `masks` hide are left out. Rows that have more than one split store partials,
// one for each (split, query token): first_partial[i] is where row i's begin, and
// first_partial[num_decodes] their count; those do not depend on the masks.
PACELINE_HOST_DEVICE inline int32_t plan_decodes(const int32_t* query_start_loc,
                                                 const int32_t* seq_lens, int32_t num_decodes,
                                                 const MaskParams& masks, int32_t tile_tokens,
                                                 int32_t common_prefix_len, DecodeWork* work,
                                                 int32_t* first_partial) {
  int32_t count = 0;
  int32_t partials = 0;
  const auto query_len = [&](int32_t req) {
    return query_start_loc[req + 1] - query_start_loc[req];
  };
  const auto begin = [&](int32_t req) {
    return first_split(masks, seq_lens[req] - query_len(req));
  };
  // Splits [0, shared) of a request are listed with others: where it has all of the prefix.
  const auto shared = [&](int32_t req) {
    const bool takes_part = query_len(req) > 0 && query_len(req) <= tile_tokens &&
                            seq_lens[req] - query_len(req) >= common_prefix_len;
    return takes_part ? common_prefix_len / kSplitTokens : 0;
  };
  for (int32_t first = 0; common_prefix_len >= kSplitTokens && first < num_decodes;) {
    int32_t end = first;
    int32_t tokens = 0;
    int32_t lowest = INT32_MAX;
    while (end < num_decodes && shared(end) > 0 && tokens + query_len(end) <= tile_tokens) {
      lowest = begin(end) < lowest ? begin(end) : lowest;
      tokens += query_len(end++);
    }
    for (int32_t split = lowest; end > first && split < common_prefix_len / kSplitTokens; ++split) {
      work[count++] = {first, end - first, split};
    }
    first = end > first ? end : first + 1;
  }
  for (int32_t req = 0; req < num_decodes; ++req) {
    first_partial[req] = partials;
    if (query_len(req) == 0) {
      continue;  // padding
    }
    const int32_t splits = num_splits(seq_lens[req]);
    const int32_t own = shared(req) > begin(req) ? shared(req) : begin(req);
    for (int32_t split = own; split < splits; ++split) {
      work[count++] = {req, 1, split};
    }
    partials += splits > 1 ? splits * query_len(req) : 0;
  }
  first_partial[num_decodes] = partials;
  return count;
}

// Lists the query tiles of requests first_req .. first_req+num_reqs-1 and returns their number. A
// row's last tiles see the most tokens, so they come first.
PACELINE_HOST_DEVICE inline int32_t plan_query_tiles(const int32_t* query_start_loc,
                                                     int32_t first_req, int32_t num_reqs,
                                                     int32_t tile_tokens, TileWork* tiles) {
  int32_t count = 0;
  for (int32_t req = first_req; req < first_req + num_reqs; ++req) {
    const int32_t query_len = query_start_loc[req + 1] - query_start_loc[req];
    for (int64_t tile = ceil_div(query_len, tile_tokens) - 1; tile >= 0; --tile) {
      tiles[count++] = {req, static_cast<int32_t>(tile) * tile_tokens};
    }
  }
  return count;
}

}  // namespace paceline
