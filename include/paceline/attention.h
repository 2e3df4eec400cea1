// Three-phase paged attention: the work of vLLM's ROCM_AITER_FA backend.
//
//   // Once. A refusal lists every reason.
//   auto backend = AttentionBackend::create(device, spec, limits);
//   // Each step:
//   auto metadata = backend->build(stream, batch);
//   for (each layer) {
//     // The new keys and values go into the cache first; then attention reads them there.
//     backend->update_kv_cache(stream, k, v, slot_mapping, cache);
//     backend->forward(stream, *metadata, {.cache = cache}, q, k, v, out);
//   }
//
// Each request of a batch is in one of three phases; context_len = seq_len - query_len is what the
// cache held before this step:
//   decode    context_len > 0 and query_len <= reorder_batch_threshold
//   extend    context_len > 0 and query_len >  reorder_batch_threshold
//   prefill   context_len = 0
// A batch lists decodes first, then extends, then prefills.
//
// Time. Nothing here waits for the device: all calls check what the host can see, enqueue on the
// stream and return. Lengths that kernels need are read on the device. Host arrays (the spans of
// CommonAttentionMetadata) are read before build() returns and may be reused at once. Device memory
// (q, k, v, out, block tables, lengths, slots, the cache) must stay valid, and its contents
// unchanged, until the stream has run the work that reads it. build() for step N+1 may be called
// while step N still runs, as it only enqueues too; the metadata of step N must not be used after.
//
// Threads and streams. A backend serves one stream at a time and is not thread-safe: its plan and
// its workspace are shared by the steps it has queued, which the stream's order keeps apart.
// Concurrent streams take a backend each. The caller keeps the backend alive until the stream has
// run its work.
//
// Graphs. build, update_kv_cache and forward may be captured and replayed. A graph holds the
// addresses of all tensors and the batch's shape: num_reqs, and how many requests and tokens are in
// each phase. What lies in device memory may change between replays: lengths (within the limits
// and within each request's phase), block tables, slots, values. A replay runs no host code, so the
// checks of build() are the caller's to keep. Requests of query_len 0 may stand for absent ones.
//
// What the host cannot see is not checked: a block id outside the cache, or lengths on the device
// beyond those given on the host, are undefined behaviour. Faults of a device that come later are
// returned by the next call on the stream.
//
// NaN. What a query sees reaches it: NaN in its query, or in a key or value it attends to, gives
// NaN. What it does not see never does, whatever bytes lie there.
//
// Batch invariance: the output of a query token depends on its query, the keys and values it
// attends to and the spec, never on its batch, its phase or how its prompt was cut into chunks:
// always the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/device.h"
#include "paceline/kv_cache.h"
#include "paceline/tensor.h"

