// What: out[t][h] = sum_j softmax_j(score(q[t][h] . k[j][h/G])) v[j][h/G] over the keys j that the
// query sees (attention/visibility.h), plainly: float32 sums, one after the other. Task: one
// request and one query head. Two passes over the keys: the maximum, then the sums.
#include "kernels/ref/attention_ref.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/visibility.h"
#include "base/float_rows.h"
#include "device/cpu/cpu_device.h"

namespace paceline::ref {
namespace {

using cpu::TaskContext;

// Keys and values of one request and KV head, row by row, as the cache returns them.
struct PagedKv {
  const AttentionParams& p;
  const int32_t* blocks;
  int32_t head;

  CacheElement element(int32_t token) const {
    return {blocks[token / p.cache.block_size], head, token % p.cache.block_size, 0};
  }
  void key(int32_t token, float* row) const {
    CacheElement e = element(token);
    const float scale = scale_of(p.cache.k_scale, e);
    for (; e.dim < p.head_size; ++e.dim) {
      row[e.dim] = load_float(p.cache.dtype, p.cache.key, key_offset(p.cache, e)) * scale;
    }
  }
  void value(int32_t token, float* row) const {
    CacheElement e = element(token);
    const float scale = scale_of(p.cache.v_scale, e);
    for (; e.dim < p.head_size_v; ++e.dim) {
      row[e.dim] = load_float(p.cache.dtype, p.cache.value, value_offset(p.cache, e)) * scale;
    }
  }
};

// This step's own keys and values, rounded as the cache would.
struct DirectKv {
  const AttentionParams& p;
  int64_t first_token;
  int32_t head;

