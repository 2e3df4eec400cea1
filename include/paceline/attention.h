// Three-phase paged attention: the work of vLLM's ROCM_AITER_FA backend.
//
//   // Once. A refusal lists every reason.
//   auto backend = AttentionBackend::create(device, spec, limits);
//   // Each step:
//   auto metadata = backend->build(stream, batch);
//   for (each layer) {
//     // The new keys and values go into the cache first; then attention reads them there.
//     backend->update_kv_cache(stream, k, v, slot_mapping, cache);
//     backend->forward(stream, *metadata, q, k, v, cache, out);
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

// What is asked of attention; the same for all layers that share a backend. Every field may be
// asked for; what no kernel serves today is refused by create() and explained by why_not(). Today:
// attention_type other than kDecoder, causal false, a sliding window, a soft cap.
struct AttentionSpec {
  int num_heads = 0;     // query heads
  int num_kv_heads = 0;  // divides num_heads; the quotient is the GQA group
  // Of keys, values and output. Any positive number; fast kernels need a multiple of 8, and how
  // large it may be depends on the kernel: why_not() tells.
  int head_size = 0;
  DType dtype = DType::kFloat32;           // of q, k, v and out: float32, float16 or bfloat16
  DType kv_cache_dtype = DType::kFloat32;  // also fp8_e4m3
  KVCacheLayout kv_cache_layout = KVCacheLayout::kNHD;
  int block_size = 16;              // tokens a block of the cache
  std::optional<float> scale;       // of the scores; 1/sqrt(head_size) when absent
  int reorder_batch_threshold = 1;  // most query tokens of a decode, as vLLM names it
  AttentionType attention_type = AttentionType::kDecoder;
  bool causal = true;
  int sliding_window = 0;        // tokens a query sees, itself included; 0: all
  float logits_soft_cap = 0.0F;  // 0: none
  // Choose this kernel row by name instead of the first that serves, e.g. "ref"; empty: the
  // fastest.
  std::string kernel;
};

// Sizes that buffers are made for, once.
struct AttentionLimits {
  int max_num_seqs = 0;            // requests in a batch
  int max_num_batched_tokens = 0;  // query tokens in a batch
  int64_t max_model_len = 0;       // tokens of a request
  // Sum of seq_lens over the decodes of a batch, as seq_lens_cpu_upper_bound gives them; 0 means
  // max_num_seqs * max_model_len. It bounds the workspace for partial results:
  //   slots = reorder_batch_threshold *
  //           min(max_num_seqs * ceil(max_model_len / 256), max_kv_tokens / 256 + max_num_seqs)
  //   bytes = slots * num_heads * (head_size + 2) * 4
  int64_t max_kv_tokens = 0;
};

// One step's batch. R requests, T query tokens; names as in vLLM.
struct CommonAttentionMetadata {
  int num_reqs = 0;           // R; may include padded requests at the end (query_len 0)
  int num_actual_tokens = 0;  // T; may be padded
  int max_query_len = 0;      // over the batch; may be an upper bound
  // Host copies, known to the scheduler. Query lengths are exact; seq_lens are exact for extends
  // and prefills, and may be upper bounds for decodes.
  std::span<const int32_t> query_start_loc_cpu;       // [R + 1], prefix sums of query lengths
  std::span<const int32_t> seq_lens_cpu_upper_bound;  // [R], cached tokens with this step's
  // Device arrays; block ids are int32, so a cache has at most 2^31 - 1 blocks.
  TensorView query_start_loc;  // int32 [R + 1]
  TensorView seq_lens;         // int32 [R], exact
  TensorView block_table;  // int32 [R, blocks]; row i holds at least ceil(seq_lens[i] / block_size)
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
  virtual size_t workspace_bytes() const = 0;

  // Splits the batch, checks it and enqueues the planning of its work.
  // kInvalidArgument: batch out of order (decode, extend, prefill), seq_len < query_len, tensors of
  // wrong shape; kResourceExhausted: beyond the limits. Messages name the request.
  virtual Result<AttentionMetadata> build(Stream& stream, const CommonAttentionMetadata& batch) = 0;

  // k, v: [T, num_kv_heads, head_size] of spec.dtype. slot_mapping: int64 [T], block * block_size +
  // offset; slots that are negative or beyond the cache are not written. Values are divided by the
  // cache's scale and rounded to its dtype (fp8 saturates at +-448).
  virtual Status update_kv_cache(Stream& stream, const TensorView& k, const TensorView& v,
                                 const TensorView& slot_mapping, const KVCacheView& cache) = 0;

  // q, out: [T, num_heads, head_size]; k, v as above: this step's own. Head dimensions are dense,
  // other strides are free; pointers are aligned to the element. kInvalidArgument names the tensor
  // that does not fit. out rows at and beyond num_actual_tokens stay untouched. Prefills read
  // k and v directly, but as the cache would return them (rounded to its dtype), so that chunking a
  // prompt changes no bit.
  virtual Status forward(Stream& stream, const AttentionMetadata& metadata, const TensorView& q,
                         const TensorView& k, const TensorView& v, const KVCacheView& cache,
                         const TensorView& out) = 0;
};

}  // namespace paceline
