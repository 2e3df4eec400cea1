// SIMD attention kernels of the CPU device, for AVX2, AVX-512 and NEON, chosen at run time.
#pragma once

#include "attention/dispatch.h"

namespace paceline::cpu {

// Query tokens of a tile, so that tile times GQA group is about 64 rows.
int32_t tile_tokens(const AttentionSpec& spec);

std::vector<std::string> why_not(const AttentionSpec& spec);
std::vector<std::string> why_not_in_place(const AttentionSpec& spec);  // of extends
Status launch_decode(Stream& stream, const AttentionParams& params);
Status launch_extend(Stream& stream, const AttentionParams& params);
Status launch_prefill(Stream& stream, const AttentionParams& params);

// Extends by the gather strategy: extend_gather.cc.
std::vector<std::string> why_not_gather(const AttentionSpec& spec);
Status launch_gather_extend(Stream& stream, const AttentionParams& params);

// One chunk of one pass of it.
struct GatheredExtendParams {
  AttentionParams attention;
  int32_t first_req;
  int32_t num_reqs;
  int32_t chunk_start;
  int32_t chunk_tokens;
};
Status launch_gathered(Stream& stream, const GatheredExtendParams& params);

// The device side of split_plan.h.
Status launch_plan(Stream& stream, const PlanParams& params);
Status launch_cache_write(Stream& stream, const CacheWriteParams& params);

}  // namespace paceline::cpu
