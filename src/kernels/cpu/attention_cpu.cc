#include "kernels/cpu/attention_cpu.h"

#include <fmt/format.h>

#include <atomic>

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

using cpu::TaskContext;

// Decode. What: one query row per (token, query head) over the whole cache of its request.
// Item: (split of a request, KV head); reads at most kSplitTokens tokens of K and V once for the G
// query heads. Bytes: 2 * tokens * head_size * element size; FLOPs: 4 * G * tokens * head_size. The
// item that finishes a request's last split folds its partials, in order.
float* partial_record(const AttentionParams& p, int32_t slot, int32_t head) {
  return p.workspace.partials + (int64_t{slot} * p.num_heads + head) * (int64_t{p.head_size} + 2);
}

void store_partials(const AttentionParams& p, int32_t first_slot, int32_t count, int32_t kv_head,
                    const AttendScratch& s) {
  const int32_t group = p.num_heads / p.num_kv_heads;
  for (int32_t row = 0; row < count * group; ++row) {
    float* record = partial_record(p, first_slot + row / group, kv_head * group + row % group);
    record[0] = s.split_max[row];
    record[1] = s.split_weight[row];
    std::copy_n(s.split_outputs + int64_t{row} * p.head_size, p.head_size, record + 2);
  }
}

void write_split_outputs(const AttentionParams& p, int64_t token, int32_t count, int32_t kv_head,
                         const AttendScratch& s) {
  const int32_t group = p.num_heads / p.num_kv_heads;
  for (int32_t row = 0; row < count * group; ++row) {
    const Partial total{s.split_max[row], s.split_weight[row],
                        s.split_outputs + int64_t{row} * p.head_size};
    write_output(p, total, token + row / group, kv_head * group + row % group);
  }
}

// Folds the splits of request `req` and writes the outputs of the group of `kv_head`.
void merge_request(const AttentionParams& p, int32_t req, int32_t splits, int32_t kv_head,
                   AttendScratch& s) {
  const int32_t group = p.num_heads / p.num_kv_heads;
  const int32_t first = p.query_start_loc[req];
  const int32_t query_len = p.query_start_loc[req + 1] - first;
  for (int32_t t = 0; t < query_len; ++t) {
    for (int32_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      Partial total{0.0F, 0.0F, s.total_outputs};
      for (int32_t split = 0; split < splits; ++split) {
        float* record = partial_record(p, p.plan.first_partial[req] + split * query_len + t, head);
        fold(total, {record[0], record[1], record + 2}, p.head_size);
      }
      write_output(p, total, first + t, head);
    }
  }
}

void decode_item(const AttentionParams& p, const DecodeWork& work, int32_t kv_head,
                 std::byte* scratch) {
  const int32_t group = p.num_heads / p.num_kv_heads;
  AttendScratch s(scratch, int64_t{p.tile_tokens} * group, p.head_size);
  const PagedReader reader(p, work.req, kv_head);
  const int32_t first = p.query_start_loc[work.req];
  const int32_t query_len = p.query_start_loc[work.req + 1] - first;
  const int32_t context_len = p.seq_lens[work.req] - query_len;
  const int32_t splits = num_splits(p.seq_lens[work.req]);
  for (int32_t t = 0; t < query_len; t += p.tile_tokens) {
    const int32_t count = std::min(p.tile_tokens, query_len - t);
    load_queries(p, first + t, count, kv_head, s);
    set_limits(context_len + t, count, group, work.split, s);
    attend_split(reader, work.split, count * group, p.head_size, p.scale, s);
    if (splits == 1) {
      write_split_outputs(p, first + t, count, kv_head, s);
    } else {
      store_partials(p, p.plan.first_partial[work.req] + work.split * query_len + t, count, kv_head,
                     s);
    }
  }
  if (splits > 1) {
    int32_t& arrivals = p.workspace.arrivals[int64_t{work.req} * p.num_kv_heads + kv_head];
    if (std::atomic_ref<int32_t>(arrivals).fetch_add(1, std::memory_order_acq_rel) == splits - 1) {
      arrivals = 0;  // everyone else has arrived
      merge_request(p, work.req, splits, kv_head, s);
    }
  }
}

void decode_kernel(const AttentionParams& p, const TaskContext& context) {
  const int64_t items =
      int64_t{p.plan.num_work[static_cast<int>(AttentionPhase::kDecode)]} * p.num_kv_heads;
  const int64_t tasks = context.num_tasks;
  for (int64_t item = context.task; item < items; item += tasks) {
    decode_item(p, p.plan.decodes[item / p.num_kv_heads],
                static_cast<int32_t>(item % p.num_kv_heads), context.scratch);
  }
}

