// The operators on the CPU device.
#pragma once

#include "ops/ops.h"

namespace paceline::cpu {

class CpuOps final : public Ops {
 public:
  Status resolve_ids(Stream& stream, const int32_t* prompt, const int32_t* tokens, int64_t n,
                     int32_t* ids) override;
  Status embed(Stream& stream, const WeightMatrix& table, const int32_t* ids, int64_t n,
               float* out) override;
  Status rms_norm(Stream& stream, const float* x, const float* weight, float eps, int64_t n,
                  int64_t dim, float* out) override;
  Status gemm(Stream& stream, const GemmParams& params) override;
  Status rope(Stream& stream, const RopeParams& params) override;
  Status silu_mul(Stream& stream, float* gate, const float* up, int64_t n, int64_t dim) override;
  Status gather_rows(Stream& stream, const float* x, const int32_t* indices, int64_t n, int64_t dim,
                     float* out) override;
  Status sample(Stream& stream, const SampleParams& params) override;
};

}  // namespace paceline::cpu