  void read(const TokenTensor& tensor, const KVScale& scales, int32_t token, int32_t size,
            float* row) const {
    const int64_t at = (first_token + token) * tensor.token_stride + head * tensor.head_stride;
    for (int32_t d = 0; d < size; ++d) {
      row[d] = load_float(p.dtype, tensor.data, at + d);
    }
    const float scale = p.cache.scale_kind == KVScaleKind::kPerTokenHead
                            ? dynamic_scale_of_row(p.cache.dtype, row, size)
                            : scale_of(scales, {0, head, 0, 0});
    for (int32_t d = 0; d < size; ++d) {
      row[d] = round_through(p.cache.dtype, scale, row[d]);
    }
  }
  void key(int32_t token, float* row) const { read(p.k, p.cache.k_scale, token, p.head_size, row); }
  void value(int32_t token, float* row) const {
    read(p.v, p.cache.v_scale, token, p.head_size_v, row);
  }
};

// One query token and head.
struct Query {
  int64_t token;
  int32_t head;
  int32_t first;  // its request's first query token
  Visible visible;
};

template <typename Kv>
float score(const AttentionParams& p, const Kv& kv, const Query& query, int32_t j, float* row) {
  kv.key(j, row);
  const int64_t q = query.token * p.q.token_stride + query.head * p.q.head_stride;
  float s = 0.0F;
  for (int32_t d = 0; d < p.head_size; ++d) {
    s += load_float(p.dtype, p.q.data, q + d) * row[d];
  }
  s *= p.scale;
  if (p.soft_cap > 0.0F) {
    s = p.soft_cap * std::tanh(s / p.soft_cap);
  }
  if (p.alibi_slopes != nullptr) {
    const Visible& v = query.visible;
    const int32_t key = v.has_tree ? key_position(p.masks, query.first, v.context_len, j) : j;
    s -= p.alibi_slopes[query.head] * std::fabs(static_cast<float>(v.position - key));
  }
  return s;
}

// The greater, or NaN where one is.
float max_or_nan(float a, float b) { return a > b || std::isnan(a) ? a : b; }

template <typename Kv>
void attend(const AttentionParams& p, const Kv& kv, const Query& query, float* scratch) {
  float* row = scratch;
  float* sums = scratch + std::max(p.head_size, p.head_size_v);
  const Visible& visible = query.visible;
  float max_score = -std::numeric_limits<float>::infinity();
  bool any = false;
  for (int32_t j = visible.lo; j < visible.hi; ++j) {
    if (sees(visible, j)) {
      max_score = max_or_nan(score(p, kv, query, j, row), max_score);
      any = true;
    }
  }
  if (p.sinks != nullptr) {
    max_score = max_or_nan(p.sinks[query.head], max_score);
  }
  float denominator = p.sinks != nullptr ? std::exp(p.sinks[query.head] - max_score) : 0.0F;
  std::fill_n(sums, p.head_size_v, 0.0F);
  for (int32_t j = visible.lo; j < visible.hi; ++j) {
    if (!sees(visible, j)) {
      continue;
    }
    const float weight = std::exp(score(p, kv, query, j, row) - max_score);
    denominator += weight;
    kv.value(j, row);
    for (int32_t d = 0; d < p.head_size_v; ++d) {
      sums[d] += weight * row[d];
    }
  }
  const int64_t out = query.token * p.out.token_stride + query.head * p.out.head_stride;
  for (int32_t d = 0; d < p.head_size_v; ++d) {
    store_float(p.dtype, p.out.data, out + d, any ? sums[d] / denominator : 0.0F);
  }
  if (p.lse.data != nullptr) {
    p.lse.data[query.token * p.lse.token_stride + query.head * p.lse.head_stride] =
        max_score + std::log(denominator);
  }
}

void kernel(const AttentionParams& p, const TaskContext& context, AttentionPhase phase) {
  const auto req = static_cast<int32_t>(p.first_req + context.task / p.num_heads);
  const auto head = static_cast<int32_t>(context.task % p.num_heads);
  const int32_t kv_head = head / (p.num_heads / p.num_kv_heads);
  const int32_t first = p.query_start_loc[req];
  const int32_t query_len = p.query_start_loc[req + 1] - first;
  auto* scratch = reinterpret_cast<float*>(context.scratch);
  for (int32_t i = 0; i < query_len; ++i) {
    const Query query{first + i, head, first,
                      visible_of(p.masks, first, query_len, p.seq_lens[req], i,
                                 phase == AttentionPhase::kDecode)};
    if (phase == AttentionPhase::kPrefill && !p.paged_prefill) {
      attend(p, DirectKv{p, first, kv_head}, query, scratch);
    } else {
      attend(p, PagedKv{p, p.block_table + req * p.block_table_stride, kv_head}, query, scratch);
    }
  }
}

template <AttentionPhase kPhase>
Status launch(Stream& stream, const AttentionParams& params) {
  const int64_t tasks = int64_t{params.num_reqs} * params.num_heads;
  return cpu::as_cpu(stream).launch(
      tasks,
      +[](const AttentionParams& p, const TaskContext& context) { kernel(p, context, kPhase); },
      params);
}

}  // namespace

std::vector<std::string> why_not(const AttentionSpec& spec) {
  const auto head_size = static_cast<size_t>(std::max(spec.head_size, spec.head_size_v));
  if (2 * head_size * sizeof(float) > TaskContext::kScratchBytes) {
    return {fmt::format("head size {} is beyond {}", head_size,
                        TaskContext::kScratchBytes / sizeof(float) / 2)};
  }
  return {};
}

std::vector<std::string> why_not_extend(const AttentionSpec& spec) {
  std::vector<std::string> reasons = why_not(spec);
  if (spec.extend_strategy != ExtendStrategy::kInPlace) {
    reasons.emplace_back("extend_strategy asks for gathering; this kernel reads in place");
  }
  return reasons;
}

Status launch_decode(Stream& stream, const AttentionParams& params) {
  return launch<AttentionPhase::kDecode>(stream, params);
}
Status launch_extend(Stream& stream, const AttentionParams& params) {
  return launch<AttentionPhase::kExtend>(stream, params);
}
Status launch_prefill(Stream& stream, const AttentionParams& params) {
  return launch<AttentionPhase::kPrefill>(stream, params);
}

}  // namespace paceline::ref
