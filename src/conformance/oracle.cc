#include "conformance/oracle.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <limits>

namespace paceline {
namespace {

// The position of token `t` of the sequence: its depth, where there is a tree.
int64_t position_of(const OracleProblem& p, int64_t t) {
  const int64_t context = p.seq_len - p.query_len;
  if (p.tree_mask.empty() || t < context) {
    return t;
  }
  const auto bits = static_cast<uint64_t>(p.tree_mask[static_cast<size_t>(t - context)]);
  return context + static_cast<int64_t>(std::bitset<64>(bits).count()) - 1;
}

// Whether the query token i of the step sees token j of the sequence.
bool is_visible(const OracleProblem& p, int64_t i, int64_t j) {
  const int64_t context = p.seq_len - p.query_len;
  const int64_t at = position_of(p, context + i);
  const int64_t key = position_of(p, j);
  if (!p.tree_mask.empty()) {
    const auto bits = static_cast<uint64_t>(p.tree_mask[static_cast<size_t>(i)]);
    if (j >= context && ((bits >> (j - context)) & 1U) == 0) {
      return false;
    }
  } else if (p.causal && j > context + i) {
    return false;
  }
  if (p.sliding_window > 0 && std::abs(at - key) >= p.sliding_window) {
    return false;
  }
  return p.chunk_size == 0 || at / p.chunk_size == key / p.chunk_size;
}

double score(const OracleProblem& p, int64_t i, int64_t j, int64_t head) {
  const int64_t kv_head = head * p.num_kv_heads / p.num_heads;
  const float* q = p.q.data() + (i * p.num_heads + head) * p.head_size;
  const float* k = p.k.data() + (j * p.num_kv_heads + kv_head) * p.head_size;
  double s = 0.0;
  for (int d = 0; d < p.head_size; ++d) {
    s += double{q[d]} * double{k[d]};
  }
  s *= p.scale;
  if (p.soft_cap > 0.0) {
    s = p.soft_cap * std::tanh(s / p.soft_cap);
  }
  if (!p.slopes.empty()) {
    const int64_t at = position_of(p, p.seq_len - p.query_len + i);
    const auto distance = static_cast<double>(std::abs(at - position_of(p, j)));
    s -= double{p.slopes[static_cast<size_t>(head)]} * distance;
  }
  return s;
}

// One query token and head: adds to out[head_size_v] and returns the LSE.
double attend(const OracleProblem& p, int64_t i, int64_t head, double* out) {
  std::vector<int64_t> seen;
  std::vector<double> scores;
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < p.seq_len; ++j) {
    if (is_visible(p, i, j)) {
      seen.push_back(j);
      scores.push_back(score(p, i, j, head));
      largest = std::max(largest, scores.back());
    }
  }
  if (!p.sinks.empty()) {
    largest = std::max(largest, double{p.sinks[static_cast<size_t>(head)]});
  }
  double total =
      p.sinks.empty() ? 0.0 : std::exp(double{p.sinks[static_cast<size_t>(head)]} - largest);
  for (const double s : scores) {
    total += std::exp(s - largest);
  }
  const int64_t kv_head = head * p.num_kv_heads / p.num_heads;
  for (size_t n = 0; n < seen.size(); ++n) {
    const float* v = p.v.data() + (seen[n] * p.num_kv_heads + kv_head) * p.head_size_v;
    for (int d = 0; d < p.head_size_v; ++d) {
      out[d] += std::exp(scores[n] - largest) / total * double{v[d]};
    }
  }
  return largest + std::log(total);
}

}  // namespace

OracleResult oracle_attention(const OracleProblem& p) {
  const auto rows = static_cast<size_t>(p.query_len * p.num_heads);
  OracleResult result;
  result.out.resize(rows * static_cast<size_t>(p.head_size_v), 0.0);
  result.lse.resize(rows);
  for (int64_t i = 0; i < p.query_len; ++i) {
    for (int64_t head = 0; head < p.num_heads; ++head) {
      const auto row = static_cast<size_t>(i * p.num_heads + head);
      result.lse[row] =
          attend(p, i, head, result.out.data() + row * static_cast<size_t>(p.head_size_v));
    }
  }
  return result;
}

}  // namespace paceline