namespace paceline {

enum class AttentionType : uint8_t { kDecoder, kEncoder, kEncoderDecoder };

// How extends read what the cache already holds.
enum class ExtendStrategy : uint8_t {
  kInPlace,  // the paged cache, where it lies
  kGather,   // chunks of the cache copied into a workspace of fixed size, merged by LSE
};

// What is asked of attention; the same for all layers that share a backend. What no kernel serves
// is refused by create() and explained by why_not().
//
// The score of the query at position i for the key at position j, with the head's ALiBi slope m:
//   s = scale * (q . k)
//   s = cap * tanh(s / cap)      logits_soft_cap
//   s = s - m * |i - j|          alibi
// then masks: a key outside of what the query sees has no weight at all. The weights are softmax
// over s, and over the head's sink where there are sinks.
//
// The query at position i sees the key at position j, 0 <= j < seq_len, where all of these hold:
//   causal                       j <= i
//   sliding_window W > 0         i - W < j, and j < i + W without causal
//   attention_chunk_size C > 0   i / C == j / C
//   tree_mask                    see CommonAttentionMetadata
struct AttentionSpec {
  int num_heads = 0;     // query heads
  int num_kv_heads = 0;  // divides num_heads; the quotient is the GQA group
  // Of queries and keys. Any positive number; fast kernels need a multiple of 8, and how large it
  // may be depends on the kernel: why_not() tells.
  int head_size = 0;
  int head_size_v = 0;                     // of values and output; 0: the same as head_size
  DType dtype = DType::kFloat32;           // of q, k, v and out: float32, float16 or bfloat16
  DType kv_cache_dtype = DType::kFloat32;  // also the fp8 formats and int8
  KVScaleKind kv_scale = KVScaleKind::kPerTensor;
  KVCacheLayout kv_cache_layout = KVCacheLayout::kNHD;
  int block_size = 16;              // tokens a block of the cache
  std::optional<float> scale;       // of the scores; 1/sqrt(head_size) when absent
  int reorder_batch_threshold = 1;  // most query tokens of a decode, as vLLM names it
  AttentionType attention_type = AttentionType::kDecoder;
  bool causal = true;
  int sliding_window = 0;        // tokens a query sees, itself included; 0: all. See AttentionLayer
  int attention_chunk_size = 0;  // chunked-local attention, as in Llama 4; 0: none
  float logits_soft_cap = 0.0F;  // 0: none
  bool alibi = false;            // layers give slopes
  bool sinks = false;            // layers give sinks
  bool tree_mask = false;        // batches may give tree masks; causal only
  ExtendStrategy extend_strategy = ExtendStrategy::kInPlace;
  int extend_workspace_tokens = 32 * 1024;  // of kGather: at least 64
  // Choose this kernel row by name instead of the first that serves, e.g. "ref"; empty: the
  // fastest.
  std::string kernel;
};

// Sizes that buffers are made for, once: see workspace_bytes().
struct AttentionLimits {
  int max_num_seqs = 0;            // requests in a batch
  int max_num_batched_tokens = 0;  // query tokens in a batch
  int64_t max_model_len = 0;       // tokens of a request
  // Sum of seq_lens over the decodes of a batch, as seq_lens_cpu_upper_bound gives them; 0 means
  // max_num_seqs * max_model_len. It bounds the room for partial results.
  int64_t max_kv_tokens = 0;
};

// One step's batch. R requests, T query tokens; names as in vLLM.
struct CommonAttentionMetadata {
  int num_reqs = 0;           // R; may include padded requests at the end (query_len 0)
  int num_actual_tokens = 0;  // T; may be padded
  int max_query_len = 0;      // over the batch; may be an upper bound
  // The first so many tokens of all decodes are the same, in the same blocks (cascade attention):
  // they are read once for several requests. The output has the same bits as without.
  int common_prefix_len = 0;
  // Host copies, known to the scheduler. Query lengths are exact; seq_lens are exact for extends
  // and prefills, and may be upper bounds for decodes.
  std::span<const int32_t> query_start_loc_cpu;       // [R + 1], prefix sums of query lengths
  std::span<const int32_t> seq_lens_cpu_upper_bound;  // [R], cached tokens with this step's
  // Device arrays; block ids are int32, so a cache has at most 2^31 - 1 blocks.
  TensorView query_start_loc;  // int32 [R + 1]
  TensorView seq_lens;         // int32 [R], exact
  TensorView block_table;  // int32 [R, blocks]; row i holds at least ceil(seq_lens[i] / block_size)
  // Optional, int64 [T]: speculative decoding of a tree of tokens. Bit u of entry t: the query
  // token t of a decode sees the u-th query token of its request, itself included; so a decode has
  // at most 64 of them. It sees all of the context. A token's position, for windows, chunks and
  // ALiBi, is then context_len + the number of its bits - 1: its depth in the tree. Entries of
  // extends and prefills are not read.
  TensorView tree_mask;
};

// Made by AttentionBackend::build; valid until the next build of the same backend. A plain value:
// copies are as good. It holds the device addresses of the batch it was built for.
struct AttentionMetadata {
  int num_actual_tokens = 0;
  int num_decodes = 0;
  int num_extends = 0;
  int num_prefills = 0;
  int num_decode_tokens = 0;
  int num_extend_tokens = 0;
  int num_prefill_tokens = 0;
  TensorView query_start_loc;
  TensorView seq_lens;
  TensorView block_table;
  TensorView tree_mask;
  int max_extend_seq_len = 0;  // of kGather: what the step's chunks cover
};

// What differs from layer to layer.
struct AttentionLayer {
  KVCacheView cache;
  // This layer's window in place of the spec's; 0: none. A spec without a window admits none; its
  // window is best the largest of the layers', as decodes skip what lies outside of that.
  std::optional<int> sliding_window;
  const float* alibi_slopes = nullptr;  // device, float32 [num_heads]; exactly when spec.alibi
  const float* sinks = nullptr;         // device, float32 [num_heads]; exactly when spec.sinks
  // The cache is another layer's, which has written this step's keys and values already: k and v of
  // forward() are not read and may be null.
  bool kv_sharing = false;
};

class AttentionBackend {
 public:
  // kUnsupported with every reason when no kernel serves the spec in all phases; kInvalidArgument
  // for specs or limits that make no sense; kResourceExhausted when workspace memory is short.
  static Result<std::unique_ptr<AttentionBackend>> create(Device& device, const AttentionSpec& spec,
                                                          const AttentionLimits& limits);
  // The reasons why create() would refuse the spec on such a device; empty when it is served. Needs
  // no device.
  static std::vector<std::string> why_not(DeviceKind device, const AttentionSpec& spec);

