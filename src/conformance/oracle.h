// The oracle: attention in float64 on the logical sequence. Written apart from every kernel, from
// the definitions in paceline/attention.h; it knows nothing of blocks, layouts, phases or batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace paceline {

struct OracleProblem {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_size = 0;
  int head_size_v = 0;
  double scale = 1.0;
  bool causal = true;
  int64_t sliding_window = 0;
  int64_t chunk_size = 0;
  double soft_cap = 0.0;
  std::span<const float> slopes;       // [num_heads], or empty
  std::span<const float> sinks;        // [num_heads], or empty
  std::span<const int64_t> tree_mask;  // [query_len], or empty

  int64_t query_len = 0;  // the last tokens of the sequence
  int64_t seq_len = 0;
  std::span<const float> q;  // [query_len, num_heads, head_size]
  std::span<const float> k;  // [seq_len, num_kv_heads, head_size]
  std::span<const float> v;  // [seq_len, num_kv_heads, head_size_v]
};

struct OracleResult {
  std::vector<double> out;  // [query_len, num_heads, head_size_v]
  std::vector<double> lse;  // [query_len, num_heads]
};

OracleResult oracle_attention(const OracleProblem& problem);

}  // namespace paceline
