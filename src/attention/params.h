// What attention kernels are launched with: plain data, device pointers, no ownership.
#pragma once

#include <cstdint>

#include "attention/split_plan.h"
#include "kv/layout.h"
#include "paceline/dtype.h"

namespace paceline {

enum class AttentionPhase : uint8_t { kDecode = 0, kExtend = 1, kPrefill = 2 };
constexpr int kNumPhases = 3;
const char* attention_phase_name(AttentionPhase phase);  // "decode", "extend", "prefill"

// [tokens, heads, head_size], head_size dense; strides count elements.
struct TokenTensor {
  void* data;
  int64_t token_stride;
  int64_t head_stride;
};

// The batch's work, written by the planning kernel and read by all layers; see split_plan.h.
struct PlanBuffers {
  int32_t* num_work;       // [kNumPhases]: entries of each list
  DecodeWork* decodes;     // [max decode work]
  int32_t* first_partial;  // [max_num_seqs + 1]
  TileWork* extends;       // [max tiles]
  TileWork* prefills;      // [max tiles]
};

struct PlanParams {
  PlanBuffers plan;
  const int32_t* query_start_loc;
  const int32_t* seq_lens;
  int32_t num_decodes;
  int32_t num_extends;
  int32_t num_prefills;
  int32_t tile_tokens;
};

// Partial results of decodes: slot s of query head h is partials + (s * num_heads + h) * (head_size
// + 2) and holds the maximum score, the sum of exponentials, and head_size unnormalised outputs.
struct DecodeWorkspace {
  float* partials;
  int32_t* arrivals;  // [max_num_seqs, num_kv_heads]: splits done; zero between launches
};

// One launch: the requests of one phase of one layer.
struct AttentionParams {
  TokenTensor q;
  TokenTensor k;
  TokenTensor v;
  TokenTensor out;
  CacheParams cache;
  PlanBuffers plan;
  DecodeWorkspace workspace;
  const int32_t* query_start_loc;  // of the whole batch
  const int32_t* seq_lens;
  const int32_t* block_table;
  int64_t block_table_stride;
  int32_t first_req;  // of this phase
  int32_t num_reqs;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_size;
  int32_t tile_tokens;
  float scale;
  DType dtype;
};

struct CacheWriteParams {
  TokenTensor k;
  TokenTensor v;
  CacheParams cache;
  const int64_t* slot_mapping;
  int64_t num_tokens;
  int32_t num_kv_heads;
  int32_t head_size;
  DType dtype;
};

}  // namespace paceline