  virtual ~AttentionBackend() = default;
  virtual const AttentionSpec& spec() const = 0;
  // The kernel that serves each phase, for reports: "decode: cpu_simd, extend: ..., prefill: ...".
  virtual std::string kernel_names() const = 0;
  // Device memory that the backend holds, allocated by create() once and for all. With Dv the size
  // of a value head, S = ceil(max_model_len / 256), N max_num_seqs and T max_num_batched_tokens:
  //   splits    W = min(N * S, max_kv_tokens / 256 + N)
  //   partials  reorder_batch_threshold * W * num_heads * (Dv + 2) * 4 bytes
  //   plan      12 W, twice that with a window or chunks, + 16 (T + N) + 4 N (num_kv_heads + 1)
  //             bytes at most
  //   kGather   extend_workspace_tokens * num_kv_heads * ((head_size + Dv) * element size + 8), and
  //             T * num_heads * (Dv + 2) * 4 bytes of running results
  // and up to 64 bytes for each of a dozen arrays. Nothing else enters: no batch, padding or bound.
  virtual size_t workspace_bytes() const = 0;

  // Splits the batch, checks it and enqueues the planning of its work.
  // kInvalidArgument: batch out of order (decode, extend, prefill), seq_len < query_len, tensors of
  // wrong shape; kResourceExhausted: beyond the limits. Messages name the request.
  virtual Result<AttentionMetadata> build(Stream& stream, const CommonAttentionMetadata& batch) = 0;

  // k: [T, num_kv_heads, head_size], v: [T, num_kv_heads, head_size_v] of spec.dtype. slot_mapping:
  // int64 [T], block * block_size + offset; slots that are negative or beyond the cache are not
  // written. Values are divided by the cache's scale and rounded to its dtype; formats of 8 bits
  // saturate, infinities too. int8 has no NaN: it stores 0.
  virtual Status update_kv_cache(Stream& stream, const TensorView& k, const TensorView& v,
                                 const TensorView& slot_mapping, const KVCacheView& cache) = 0;

  // q: [T, num_heads, head_size], out: [T, num_heads, head_size_v]; k, v as above: this step's own.
  // Head dimensions are dense, other strides are free; pointers are aligned to the element.
  // kInvalidArgument names the tensor that does not fit. out rows at and beyond num_actual_tokens
  // stay untouched; a query that sees nothing gives zeros.
  //
  // lse, when defined: float32 [T, num_heads], any strides: the natural logarithm of the sum that
  // the weights were divided by, sinks included; -infinity for a query that sees nothing.
  //
  // Prefills read k and v directly, but as the cache would return them (rounded to its dtype), so
  // that chunking a prompt changes no bit.
  virtual Status forward(Stream& stream, const AttentionMetadata& metadata,
                         const AttentionLayer& layer, const TensorView& q, const TensorView& k,
                         const TensorView& v, const TensorView& out,
                         const TensorView& lse = {}) = 0;
};

}  // namespace paceline
