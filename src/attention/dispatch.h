// The dispatch table: which kernels exist, in order of preference, and why each refuses what it
// refuses.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "attention/params.h"
#include "paceline/attention.h"

namespace paceline {

// A row of the table. The first row of a phase whose why_not is empty serves; the reference comes
// last.
struct AttentionKernel {
  const char* name;
  DeviceKind device;
  AttentionPhase phase;
  std::vector<std::string> (*why_not)(const AttentionSpec& spec);
  Status (*launch)(Stream& stream, const AttentionParams& params);
};

// What a device has besides the attention kernels themselves.
struct DeviceKernels {
  DeviceKind device;
  // Query tokens of an extend or prefill tile; depends on the spec alone.
  int32_t (*tile_tokens)(const AttentionSpec& spec);
  Status (*plan)(Stream& stream, const PlanParams& params);
  Status (*write_cache)(Stream& stream, const CacheWriteParams& params);
};

// Defined by the layer of kernels (kernels/registry.cc), which this one must not know.
std::span<const AttentionKernel> attention_kernels();
const DeviceKernels* find_device_kernels(DeviceKind device);

// The row that serves, or null; `reasons` then gets every row's refusals, each with the row's name.
const AttentionKernel* select_kernel(DeviceKind device, AttentionPhase phase,
                                     const AttentionSpec& spec, std::vector<std::string>* reasons);

// The shape of a cache that fits the spec.
KVCacheShape cache_shape(const AttentionSpec& spec, int64_t num_blocks);

// Reasons that hold for every kernel of every device: nonsense, and features that no kernel has.
std::vector<std::string> why_invalid(const AttentionSpec& spec);
std::vector<std::string> why_unsupported(const AttentionSpec& spec);

}  // namespace paceline
