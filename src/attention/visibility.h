// Which keys a query sees: one header, compiled for the host and for devices. The rule is told in
// paceline/attention.h, AttentionSpec.
#pragma once

#include <cstdint>

#include "attention/params.h"
#include "base/host_device.h"

namespace paceline {

// What the query token `t` of a request sees: the keys [lo, hi), and of the request's own query
// tokens only those in `tree` where there is a tree mask.
struct Visible {
  int32_t lo;
  int32_t hi;
  int32_t position;
  int32_t context_len;
  bool has_tree;
  uint64_t tree;
};

PACELINE_HOST_DEVICE inline int32_t count_bits(uint64_t bits) {
  int32_t count = 0;
  for (; bits != 0; bits &= bits - 1) {
    ++count;
  }
  return count;
}

// The end of what a query at `position` sees; first_visible() is in split_plan.h.
PACELINE_HOST_DEVICE inline int32_t end_visible(const MaskParams& m, int32_t position,
                                                int32_t seq_len) {
  if (m.causal) {
    return position + 1;
  }
  int64_t hi = seq_len;
  if (m.sliding_window > 0 && int64_t{position} + m.sliding_window < hi) {
    hi = int64_t{position} + m.sliding_window;
  }
  if (m.chunk_size > 0) {
    const int64_t chunk_end = (int64_t{position} / m.chunk_size + 1) * m.chunk_size;
    hi = chunk_end < hi ? chunk_end : hi;
  }
  return static_cast<int32_t>(hi);
}

// The position of key j of a request whose query tokens begin at `first`: its depth in a tree.
PACELINE_HOST_DEVICE inline int32_t key_position(const MaskParams& m, int32_t first,
                                                 int32_t context_len, int32_t j) {
  if (m.tree_mask == nullptr || j < context_len) {
    return j;
  }
  const auto bits = static_cast<uint64_t>(m.tree_mask[first + (j - context_len)]);
  return context_len + count_bits(bits) - 1;
}

// Query token t of a request whose query tokens begin at `first`. `tree`: whether it is listed
// among the decodes. Tree masks hold for those, but not for a fresh prompt that is short enough to
// stand there.
PACELINE_HOST_DEVICE inline Visible visible_of(const MaskParams& m, int32_t first,
                                               int32_t query_len, int32_t seq_len, int32_t t,
                                               bool tree) {
  Visible v{};
  v.context_len = seq_len - query_len;
  v.has_tree = tree && m.tree_mask != nullptr && v.context_len > 0;
  if (!v.has_tree) {
    v.position = v.context_len + t;
    v.lo = first_visible(m, v.position);
    v.hi = end_visible(m, v.position, seq_len);
    return v;
  }
  const uint64_t own = query_len >= 64 ? ~uint64_t{0} : (uint64_t{1} << query_len) - 1;
  const uint64_t bits = static_cast<uint64_t>(m.tree_mask[first + t]) & own;
  v.position = v.context_len + count_bits(bits) - 1;
  v.lo = first_visible(m, v.position);
  v.hi = v.context_len;
  for (int32_t u = 0; u < query_len && u < 64; ++u) {
    if (((bits >> u) & 1U) != 0 &&
        key_position(m, first, v.context_len, v.context_len + u) >= v.lo) {
      v.tree |= uint64_t{1} << u;
      v.hi = v.context_len + u + 1;
    }
  }
  v.lo = v.lo < v.context_len ? v.lo : v.context_len;
  return v;
}

PACELINE_HOST_DEVICE inline bool sees(const Visible& v, int32_t j) {
  return j >= v.lo && j < v.hi &&
         (!v.has_tree || j < v.context_len || ((v.tree >> (j - v.context_len)) & 1U) != 0);
}

}  // namespace paceline
