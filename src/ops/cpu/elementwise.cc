// The row-wise operators: embedding, RMSNorm, RoPE, SiLU, gather. Each task is one row, or a few.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/errors.h"
#include "base/status_macros.h"
#include "device/cpu/cpu_device.h"
#include "ops/cpu/cpu_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/elementwise.cc"
#include <hwy/foreach_target.h>
// The target loop comes first.
#include <hwy/highway.h>

#include "ops/cpu/dequantize-inl.h"

#ifndef PACELINE_ELEMENTWISE_ONCE
#define PACELINE_ELEMENTWISE_ONCE
namespace paceline::cpu {

struct ResolveParams {
  const int32_t* prompt;
  const int32_t* tokens;
  int64_t n;
  int32_t* ids;
};
struct EmbedParams {
  WeightMatrix table;
  const int32_t* ids;
  float* out;
};
struct NormParams {
  const float* x;
  const float* weight;
  float* out;
  int64_t n;
  int64_t dim;
  float eps;
};
struct SiluParams {
  float* gate;
  const float* up;
  int64_t count;
};
struct GatherParams {
  const float* x;
  const int32_t* indices;
  int64_t dim;
  float* out;
};

struct ElementwiseKernels {
  void (*embed)(const EmbedParams&, const TaskContext&);
  void (*norm)(const NormParams&, const TaskContext&);
  void (*rope)(const RopeParams&, const TaskContext&);
  void (*silu)(const SiluParams&, const TaskContext&);
};

// Values that one task takes: small steps stay on one thread.
constexpr int64_t kTaskValues = 16384;
inline int64_t rows_per_task(int64_t dim) { return std::max<int64_t>(1, kTaskValues / dim); }
inline int64_t row_tasks(int64_t n, int64_t dim) {
  return (n + rows_per_task(dim) - 1) / rows_per_task(dim);
}

}  // namespace paceline::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {
namespace {

using cpu::TaskContext;

void embed_kernel(const cpu::EmbedParams& p, const TaskContext& context) {
  const auto row = static_cast<size_t>(p.ids[context.task]);
  dequantize_simd(p.table.format,
                  p.table.data + row * weight_row_bytes(p.table.format, p.table.cols), p.table.cols,
                  p.out + context.task * p.table.cols);
}

void norm_row(const cpu::NormParams& p, int64_t row) {
  const float* x = p.x + row * p.dim;
  float* out = p.out + row * p.dim;
  Vec8 squares = zero8();
  for (int64_t i = 0; i < p.dim; i += 8) {
    const Vec8 v = load8(x + i);
    squares = mul_add(v, v, squares);
  }
  const float mean = sum8(squares) / static_cast<float>(p.dim);
  const Vec8 factor = set8(1.0F / std::sqrt(mean + p.eps));
  for (int64_t i = 0; i < p.dim; i += 8) {
    store8(load8(x + i) * factor * load8(p.weight + i), out + i);
  }
}

void norm_kernel(const cpu::NormParams& p, const TaskContext& context) {
  const int64_t rows = cpu::rows_per_task(p.dim);
  const int64_t end = std::min(p.n, (context.task + 1) * rows);
  for (int64_t row = context.task * rows; row < end; ++row) {
    norm_row(p, row);
  }
}

// Plain arithmetic that the compiler vectorises for each target.
void rope_row(const RopeParams& p, int64_t row) {
  const int32_t half = p.rotary_dim / 2;
  const float* cosines = p.cos_sin + int64_t{p.positions[row]} * p.rotary_dim;
  const float* sines = cosines + half;
  for (int32_t head = 0; head < p.num_heads; ++head) {
    float* x = p.x + row * p.token_stride + int64_t{head} * p.head_size;
    for (int32_t i = 0; i < half; ++i) {
      float& a = x[p.interleaved ? 2 * i : i];
      float& b = x[p.interleaved ? 2 * i + 1 : i + half];
      const float rotated = a * cosines[i] - b * sines[i];
      b = a * sines[i] + b * cosines[i];
      a = rotated;
    }
  }
}

void rope_kernel(const RopeParams& p, const TaskContext& context) {
  const int64_t rows = cpu::rows_per_task(int64_t{p.num_heads} * p.head_size);
  const int64_t end = std::min(p.n, (context.task + 1) * rows);
  for (int64_t row = context.task * rows; row < end; ++row) {
    rope_row(p, row);
  }
}

void silu_kernel(const cpu::SiluParams& p, const TaskContext& context) {
  const int64_t end = std::min(p.count, (context.task + 1) * cpu::kTaskValues);
  const Vec8 one = set8(1.0F);
  for (int64_t i = context.task * cpu::kTaskValues; i < end; i += 8) {
    const Vec8 x = load8(p.gate + i);
    const Vec8 silu = x / (one + exp8(zero8() - x));
    store8(silu * load8(p.up + i), p.gate + i);
  }
}

cpu::ElementwiseKernels get_elementwise() {
  return {embed_kernel, norm_kernel, rope_kernel, silu_kernel};
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::cpu {
namespace {

HWY_EXPORT(get_elementwise);

auto kernels() { return HWY_DYNAMIC_DISPATCH(get_elementwise)(); }

Status need_multiple_of_8(const char* op, int64_t dim) {
  if (dim % 8 != 0) {
    return unsupported("{}: a dimension of {}; a multiple of 8 is needed", op, dim);
  }
  return {};
}

void resolve_kernel(const ResolveParams& p, const TaskContext& /*context*/) {
  for (int64_t i = 0; i < p.n; ++i) {
    p.ids[i] = p.prompt[i] >= 0 ? p.prompt[i] : p.tokens[-1 - int64_t{p.prompt[i]}];
  }
}

void gather_kernel(const GatherParams& p, const TaskContext& context) {
  std::memcpy(p.out + context.task * p.dim, p.x + int64_t{p.indices[context.task]} * p.dim,
              static_cast<size_t>(p.dim) * sizeof(float));
}

}  // namespace

Status CpuOps::resolve_ids(Stream& stream, const int32_t* prompt, const int32_t* tokens, int64_t n,
                           int32_t* ids) {
  return as_cpu(stream).launch(1, resolve_kernel, ResolveParams{prompt, tokens, n, ids});
}

Status CpuOps::embed(Stream& stream, const WeightMatrix& table, const int32_t* ids, int64_t n,
                     float* out) {
  return as_cpu(stream).launch(n, kernels().embed, EmbedParams{table, ids, out});
}

Status CpuOps::rms_norm(Stream& stream, const float* x, const float* weight, float eps, int64_t n,
                        int64_t dim, float* out) {
  PACELINE_RETURN_IF_ERROR(need_multiple_of_8("rms_norm", dim));
  return as_cpu(stream).launch(row_tasks(n, dim), kernels().norm,
                               NormParams{x, weight, out, n, dim, eps});
}

Status CpuOps::rope(Stream& stream, const RopeParams& params) {
  return as_cpu(stream).launch(row_tasks(params.n, int64_t{params.num_heads} * params.head_size),
                               kernels().rope, params);
}

Status CpuOps::silu_mul(Stream& stream, float* gate, const float* up, int64_t n, int64_t dim) {
  PACELINE_RETURN_IF_ERROR(need_multiple_of_8("silu_mul", dim));
  return as_cpu(stream).launch((n * dim + kTaskValues - 1) / kTaskValues, kernels().silu,
                               SiluParams{gate, up, n * dim});
}

Status CpuOps::gather_rows(Stream& stream, const float* x, const int32_t* indices, int64_t n,
                           int64_t dim, float* out) {
  return as_cpu(stream).launch(n, gather_kernel, GatherParams{x, indices, dim, out});
}

}  // namespace paceline::cpu
#endif
