#include "attention/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline::testing {

std::vector<double> oracle_attention(const OracleShape& shape, std::span<const float> q,
                                     std::span<const float> k, std::span<const float> v,
                                     int64_t query_len, int64_t seq_len) {
  const int64_t d = shape.head_size;
  std::vector<double> out(static_cast<size_t>(query_len * shape.num_heads * d), 0.0);
  std::vector<double> weights(static_cast<size_t>(seq_len));
  const auto row = [d](std::span<const float> tensor, int64_t token, int64_t heads, int64_t head) {
    return tensor.subspan(static_cast<size_t>((token * heads + head) * d), static_cast<size_t>(d));
  };
  for (int64_t i = 0; i < query_len; ++i) {
    const int64_t visible = seq_len - query_len + i + 1;
    for (int64_t head = 0; head < shape.num_heads; ++head) {
      const int64_t kv_head = head * shape.num_kv_heads / shape.num_heads;
      double largest = -std::numeric_limits<double>::infinity();
      for (int64_t j = 0; j < visible; ++j) {
        double score = 0.0;
        for (int64_t x = 0; x < d; ++x) {
          score += double{row(q, i, shape.num_heads, head)[static_cast<size_t>(x)]} *
                   double{row(k, j, shape.num_kv_heads, kv_head)[static_cast<size_t>(x)]};
        }
        weights[static_cast<size_t>(j)] = score * shape.scale;
        largest = std::max(largest, score * shape.scale);
      }
      double total = 0.0;
      for (int64_t j = 0; j < visible; ++j) {
        weights[static_cast<size_t>(j)] = std::exp(weights[static_cast<size_t>(j)] - largest);
        total += weights[static_cast<size_t>(j)];
      }
      double* result = out.data() + (i * shape.num_heads + head) * d;
      for (int64_t j = 0; j < visible; ++j) {
        for (int64_t x = 0; x < d; ++x) {
          result[x] += weights[static_cast<size_t>(j)] / total *
                       double{row(v, j, shape.num_kv_heads, kv_head)[static_cast<size_t>(x)]};
        }
      }
    }
  }
  return out;
}

}  // namespace paceline::testing
