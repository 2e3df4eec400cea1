// Runs batches through the public attention API over a poisoned cache, and compares with the
// oracle.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/attention.h"

namespace paceline {

// One request's whole sequence, as random float32 already rounded to the activation dtype.
struct Sequence {
  int64_t length = 0;
  std::vector<float> q;  // [length, num_heads, head_size]
  std::vector<float> k;  // [length, num_kv_heads, head_size]
  std::vector<float> v;  // [length, num_kv_heads, head_size_v]
};

Sequence random_sequence(const AttentionSpec& spec, int64_t length, uint32_t seed,
                         float spread = 1.0F);

// A step's row: the sequence's tokens [seq_len - query_len, seq_len) are this step's.
struct Row {
  const Sequence* sequence = nullptr;
  int32_t query_len = 0;
  int32_t seq_len = 0;
  std::vector<int64_t> tree_mask = {};  // [query_len], or empty: no tree in the batch
};

// The rows as a batch must list them: decodes, extends, prefills.
std::vector<Row> in_order(const std::vector<Row>& rows, int reorder_batch_threshold);

// What a tree of `query_len` tokens with random parents sees.
std::vector<int64_t> random_tree(int32_t query_len, uint32_t seed);

struct HarnessOptions {
  float k_scale = 1.0F;  // of all heads, or of the first: the others' grow from there
  float v_scale = 1.0F;
  int64_t num_blocks = 512;
  int max_num_seqs = 64;
  int max_num_batched_tokens = 4096;
  int64_t max_model_len = 16384;
  int padded_reqs = 0;        // rows of length 0 added at the end
  bool captured = false;      // run from a captured graph
  int max_query_len = -1;     // the bound given to build; -1: exact
  int seq_len_slack = 0;      // how far the host's bounds of decodes' seq_lens are above the truth
  int common_prefix_len = 0;  // the rows' sequences and blocks agree so far; whole blocks
  bool kv_sharing = false;    // the layer reads everything from the cache
  std::optional<int> layer_window = {};
};

struct HarnessOutput {
  std::vector<float> out;  // [T, num_heads, head_size_v]: stored bits widened to float32
  std::vector<float> lse;  // [T, num_heads]
};

// A backend with a cache of random blocks. Every byte of the cache is NaN (or the largest code,
// where a format has no NaN) until a row owns it; unowned blocks stay so.
class Harness {
 public:
  static Result<std::unique_ptr<Harness>> create(Device& device, const AttentionSpec& spec,
                                                 const HarnessOptions& options);

  // Writes the rows' contexts, then this step's tokens, and attends. Rows in order. The output is
  // poisoned first.
  Result<HarnessOutput> run(const std::vector<Row>& rows, uint32_t block_seed = 1);

  Stream& stream() { return *stream_; }
  AttentionBackend& backend() { return *backend_; }
  AttentionLayer layer() const;
  // Scales of the keys (0) or values (1) that are given, by KV head; 1 where the cache makes its
  // own.
  float given_scale(int which, int kv_head) const;
  std::vector<float> slopes() const;  // empty where the spec has none
  std::vector<float> sinks() const;

 private:
  Harness(Device& device, const AttentionSpec& spec, const HarnessOptions& options)
      : device_(device), spec_(spec), options_(options) {}
  Status allocate();
  Status write_contexts(const std::vector<Row>& rows,
                        const std::vector<std::vector<int32_t>>& blocks);
  Result<std::vector<std::vector<int32_t>>> assign_blocks(const std::vector<Row>& rows,
                                                          uint32_t seed) const;
  Status poison();

  Device& device_;
  AttentionSpec spec_;
  HarnessOptions options_;
  KVCacheShape shape_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<AttentionBackend> backend_;
  Buffer key_;
  Buffer value_;
  Buffer scales_;    // given ones, or [2, NB, Hkv, BS]
  Buffer per_head_;  // slopes, then sinks
};

// Largest differences from the oracle on the rounded inputs (K and V as the cache returns them);
// NaN where one is NaN.
struct Errors {
  double out = 0.0;
  double lse = 0.0;
};
Errors errors(const Harness& harness, const AttentionSpec& spec, const HarnessOptions& options,
              const std::vector<Row>& rows, const HarnessOutput& output);

// Elements of `dtype`, and back.
std::vector<std::byte> to_dtype(DType dtype, const std::vector<float>& values);
std::vector<float> from_dtype(DType dtype, const std::vector<std::byte>& bytes);

}  // namespace paceline