// Extend and prefill. What: a tile of tile_tokens query tokens times the G heads of a KV head, over
// all splits at or before its last token. Extends read the paged cache in place, prefills their own
// k and v. Bytes: K and V once a tile; FLOPs: 4 * rows * tokens * head_size, half of it on the
// causal diagonal.
template <typename Reader>
void tile_item(const AttentionParams& p, const TileWork& work, int32_t kv_head,
               std::byte* scratch) {
  const int32_t group = p.num_heads / p.num_kv_heads;
  AttendScratch s(scratch, int64_t{p.tile_tokens} * group, p.head_size);
  const Reader reader(p, work.req, kv_head);
  const int32_t first = p.query_start_loc[work.req];
  const int32_t query_len = p.query_start_loc[work.req + 1] - first;
  const int32_t count = std::min(p.tile_tokens, query_len - work.first_token);
  const int32_t position = p.seq_lens[work.req] - query_len + work.first_token;
  const int32_t rows = count * group;
  load_queries(p, first + work.first_token, count, kv_head, s);
  std::fill_n(s.total_weight, rows, 0.0F);
  for (int32_t split = 0; split < num_splits(position + count); ++split) {
    set_limits(position, count, group, split, s);
    attend_split(reader, split, rows, p.head_size, p.scale, s);
    for (int32_t row = 0; row < rows; ++row) {
      const int64_t at = int64_t{row} * p.head_size;
      Partial total{s.total_max[row], s.total_weight[row], s.total_outputs + at};
      fold(total, {s.split_max[row], s.split_weight[row], s.split_outputs + at}, p.head_size);
      s.total_max[row] = total.max_score;
      s.total_weight[row] = total.weight;
    }
  }
  for (int32_t row = 0; row < rows; ++row) {
    const Partial total{s.total_max[row], s.total_weight[row],
                        s.total_outputs + int64_t{row} * p.head_size};
    write_output(p, total, first + work.first_token + row / group, kv_head * group + row % group);
  }
}

template <typename Reader, AttentionPhase kPhase>
void tile_kernel(const AttentionParams& p, const TaskContext& context) {
  const TileWork* tiles = kPhase == AttentionPhase::kExtend ? p.plan.extends : p.plan.prefills;
  const int64_t items = int64_t{p.plan.num_work[static_cast<int>(kPhase)]} * p.num_kv_heads;
  const int64_t tasks = context.num_tasks;
  for (int64_t item = context.task; item < items; item += tasks) {
    tile_item<Reader>(p, tiles[item / p.num_kv_heads], static_cast<int32_t>(item % p.num_kv_heads),
                      context.scratch);
  }
}

using Kernel = void (*)(const AttentionParams&, const TaskContext&);

Kernel get_kernel(AttentionPhase phase) {
  switch (phase) {
    case AttentionPhase::kDecode:
      return decode_kernel;
    case AttentionPhase::kExtend:
      return tile_kernel<PagedReader, AttentionPhase::kExtend>;
    case AttentionPhase::kPrefill:
      return tile_kernel<DirectReader, AttentionPhase::kPrefill>;
  }
  return nullptr;
}

size_t scratch_bytes(int64_t rows, int64_t head_size) {
  return AttendScratch::bytes(rows, head_size);
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace paceline::cpu {
namespace {

HWY_EXPORT(get_kernel);
HWY_EXPORT(scratch_bytes);

// Tasks are persistent: task t takes items t, t + tasks, ... so that a launch does not depend on
// lengths.
constexpr int64_t kTasksPerWorker = 8;

Status launch(Stream& stream, AttentionPhase phase, const AttentionParams& params) {
  const int64_t tasks = stream.device().info().compute_units * kTasksPerWorker;
  return as_cpu(stream).launch(tasks, HWY_DYNAMIC_DISPATCH(get_kernel)(phase), params);
}

void plan_kernel(const PlanParams& p, const TaskContext& /*context*/) {
  p.plan.num_work[static_cast<int>(AttentionPhase::kDecode)] = plan_decodes(
      p.query_start_loc, p.seq_lens, p.num_decodes, p.plan.decodes, p.plan.first_partial);
  p.plan.num_work[static_cast<int>(AttentionPhase::kExtend)] = plan_query_tiles(
      p.query_start_loc, p.num_decodes, p.num_extends, p.tile_tokens, p.plan.extends);
  p.plan.num_work[static_cast<int>(AttentionPhase::kPrefill)] =
      plan_query_tiles(p.query_start_loc, p.num_decodes + p.num_extends, p.num_prefills,
                       p.tile_tokens, p.plan.prefills);
}

}  // namespace

int32_t tile_tokens(const AttentionSpec& spec) {
  return std::max(1, 64 / (spec.num_heads / spec.num_kv_heads));
}

std::vector<std::string> why_not(const AttentionSpec& spec) {
  std::vector<std::string> reasons;
  if (spec.head_size % 8 != 0) {
    reasons.push_back(fmt::format("head_size {} is not a multiple of 8", spec.head_size));
  }
  const int64_t rows = int64_t{tile_tokens(spec)} * (spec.num_heads / spec.num_kv_heads);
  const size_t bytes = HWY_DYNAMIC_DISPATCH(scratch_bytes)(rows, spec.head_size);
  if (bytes > TaskContext::kScratchBytes) {
    reasons.push_back(
        fmt::format("head_size {} with {} query rows needs {} bytes of scratch; {} exist",
                    spec.head_size, rows, bytes, TaskContext::kScratchBytes));
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

}  // namespace paceline::cpu
#endif
