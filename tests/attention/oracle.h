// The oracle: attention in float64 on the logical sequence. Written apart from every kernel; it
// knows nothing of blocks, layouts, phases or batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::testing {

struct OracleShape {
  int num_heads;
  int num_kv_heads;
  int head_size;
  double scale;
};

// q: [query_len, num_heads, head_size], the last query_len tokens of the sequence; k, v: [seq_len,
// num_kv_heads, head_size]. Causal. Returns [query_len, num_heads, head_size].
std::vector<double> oracle_attention(const OracleShape& shape, std::span<const float> q,
                                     std::span<const float> k, std::span<const float> v,
                                     int64_t query_len, int64_t seq_len);

}  // namespace paceline::testing
