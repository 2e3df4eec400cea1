// What: copies a chunk of the cache of several requests, out of its blocks and its layout, to rows
// that lie side by side; then attention over those (attention_cpu.cc, gathered_kernel). Elements
// are copied as they are stored, so nothing is rounded. Task: one token of one request. Bytes: the
// chunk's keys and values, read and written.
#include <algorithm>
#include <cstring>

#include "attention/extend_chunks.h"
#include "base/status_macros.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/attention_cpu.h"

namespace paceline::cpu {
namespace {

void copy_row(const CacheParams& cache, bool key, CacheElement e, int32_t size, std::byte* dst) {
  const size_t width = dtype_size(cache.dtype);
  const auto* base = static_cast<const std::byte*>(key ? cache.key : cache.value);
  if (cache.layout == KVCacheLayout::kNHD) {
    const int64_t at = nhd_offset(key ? cache.key_strides : cache.value_strides, e);
    std::memcpy(dst, base + static_cast<size_t>(at) * width, static_cast<size_t>(size) * width);
    return;
  }
  const int32_t piece = key ? cache.x : 1;  // elements of a row that lie side by side
  for (; e.dim < size; e.dim += piece, dst += static_cast<size_t>(piece) * width) {
    const int64_t at = key ? key_offset(cache, e) : value_offset(cache, e);
    std::memcpy(dst, base + static_cast<size_t>(at) * width, static_cast<size_t>(piece) * width);
  }
}

void gather_token(const GatheredExtendParams& g, const TaskContext& context) {
  const AttentionParams& p = g.attention;
  const auto req = static_cast<int32_t>(g.first_req + context.task / g.chunk_tokens);
  const int32_t token = g.chunk_start + static_cast<int32_t>(context.task % g.chunk_tokens);
  const int32_t query_len = p.query_start_loc[req + 1] - p.query_start_loc[req];
  if (token >= p.seq_lens[req] || token < first_visible(p.masks, p.seq_lens[req] - query_len)) {
    return;
  }
  const int32_t block = p.block_table[req * p.block_table_stride + token / p.cache.block_size];
  CacheElement e{block, 0, token % p.cache.block_size, 0};
  const size_t width = dtype_size(p.cache.dtype);
  for (e.head = 0; e.head < p.num_kv_heads; ++e.head) {
    const int64_t row = context.task * p.num_kv_heads + e.head;
    copy_row(
        p.cache, true, e, p.head_size,
        static_cast<std::byte*>(p.gather.key) + static_cast<size_t>(row * p.head_size) * width);
    copy_row(
        p.cache, false, e, p.head_size_v,
        static_cast<std::byte*>(p.gather.value) + static_cast<size_t>(row * p.head_size_v) * width);
    if (p.cache.scale_kind == KVScaleKind::kPerTokenHead) {
      p.gather.scales[row] = scale_of(p.cache.k_scale, e);
      p.gather.scales[int64_t{p.gather.tokens} * p.num_kv_heads + row] =
          scale_of(p.cache.v_scale, e);
    }
  }
}

}  // namespace

std::vector<std::string> why_not_gather(const AttentionSpec& spec) {
  std::vector<std::string> reasons = why_not(spec);
  if (spec.extend_strategy != ExtendStrategy::kGather) {
    reasons.emplace_back("extend_strategy asks for extends in place; this kernel gathers");
  }
  return reasons;
}

Status launch_gather_extend(Stream& stream, const AttentionParams& params) {
  const ExtendChunks chunks = plan_extend_chunks(params.num_reqs, params.gather.tokens);
  GatheredExtendParams g{params, params.first_req, 0, 0, chunks.chunk_tokens};
  const int32_t end_req = params.first_req + params.num_reqs;
  for (; g.first_req < end_req; g.first_req += g.num_reqs) {
    g.num_reqs = std::min(chunks.requests_per_pass, end_req - g.first_req);
    for (g.chunk_start = 0; g.chunk_start < params.max_seq_len; g.chunk_start += g.chunk_tokens) {
      PACELINE_RETURN_IF_ERROR(
          as_cpu(stream).launch(int64_t{g.num_reqs} * g.chunk_tokens, gather_token, g));
      PACELINE_RETURN_IF_ERROR(launch_gathered(stream, g));
    }
  }
  return {};
}

}  // namespace paceline::cpu
