// Every attention kernel there is: the dispatch table. Rows of one phase are tried in order.
#include <array>

#include "attention/dispatch.h"
#include "kernels/cpu/attention_cpu.h"
#include "kernels/ref/attention_ref.h"

namespace paceline {
namespace {

using enum AttentionPhase;
constexpr DeviceKind kCpu = DeviceKind::kCpu;

constexpr std::array<AttentionKernel, 7> kKernels{{
    {"cpu_simd", kCpu, kDecode, cpu::why_not, cpu::launch_decode},
    {"ref", kCpu, kDecode, ref::why_not, ref::launch_decode},
    {"cpu_simd", kCpu, kExtend, cpu::why_not_in_place, cpu::launch_extend},
    {"cpu_simd", kCpu, kExtend, cpu::why_not_gather, cpu::launch_gather_extend},
    {"ref", kCpu, kExtend, ref::why_not_extend, ref::launch_extend},
    {"cpu_simd", kCpu, kPrefill, cpu::why_not, cpu::launch_prefill},
    {"ref", kCpu, kPrefill, ref::why_not, ref::launch_prefill},
}};

constexpr std::array<DeviceKernels, 1> kDevices{{
    {kCpu, cpu::tile_tokens, cpu::launch_plan, cpu::launch_cache_write},
}};

}  // namespace

std::span<const AttentionKernel> attention_kernels() { return kKernels; }

const DeviceKernels* find_device_kernels(DeviceKind device) {
  for (const DeviceKernels& kernels : kDevices) {
    if (kernels.device == device) {
      return &kernels;
    }
  }
  return nullptr;
}

}  // namespace paceline
