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

// One split of one decode: tokens [split * kSplitTokens, ...) of request `req`.
struct DecodeWork {
  int32_t req;
  int32_t split;
};

// Query tokens [first_token, first_token + tile) of request `req`, counted inside its query.
struct TileWork {
  int32_t req;
  int32_t first_token;
};

// Lists the work of decodes 0 .. num_decodes-1, row by row, and returns its length. Rows that have
// more than one split store partials, one for each (split, query token): first_partial[i] is where
// row i's begin, and first_partial[num_decodes] their count.
PACELINE_HOST_DEVICE inline int32_t plan_decodes(const int32_t* query_start_loc,
                                                 const int32_t* seq_lens, int32_t num_decodes,
                                                 DecodeWork* work, int32_t* first_partial) {
  int32_t count = 0;
  int32_t partials = 0;
  for (int32_t req = 0; req < num_decodes; ++req) {
    const int32_t query_len = query_start_loc[req + 1] - query_start_loc[req];
    first_partial[req] = partials;
    if (query_len == 0) {
      continue;  // padding
    }
    const int32_t splits = num_splits(seq_lens[req]);
    for (int32_t split = 0; split < splits; ++split) {
      work[count++] = {req, split};
    }
    partials += splits > 1 ? splits * query_len : 0;
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
