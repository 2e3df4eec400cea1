#include "kernels/cpu/attention_cpu.h"

#include <fmt/format.h>

#include <atomic>
#include <cmath>

#include "device/cpu/cpu_device.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_cpu.cc"
#include <hwy/foreach_target.h>
// The target loop comes first.
#include <hwy/highway.h>

#include "kernels/cpu/attend-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {
namespace {

using cpu::GatheredExtendParams;
using cpu::TaskContext;

// Decode. What: one query row per (token, query head) over the cache of its request.
// Item: (split of a request, or of several in their common prefix; some KV heads); reads at most
// kSplitTokens tokens of K and V once for all its rows. Bytes: tokens * (D + Dv) * element size;
// FLOPs: 2 * rows * tokens * (D + Dv). The item that finishes a request's last split folds its
// partials, in order.
float* partial_record(const AttentionParams& p, int64_t slot, int64_t head) {
  return p.workspace.partials + (slot * p.num_heads + head) * (int64_t{p.head_size_v} + 2);
}

int64_t partial_slot(const QueryToken& token, int32_t split) {
  return token.partial + int64_t{split} * token.partial_stride;
}

void store_partials(const AttentionParams& p, int32_t split, const Tile& tile) {
  for (int32_t row = 0; row < tile.rows(); ++row) {
    const Partial partial = tile.split_partial(row);
    float* record = partial_record(p, partial_slot(tile.tokens[tile.token_of(row)], split),
                                   tile.query_head(row));
    record[0] = partial.max_score;
    record[1] = partial.weight;
    std::copy_n(partial.outputs, p.head_size_v, record + 2);
  }
}

// Folds the splits [begin, end) of request `req` and writes the outputs of the group of `kv_head`.
void merge_request(const AttentionParams& p, int32_t req, int32_t begin, int32_t end,
                   int32_t kv_head, Tile& tile) {
  const int32_t first = p.query_start_loc[req];
  const int32_t query_len = p.query_start_loc[req + 1] - first;
  for (int32_t t = 0; t < query_len; ++t) {
    for (int32_t head = kv_head * tile.group; head < (kv_head + 1) * tile.group; ++head) {
      Partial total{0.0F, 0.0F, tile.total_outputs};
      for (int32_t split = begin; split < end; ++split) {
        float* record =
            partial_record(p, p.plan.first_partial[req] + int64_t{split} * query_len + t, head);
        fold(total, {record[0], record[1], record + 2}, p.head_size_v);
      }
      write_output(p, total, first + t, head);
    }
  }
}

// The splits of a request that the work list holds: those that its masks leave.
Range splits_of(const AttentionParams& p, int32_t req) {
  const int32_t query_len = p.query_start_loc[req + 1] - p.query_start_loc[req];
  return {first_split(p.plan_masks, p.seq_lens[req] - query_len), num_splits(p.seq_lens[req])};
}

// A split of request `req` is done for the tile's KV heads; whoever comes last at a head folds them
// all.
void arrive(const AttentionParams& p, int32_t req, Tile& tile) {
  const Range splits = splits_of(p, req);
  for (int32_t head = tile.first_head; head < tile.first_head + tile.num_heads; ++head) {
    int32_t& arrivals = p.workspace.arrivals[int64_t{req} * p.num_kv_heads + head];
    if (std::atomic_ref<int32_t>(arrivals).fetch_add(1, std::memory_order_acq_rel) ==
        splits.end - splits.begin - 1) {
      arrivals = 0;  // everyone else has arrived
      merge_request(p, req, splits.begin, splits.end, head, tile);
    }
  }
}

// The tile's tokens over one split: the result where it is the only one, else a partial.
void decode_tile(const AttentionParams& p, const PagedReader& reader, int32_t split, bool only,
                 Tile& tile) {
  load_queries(p, tile);
  if (!attend_split(p, reader, split * kSplitTokens, kSplitTokens, tile)) {
    std::fill_n(tile.split_weight, tile.rows(), 0.0F);
    std::fill_n(tile.split_max, tile.rows(), kLowest);
  }
  if (!only) {
    store_partials(p, split, tile);
    return;
  }
  for (int32_t row = 0; row < tile.rows(); ++row) {
    write_output(p, tile.split_partial(row), tile.tokens[tile.token_of(row)].token,
                 tile.query_head(row));
  }
}

// Work item over KV heads [head, head + num_heads) at most; returns how many it took: as many as
// the tile has room for.
int32_t decode_item(const AttentionParams& p, const DecodeWork& work, int32_t head,
                    int32_t num_heads, std::byte* scratch) {
  Tile tile(p, scratch);
  tile.first_head = head;
  const PagedReader reader(p, work.req);
  if (work.num_reqs > 1) {  // the same blocks for all
    for (int32_t req = work.req; req < work.req + work.num_reqs; ++req) {
      if (work.split >= splits_of(p, req).begin) {
        add_tokens(p, req, 0, p.query_start_loc[req + 1] - p.query_start_loc[req], true, tile);
      }
    }
    tile.num_heads = std::clamp(p.tile_tokens / std::max(tile.num_tokens, 1), 1, num_heads);
    decode_tile(p, reader, work.split, false, tile);
    for (int32_t req = work.req; req < work.req + work.num_reqs; ++req) {
      if (work.split >= splits_of(p, req).begin) {
        arrive(p, req, tile);
      }
    }
    return tile.num_heads;
  }
  const Range splits = splits_of(p, work.req);
  const bool only = splits.end - splits.begin == 1;
  const int32_t query_len = p.query_start_loc[work.req + 1] - p.query_start_loc[work.req];
  tile.num_heads = std::clamp(p.tile_tokens / std::max(query_len, 1), 1, num_heads);
  for (int32_t t = 0; t < query_len; t += p.tile_tokens) {
    tile.num_tokens = 0;
    add_tokens(p, work.req, t, std::min(p.tile_tokens, query_len - t), true, tile);
    decode_tile(p, reader, work.split, only, tile);
  }
  if (!only) {
    arrive(p, work.req, tile);
  }
  return tile.num_heads;
}

void decode_kernel(const AttentionParams& p, const TaskContext& context) {
  const int64_t items =
      int64_t{p.plan.num_work[p.windowed ? kWindowedList : kDecodeList]} * p.num_kv_heads;
  const DecodeWork* list = p.windowed ? p.plan.windowed : p.plan.decodes;
  // Neighbours in the list: the heads of a split lie side by side, and one tile takes them
  // together.
  const int64_t end = (context.task + 1) * items / context.num_tasks;
  for (int64_t item = context.task * items / context.num_tasks; item < end;) {
    const auto head = static_cast<int32_t>(item % p.num_kv_heads);
    const auto heads = static_cast<int32_t>(std::min<int64_t>(p.num_kv_heads - head, end - item));
    item += decode_item(p, list[item / p.num_kv_heads], head, heads, context.scratch);
  }
}

// Extend and prefill. What: a tile of tile_tokens query tokens times the G heads of a KV head, over
// all splits that they see. Extends read the paged cache in place, prefills their own k and v.
// Bytes: K and V once a tile; FLOPs: 2 * rows * tokens * (D + Dv), half of it on the causal
// diagonal.
template <typename Reader>
void tile_item(const AttentionParams& p, const TileWork& work, int32_t kv_head,
               std::byte* scratch) {
  Tile tile(p, scratch);
  tile.first_head = kv_head;
  const Reader reader(p, work.req);
  const int32_t query_len = p.query_start_loc[work.req + 1] - p.query_start_loc[work.req];
  add_tokens(p, work.req, work.first_token, std::min(p.tile_tokens, query_len - work.first_token),
             false, tile);
  load_queries(p, tile);
  std::fill_n(tile.total_weight, tile.rows(), 0.0F);
  const int32_t begin = tile.tokens[0].visible.lo / kSplitTokens;
  const int32_t end = num_splits(tile.tokens[tile.num_tokens - 1].visible.hi);
  for (int32_t split = begin; split < end; ++split) {
    if (attend_split(p, reader, split * kSplitTokens, kSplitTokens, tile)) {
      fold_split(tile);
    }
  }
  write_totals(p, tile);
}

template <typename Reader>
void run_tiles(const AttentionParams& p, WorkList list, const TileWork* tiles,
               const TaskContext& context) {
  const int64_t items = int64_t{p.plan.num_work[list]} * p.num_kv_heads;
  for (int64_t item = context.task; item < items; item += context.num_tasks) {
    tile_item<Reader>(p, tiles[item / p.num_kv_heads], static_cast<int32_t>(item % p.num_kv_heads),
                      context.scratch);
  }
}

void extend_kernel(const AttentionParams& p, const TaskContext& context) {
  run_tiles<PagedReader>(p, kExtendList, p.plan.extends, context);
}

void prefill_kernel(const AttentionParams& p, const TaskContext& context) {
  if (p.paged_prefill) {
    run_tiles<PagedReader>(p, kPrefillList, p.plan.prefills, context);
  } else {
    run_tiles<DirectReader>(p, kPrefillList, p.plan.prefills, context);
  }
}

// Extend by gathering. What: as above, over the keys [chunk_start, chunk_start + chunk_tokens) of
// the requests [first_req, first_req + num_reqs), which gather_kernel has copied to the workspace,
// chunk_tokens rows for each. Running results stay in device memory between chunks; the chunk that
// holds the last key a tile sees writes its outputs.
void gathered_item(const GatheredExtendParams& g, const TileWork& work, int32_t kv_head,
                   std::byte* scratch) {
  const AttentionParams& p = g.attention;
  Tile tile(p, scratch);
  tile.first_head = kv_head;
  const int32_t query_len = p.query_start_loc[work.req + 1] - p.query_start_loc[work.req];
  add_tokens(p, work.req, work.first_token, std::min(p.tile_tokens, query_len - work.first_token),
             false, tile);
  const int32_t hi = tile.tokens[tile.num_tokens - 1].visible.hi;
  if (g.chunk_start >= std::max(hi, 1)) {
    return;  // written by an earlier chunk
  }
  const GatheredReader reader(p, int64_t{work.req - g.first_req} * g.chunk_tokens, g.chunk_start);
  load_queries(p, tile);
  const auto record = [&](int32_t row) {
    const int64_t token = tile.tokens[tile.token_of(row)].token;
    return p.gather.running +
           (token * p.num_heads + tile.query_head(row)) * (int64_t{p.head_size_v} + 2);
  };
  for (int32_t row = 0; row < tile.rows(); ++row) {
    const float* stored = record(row);
    tile.total_weight[row] = g.chunk_start == 0 ? 0.0F : stored[1];
    if (tile.total_weight[row] != 0.0F) {
      tile.total_max[row] = stored[0];
      std::copy_n(stored + 2, p.head_size_v, tile.total_outputs + row * tile.head_size_v);
    }
  }
  const int32_t chunk_end = g.chunk_start + g.chunk_tokens;
  for (int32_t start = g.chunk_start; start < std::min(chunk_end, hi);) {
    const int32_t end = std::min((start / kSplitTokens + 1) * kSplitTokens, chunk_end);
    if (attend_split(p, reader, start, end - start, tile)) {
      fold_split(tile);
    }
    start = end;
  }
  if (chunk_end >= hi) {
    write_totals(p, tile);
    return;
  }
  for (int32_t row = 0; row < tile.rows(); ++row) {
    float* stored = record(row);
    stored[0] = tile.total_max[row];
    stored[1] = tile.total_weight[row];
    std::copy_n(tile.total_outputs + row * tile.head_size_v, p.head_size_v, stored + 2);
  }
}

void gathered_kernel(const GatheredExtendParams& g, const TaskContext& context) {
  const AttentionParams& p = g.attention;
  const int64_t items = int64_t{p.plan.num_work[kExtendList]} * p.num_kv_heads;
  for (int64_t item = context.task; item < items; item += context.num_tasks) {
    const TileWork& work = p.plan.extends[item / p.num_kv_heads];
    if (work.req >= g.first_req && work.req < g.first_req + g.num_reqs) {
      gathered_item(g, work, static_cast<int32_t>(item % p.num_kv_heads), context.scratch);
    }
  }
}

using Kernel = void (*)(const AttentionParams&, const TaskContext&);

Kernel get_kernel(AttentionPhase phase) {
  switch (phase) {
    case AttentionPhase::kDecode:
      return decode_kernel;
    case AttentionPhase::kExtend:
      return extend_kernel;
    case AttentionPhase::kPrefill:
      return prefill_kernel;
  }
  return nullptr;
}

using GatheredKernel = void (*)(const GatheredExtendParams&, const TaskContext&);
GatheredKernel get_gathered_kernel() { return gathered_kernel; }

size_t scratch_bytes(const AttentionSpec& spec, int64_t tile_tokens, int64_t head_size_v) {
  return Tile::bytes(tile_tokens, spec.num_heads / spec.num_kv_heads, spec.head_size, head_size_v);
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace paceline::cpu {
namespace {

HWY_EXPORT(get_kernel);
HWY_EXPORT(get_gathered_kernel);
HWY_EXPORT(scratch_bytes);

// Tasks are persistent: task t takes items t, t + tasks, ... so that a launch does not depend on
// lengths.
constexpr int64_t kTasksPerWorker = 8;

int64_t num_tasks(Stream& stream) { return stream.device().info().compute_units * kTasksPerWorker; }

Status launch(Stream& stream, AttentionPhase phase, const AttentionParams& params) {
  return as_cpu(stream).launch(num_tasks(stream), HWY_DYNAMIC_DISPATCH(get_kernel)(phase), params);
}

void plan_kernel(const PlanParams& p, const TaskContext& /*context*/) {
  const MaskParams no_masks{nullptr, 0, 0, p.masks.causal};
  const auto decodes = [&](const MaskParams& masks, DecodeWork* list) {
    return plan_decodes(p.query_start_loc, p.seq_lens, p.num_decodes, masks, p.tile_tokens,
                        p.common_prefix_len, list, p.plan.first_partial);
  };
  p.plan.num_work[kDecodeList] = decodes(no_masks, p.plan.decodes);
  const bool masked = p.masks.sliding_window > 0 || p.masks.chunk_size > 0;
  p.plan.num_work[kWindowedList] = masked ? decodes(p.masks, p.plan.windowed) : 0;
  p.plan.num_work[kExtendList] = plan_query_tiles(p.query_start_loc, p.num_decodes, p.num_extends,
                                                  p.tile_tokens, p.plan.extends);
  p.plan.num_work[kPrefillList] = plan_query_tiles(p.query_start_loc, p.num_decodes + p.num_extends,
                                                   p.num_prefills, p.tile_tokens, p.plan.prefills);
}

}  // namespace

int32_t tile_tokens(const AttentionSpec& spec) {
  return std::max(1, 64 / (spec.num_heads / spec.num_kv_heads));
}

std::vector<std::string> why_not(const AttentionSpec& spec) {
  std::vector<std::string> reasons;
  const int head_size_v = cache_shape(spec, 1).value_size();
  if (spec.head_size % 8 != 0) {
    reasons.push_back(fmt::format("head_size {} is not a multiple of 8", spec.head_size));
  }
  if (head_size_v % 8 != 0) {
    reasons.push_back(fmt::format("head_size_v {} is not a multiple of 8", head_size_v));
  }
  const int64_t tokens = tile_tokens(spec);
  const size_t bytes = HWY_DYNAMIC_DISPATCH(scratch_bytes)(spec, tokens, head_size_v);
  if (bytes > TaskContext::kScratchBytes) {
    reasons.push_back(fmt::format(
        "head_size {} with {} query rows needs {} bytes of scratch; {} exist", spec.head_size,
        tokens * (spec.num_heads / spec.num_kv_heads), bytes, TaskContext::kScratchBytes));
  }
  return reasons;
}

std::vector<std::string> why_not_in_place(const AttentionSpec& spec) {
  std::vector<std::string> reasons = why_not(spec);
  if (spec.extend_strategy != ExtendStrategy::kInPlace) {
    reasons.emplace_back("extend_strategy asks for gathering; this kernel reads in place");
  }
  return reasons;
}

Status launch_decode(Stream& stream, const AttentionParams& params) {
  return launch(stream, AttentionPhase::kDecode, params);
}
Status launch_extend(Stream& stream, const AttentionParams& params) {
  return launch(stream, AttentionPhase::kExtend, params);
}
Status launch_prefill(Stream& stream, const AttentionParams& params) {
  return launch(stream, AttentionPhase::kPrefill, params);
}
Status launch_plan(Stream& stream, const PlanParams& params) {
  return as_cpu(stream).launch(1, plan_kernel, params);
}
Status launch_gathered(Stream& stream, const GatheredExtendParams& params) {
  return as_cpu(stream).launch(num_tasks(stream), HWY_DYNAMIC_DISPATCH(get_gathered_kernel)(),
                               params);
}

}  // namespace paceline::cpu
#endif
