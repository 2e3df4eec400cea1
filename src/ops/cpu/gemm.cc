// What: out[i][r] (+)= dot(W[r], x[i]), W in any weight format, for up to three W that share x.
// Task: kTaskRows rows of one W. They are decoded to float32, kGroupRows at a time, and stay in
// L1/L2 while all rows of x pass. Bytes: W once, x once a group; FLOPs: 2 * n * rows * cols. A
// result has the bits of one dot product (dot-inl.h), whatever n is.
#include "base/errors.h"
#include "device/cpu/cpu_device.h"
#include "ops/cpu/cpu_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/gemm.cc"
#include <hwy/foreach_target.h>
// The target loop comes first.
#include <hwy/highway.h>

#include "device/cpu/simd/dot-inl.h"
#include "ops/cpu/dequantize-inl.h"

#ifndef PACELINE_GEMM_ONCE
#define PACELINE_GEMM_ONCE
namespace paceline::cpu {
constexpr int64_t kTaskRows = 32;
constexpr int64_t kGroupRows = 8;

constexpr int64_t num_row_tasks(int64_t rows) { return (rows + kTaskRows - 1) / kTaskRows; }
}  // namespace paceline::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {
namespace {

using cpu::kGroupRows;
using cpu::kTaskRows;
using cpu::TaskContext;

// One row of x: every weight is used once, so it never goes through memory. The same chains as
// dot_tile.
template <typename Block, int kRows>
HWY_INLINE void single_row_sums(const uint8_t* src, size_t row_bytes, int64_t cols, const float* x,
                                float* sums) {
  Vec8 acc[kRows];
  for (int r = 0; r < kRows; ++r) {
    acc[r] = zero8();
  }
  for (int64_t i = 0; i < cols; i += Block::kElements, src += Block::kBytes) {
    for (int r = 0; r < kRows; ++r) {
      const Block block(src + static_cast<size_t>(r) * row_bytes);
      for (int part = 0; part < Block::kElements / 8; ++part) {
        acc[r] = mul_add(load8(x + i + int64_t{8} * part), block.part(part), acc[r]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    sums[r] = sum8(acc[r]);
  }
}

void single_row_product(const GemmParams& p, const GemmOutput& output, int64_t first,
                        int64_t rows) {
  const WeightMatrix& w = output.weights;
  const size_t row_bytes = weight_row_bytes(w.format, w.cols);
  const uint8_t* src = w.data + static_cast<size_t>(first) * row_bytes;
  float sums[kGroupRows];
  with_block(w.format, [&](auto tag) {
    using Block = typename decltype(tag)::Block;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      single_row_sums<Block, 4>(src + static_cast<size_t>(r) * row_bytes, row_bytes, w.cols, p.x,
                                sums + r);
    }
    for (; r < rows; ++r) {
      single_row_sums<Block, 1>(src + static_cast<size_t>(r) * row_bytes, row_bytes, w.cols, p.x,
                                sums + r);
    }
  });
  for (int64_t r = 0; r < rows; ++r) {
    float& out = output.out[first + r];
    out = p.accumulate ? out + sums[r] : sums[r];
  }
}

void group_product(const GemmParams& p, const GemmOutput& output, int64_t first, int64_t rows,
                   float* scratch) {
  const WeightMatrix& w = output.weights;
  const size_t row_bytes = weight_row_bytes(w.format, w.cols);
  const uint8_t* src = w.data + static_cast<size_t>(first) * row_bytes;
  const auto* decoded = reinterpret_cast<const float*>(src);
  if (w.format != WeightFormat::kF32) {
    for (int64_t r = 0; r < rows; ++r) {
      dequantize_simd(w.format, src + static_cast<size_t>(r) * row_bytes, w.cols,
                      scratch + r * w.cols);
    }
    decoded = scratch;
  }
  const auto emit = [&](int64_t i, int64_t r, const float* sums, auto count) {
    float* out = output.out + i * output.out_stride + first + r;
    for (int c = 0; c < count; ++c) {
      out[c] = p.accumulate ? out[c] + sums[c] : sums[c];
    }
  };
  dot_rows(p.x, p.x_stride, p.n, decoded, w.cols, rows, w.cols, emit);
}

void gemm_kernel(const GemmParams& p, const TaskContext& context) {
  int64_t task = context.task;
  size_t which = 0;
  while (task >= cpu::num_row_tasks(p.outputs[which].weights.rows)) {
    task -= cpu::num_row_tasks(p.outputs[which].weights.rows);
    ++which;
  }
  const GemmOutput& output = p.outputs[which];
  const int64_t end = std::min(output.weights.rows, (task + 1) * kTaskRows);
  for (int64_t first = task * kTaskRows; first < end; first += kGroupRows) {
    const int64_t rows = std::min(kGroupRows, end - first);
    if (p.n == 1) {
      single_row_product(p, output, first, rows);
    } else {
      group_product(p, output, first, rows, reinterpret_cast<float*>(context.scratch));
    }
  }
}

using GemmKernel = void (*)(const GemmParams&, const TaskContext&);
GemmKernel get_gemm_kernel() { return gemm_kernel; }

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::cpu {
namespace {
HWY_EXPORT(get_gemm_kernel);
}  // namespace

Status CpuOps::gemm(Stream& stream, const GemmParams& params) {
  int64_t tasks = 0;
  for (size_t i = 0; i < static_cast<size_t>(params.num_outputs); ++i) {
    const WeightMatrix& w = params.outputs[i].weights;
    if (w.cols % 8 != 0 || w.cols != params.outputs[0].weights.cols) {
      return unsupported("gemm: {} columns; a multiple of 8, the same for all outputs, is needed",
                         w.cols);
    }
    if (static_cast<size_t>(w.cols * kGroupRows) * sizeof(float) > TaskContext::kScratchBytes) {
      return unsupported("gemm: {} columns; at most {} fit the scratch memory", w.cols,
                         TaskContext::kScratchBytes / sizeof(float) / kGroupRows);
    }
    tasks += num_row_tasks(w.rows);
  }
  return as_cpu(stream).launch(tasks, HWY_DYNAMIC_DISPATCH(get_gemm_kernel)(), params);
}

}  // namespace paceline::cpu
#endif
