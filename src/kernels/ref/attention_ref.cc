// What: out[t][h] = sum_j softmax_j(scale * q[t][h] . k[j][h/G]) v[j][h/G], over the tokens j at or
// before t's position. Task: one request and one query head. Two passes over the keys: the maximum,
// then the sums.
#include "kernels/ref/attention_ref.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/float_rows.h"
#include "device/cpu/cpu_device.h"

namespace paceline::ref {
namespace {

using cpu::TaskContext;

// Keys and values of one request and KV head, element by element, as the cache returns them.
struct PagedKv {
  const AttentionParams& p;
  const int32_t* blocks;
  int32_t head;
  float k_scale = p.cache.k_scale != nullptr ? *p.cache.k_scale : 1.0F;
  float v_scale = p.cache.v_scale != nullptr ? *p.cache.v_scale : 1.0F;

  CacheElement element(int32_t token, int32_t d) const {
    return {blocks[token / p.cache.block_size], head, token % p.cache.block_size, d};
  }
  float key(int32_t token, int32_t d) const {
    return load_float(p.cache.dtype, p.cache.key, key_offset(p.cache, element(token, d))) * k_scale;
  }
  float value(int32_t token, int32_t d) const {
    return load_float(p.cache.dtype, p.cache.value, value_offset(p.cache, element(token, d))) *
           v_scale;
  }
};

// This step's own keys and values, rounded as the cache would.
struct DirectKv {
  const AttentionParams& p;
  int64_t first_token;
  int32_t head;
  float k_scale = p.cache.k_scale != nullptr ? *p.cache.k_scale : 1.0F;
  float v_scale = p.cache.v_scale != nullptr ? *p.cache.v_scale : 1.0F;

  float at(const TokenTensor& tensor, float scale, int32_t token, int32_t d) const {
    const int64_t offset =
        (first_token + token) * tensor.token_stride + head * tensor.head_stride + d;
    return round_through(p.cache.dtype, scale, load_float(p.dtype, tensor.data, offset));
  }
  float key(int32_t token, int32_t d) const { return at(p.k, k_scale, token, d); }
  float value(int32_t token, int32_t d) const { return at(p.v, v_scale, token, d); }
};

template <typename Kv>
void attend(const AttentionParams& p, const Kv& kv, int64_t token, int32_t head, int32_t visible,
            float* sums) {
  const int64_t q = token * p.q.token_stride + head * p.q.head_stride;
  const int64_t out = token * p.out.token_stride + head * p.out.head_stride;
  const auto score = [&](int32_t j) {
    float dot = 0.0F;
    for (int32_t d = 0; d < p.head_size; ++d) {
      dot += load_float(p.dtype, p.q.data, q + d) * kv.key(j, d);
    }
    return dot * p.scale;
  };
  float max_score = -std::numeric_limits<float>::infinity();
  for (int32_t j = 0; j < visible; ++j) {
    max_score = std::fmax(max_score, score(j));
  }
  float denominator = 0.0F;
  std::fill_n(sums, p.head_size, 0.0F);
  for (int32_t j = 0; j < visible; ++j) {
    const float weight = std::exp(score(j) - max_score);
    denominator += weight;
    for (int32_t d = 0; d < p.head_size; ++d) {
      sums[d] += weight * kv.value(j, d);
    }
  }
  for (int32_t d = 0; d < p.head_size; ++d) {
    store_float(p.dtype, p.out.data, out + d, visible > 0 ? sums[d] / denominator : 0.0F);
  }
}

template <bool kPaged>
void kernel(const AttentionParams& p, const TaskContext& context) {
  const auto req = static_cast<int32_t>(p.first_req + context.task / p.num_heads);
  const auto head = static_cast<int32_t>(context.task % p.num_heads);
  const int32_t kv_head = head / (p.num_heads / p.num_kv_heads);
  const int32_t first = p.query_start_loc[req];
  const int32_t query_len = p.query_start_loc[req + 1] - first;
  const int32_t context_len = p.seq_lens[req] - query_len;
  auto* sums = reinterpret_cast<float*>(context.scratch);
  for (int32_t i = 0; i < query_len; ++i) {
    const int32_t visible = std::max(0, context_len + i + 1);
    if constexpr (kPaged) {
      attend(p, PagedKv{p, p.block_table + req * p.block_table_stride, kv_head}, first + i, head,
             visible, sums);
    } else {
      attend(p, DirectKv{p, first, kv_head}, first + i, head, visible, sums);
    }
  }
}

Status launch(Stream& stream, const AttentionParams& params, bool paged) {
  const int64_t tasks = int64_t{params.num_reqs} * params.num_heads;
  return cpu::as_cpu(stream).launch(tasks, paged ? kernel<true> : kernel<false>, params);
}

}  // namespace

std::vector<std::string> why_not(const AttentionSpec& spec) {
  if (static_cast<size_t>(spec.head_size) * sizeof(float) > TaskContext::kScratchBytes) {
    return {fmt::format("head_size {} is beyond {}", spec.head_size,
                        TaskContext::kScratchBytes / sizeof(float))};
  }
  return {};
}

Status launch_decode(Stream& stream, const AttentionParams& params) {
  return launch(stream, params, true);
}
Status launch_extend(Stream& stream, const AttentionParams& params) {
  return launch(stream, params, true);
}
Status launch_prefill(Stream& stream, const AttentionParams& params) {
  return launch(stream, params, false);
}

}  // namespace paceline::ref
