// Runs batches through the public attention API over a poisoned cache, and compares with the
// oracle.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "paceline/attention.h"
#include "support/device_array.h"

namespace paceline::testing {

// One request's whole sequence, as random float32 already rounded to the activation dtype.
struct Sequence {
  int64_t length = 0;
  std::vector<float> q;  // [length, num_heads, head_size]
  std::vector<float> k;  // [length, num_kv_heads, head_size]
  std::vector<float> v;
};

Sequence random_sequence(const AttentionSpec& spec, int64_t length, uint32_t seed);

// A step's row: the sequence's tokens [seq_len - query_len, seq_len) are this step's.
struct Row {
  const Sequence* sequence;
  int32_t query_len;
  int32_t seq_len;
};

struct HarnessOptions {
  float k_scale = 1.0F;
  float v_scale = 1.0F;
  int64_t num_blocks = 512;
  int max_num_seqs = 64;
  int max_num_batched_tokens = 4096;
  int64_t max_model_len = 16384;
  int padded_reqs = 0;  // rows of length 0 added at the end
  int num_threads = 2;
  bool captured = false;   // run forward from a captured graph
  int max_query_len = -1;  // the bound given to build; -1: exact
};

// A backend with a cache of random blocks. Every byte of the cache is NaN until a row owns it;
// unowned blocks stay so.
class Harness {
 public:
  Harness(const AttentionSpec& spec, const HarnessOptions& options);
  ~Harness();

  // Writes the rows' contexts, then this step's tokens, and attends. Returns [T, num_heads,
  // head_size] as stored bits widened to float32; rows in order. The output is poisoned first.
  std::vector<float> run(const std::vector<Row>& rows, uint32_t block_seed = 1);

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  AttentionBackend& backend() { return *backend_; }
  KVCacheView cache();

 private:
  struct Batch;
  void write_tokens(const std::vector<float>& k, const std::vector<float>& v,
                    const std::vector<int64_t>& slots);
  void write_contexts(const std::vector<Row>& rows,
                      const std::vector<std::vector<int32_t>>& blocks);
  std::vector<std::vector<int32_t>> assign_blocks(const std::vector<Row>& rows,
                                                  uint32_t seed) const;

  AttentionSpec spec_;
  HarnessOptions options_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<AttentionBackend> backend_;
  DeviceArray key_;
  DeviceArray value_;
  DeviceArray scales_;
};

// Largest absolute difference between `out` and the oracle on the rounded inputs (K and V as the
// cache returns them).
double max_error(const AttentionSpec& spec, const HarnessOptions& options,
                 const std::vector<Row>& rows, const std::vector<float>& out);

// Elements of `dtype`, and back.
std::vector<uint8_t> to_dtype(DType dtype, const std::vector<float>& values);
std::vector<float> from_dtype(DType dtype, const std::vector<uint8_t>& bytes);

}  // namespace paceline::testing
