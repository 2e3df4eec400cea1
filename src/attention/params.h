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

// [tokens, heads, head size], the last dense; strides count elements.
struct TokenTensor {
  void* data;
  int64_t token_stride;
  int64_t head_stride;
};

// float32 [tokens, heads], or null.
struct LseTensor {
  float* data;
  int64_t token_stride;
  int64_t head_stride;
};

// The batch's work, written by the planning kernel and read by all layers; see split_plan.h.
struct PlanBuffers {
  int32_t* num_work;       // [kNumWorkLists]: entries of each list
  DecodeWork* decodes;     // [max decode work]: all splits
  DecodeWork* windowed;    // [max decode work]: those that the spec's window and chunks leave
  int32_t* first_partial;  // [max_num_seqs + 1]
  TileWork* extends;       // [max tiles]
  TileWork* prefills;      // [max tiles]
};

struct PlanParams {
  PlanBuffers plan;
  MaskParams masks;  // of the spec: those of the windowed list
  const int32_t* query_start_loc;
  const int32_t* seq_lens;
  int32_t num_decodes;
  int32_t num_extends;
  int32_t num_prefills;
  int32_t tile_tokens;
  int32_t common_prefix_len;
};

// Partial results of decodes: slot s of query head h is partials + (s * num_heads + h) *
// (head_size_v + 2) and holds the maximum score, the sum of exponentials, and head_size_v
// unnormalised outputs.
struct DecodeWorkspace {
  float* partials;
  int32_t* arrivals;  // [max_num_seqs, num_kv_heads]: splits done; zero between launches
};

// What the gather strategy of extends copies chunks of the cache to.
struct GatherWorkspace {
  void* key;      // [tokens, num_kv_heads, head_size] of the cache's dtype, as stored
  void* value;    // [tokens, num_kv_heads, head_size_v]
  float* scales;  // [2, tokens, num_kv_heads]: the keys' and the values', kPerTokenHead
  float*
      running;  // [max_num_batched_tokens, num_heads, head_size_v + 2]: as the partials of decodes
  int32_t tokens;
};

// One launch: the requests of one phase of one layer.
struct AttentionParams {
  TokenTensor q;
  TokenTensor k;
  TokenTensor v;
  TokenTensor out;
  LseTensor lse;
  CacheParams cache;
  PlanBuffers plan;
  DecodeWorkspace workspace;
  GatherWorkspace gather;
  MaskParams masks;                // of the layer
  MaskParams plan_masks;           // those that the list of decodes was made with
  const float* alibi_slopes;       // [num_heads], or null
  const float* sinks;              // [num_heads], or null
  const int32_t* query_start_loc;  // of the whole batch
  const int32_t* seq_lens;
  const int32_t* block_table;
  int64_t block_table_stride;
  int32_t first_req;  // of this phase
  int32_t num_reqs;
  int32_t max_seq_len;  // of extends, known to the host: what the gather strategy covers
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_size;
  int32_t head_size_v;
  int32_t tile_tokens;
  float scale;
  float soft_cap;      // 0: none
  bool windowed;       // decodes go by the windowed list
  bool paged_prefill;  // prefills read the cache: layers that share another's
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
  int32_t head_size_v;
  DType dtype;
};

}  // namespace paceline
