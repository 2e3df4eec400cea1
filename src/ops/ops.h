// Everything of a decoder's step that is not attention, on any device. Calls only enqueue on the
// stream; pointers are device memory unless said otherwise. Activations are float32.
//
// Rows: a function over `n` rows treats each by itself, so a row's bits do not depend on n.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/weight_format.h"
#include "paceline/device.h"

namespace paceline {

// A weight matrix of `rows` outputs by `cols` inputs, row by row.
struct WeightMatrix {
  const uint8_t* data = nullptr;
  WeightFormat format = WeightFormat::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
};

// One product of a gemm call: out[i][r] (+)= dot(weights row r, x[i]).
struct GemmOutput {
  WeightMatrix weights;
  float* out = nullptr;
  int64_t out_stride = 0;  // floats between rows of out
};

struct GemmParams {
  static constexpr size_t kMaxOutputs = 3;

  const float* x = nullptr;  // [n, cols]
  int64_t x_stride = 0;
  int64_t n = 0;
  std::array<GemmOutput, kMaxOutputs> outputs{};  // of the same cols
  int32_t num_outputs = 0;
  bool accumulate = false;  // add to out instead of replacing it
};

// Rotates pairs of each head by the angle of the token's position: with c and s the table's cosine
// and sine,
//   (a, b) -> (a c - b s, a s + b c).
struct RopeParams {
  float* x = nullptr;  // [n, num_heads, head_size]
  int64_t token_stride = 0;
  int64_t n = 0;
  int32_t num_heads = 0;
  int32_t head_size = 0;
  int32_t rotary_dim = 0;              // the first so many of each head
  bool interleaved = false;            // pairs (2i, 2i+1); else (i, i + rotary_dim/2)
  const int32_t* positions = nullptr;  // [n]
  const float* cos_sin = nullptr;      // [max position, rotary_dim]: cosines, then sines
};

// Sampling of one row; lives in device memory.
struct SamplingRow {
  float temperature = 0.0F;  // 0: greedy
  float top_p = 1.0F;
  uint64_t seed = 0;
  int64_t position =
      0;  // of the sampled token in its sequence: the random number depends on it and the seed only
  int32_t logits_row = 0;
  int32_t slot = 0;  // where the token goes, in `tokens`
};

// What `sample` gives for a row whose logits hold NaN or +infinity: no token is likelier than
// another.
inline constexpr int32_t kInvalidToken = -1;

struct SampleParams {
  const float* logits = nullptr;  // [rows, vocab]
  int64_t vocab = 0;
  const SamplingRow* rows = nullptr;  // [n]
  int64_t n = 0;
  int32_t* tokens = nullptr;   // [slots]: device memory, read by the next step
  int32_t* results = nullptr;  // [n]: host-visible memory
};

class Ops {
 public:
  // kUnsupported for a device without an implementation.
  static Result<std::unique_ptr<Ops>> create(Device& device);

  virtual ~Ops() = default;

  // ids[i] = prompt[i], or tokens[-1 - prompt[i]] where that is negative: a token sampled by an
  // earlier step.
  virtual Status resolve_ids(Stream& stream, const int32_t* prompt, const int32_t* tokens,
                             int64_t n, int32_t* ids) = 0;
  // out[i] = table row ids[i].
  virtual Status embed(Stream& stream, const WeightMatrix& table, const int32_t* ids, int64_t n,
                       float* out) = 0;
  // out[i] = x[i] / sqrt(mean(x[i]^2) + eps) * weight
  virtual Status rms_norm(Stream& stream, const float* x, const float* weight, float eps, int64_t n,
                          int64_t dim, float* out) = 0;
  virtual Status gemm(Stream& stream, const GemmParams& params) = 0;
  virtual Status rope(Stream& stream, const RopeParams& params) = 0;
  // gate[i] = silu(gate[i]) * up[i], silu(x) = x / (1 + e^-x), over n * dim values.
  virtual Status silu_mul(Stream& stream, float* gate, const float* up, int64_t n, int64_t dim) = 0;
  // out[i] = x[indices[i]]
  virtual Status gather_rows(Stream& stream, const float* x, const int32_t* indices, int64_t n,
                             int64_t dim, float* out) = 0;
  // Greedy takes the largest logit, the lowest id on ties. Otherwise: probabilities of logits /
  // temperature; the smallest set of most likely tokens that holds top_p of the mass; one of them
  // by its share. Logits that are NaN or +infinity give kInvalidToken in results and 0 in tokens.
  virtual Status sample(Stream& stream, const SampleParams& params) = 0;
};

}  // namespace paceline
