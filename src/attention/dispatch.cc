#include "attention/dispatch.h"

#include <fmt/format.h>

namespace paceline {

const char* attention_phase_name(AttentionPhase phase) {
  switch (phase) {
    case AttentionPhase::kDecode:
      return "decode";
    case AttentionPhase::kExtend:
      return "extend";
    case AttentionPhase::kPrefill:
      return "prefill";
  }
  return "unknown";
}

const AttentionKernel* select_kernel(DeviceKind device, AttentionPhase phase,
                                     const AttentionSpec& spec, std::vector<std::string>* reasons) {
  std::string candidates;
  std::vector<std::string> refusals;
  for (const AttentionKernel& kernel : attention_kernels()) {
    if (kernel.device != device || kernel.phase != phase) {
      continue;
    }
    candidates += candidates.empty() ? kernel.name : fmt::format(", {}", kernel.name);
    if (!spec.kernel.empty() && spec.kernel != kernel.name) {
      continue;
    }
    const std::vector<std::string> why = kernel.why_not(spec);
    if (why.empty()) {
      return &kernel;
    }
    for (const std::string& reason : why) {
      refusals.push_back(
          fmt::format("{} {}: {}", kernel.name, attention_phase_name(phase), reason));
    }
  }
  if (refusals.empty()) {
    refusals.push_back(candidates.empty()
                           ? fmt::format("no {} kernel for device {}", attention_phase_name(phase),
                                         device_kind_name(device))
                           : fmt::format("no {} kernel is called '{}'; possible are {}",
                                         attention_phase_name(phase), spec.kernel, candidates));
  }
  if (reasons != nullptr) {
    reasons->insert(reasons->end(), refusals.begin(), refusals.end());
  }
  return nullptr;
}

std::vector<std::string> why_invalid(const AttentionSpec& spec) {
  std::vector<std::string> reasons;
  const auto require = [&](bool holds, std::string reason) {
    if (!holds) {
      reasons.push_back(std::move(reason));
    }
  };
  require(spec.num_heads > 0, fmt::format("num_heads is {}; it must be positive", spec.num_heads));
  require(spec.num_kv_heads > 0,
          fmt::format("num_kv_heads is {}; it must be positive", spec.num_kv_heads));
  require(spec.head_size > 0, fmt::format("head_size is {}; it must be positive", spec.head_size));
  if (spec.num_heads > 0 && spec.num_kv_heads > 0) {
    require(spec.num_heads % spec.num_kv_heads == 0,
            fmt::format("num_heads {} is not a multiple of num_kv_heads {}", spec.num_heads,
                        spec.num_kv_heads));
  }
  require(spec.reorder_batch_threshold > 0,
          fmt::format("reorder_batch_threshold is {}; it must be positive",
                      spec.reorder_batch_threshold));
  require(spec.sliding_window >= 0,
          fmt::format("sliding_window is {}; it must not be negative", spec.sliding_window));
  require(spec.logits_soft_cap >= 0.0F,
          fmt::format("logits_soft_cap is {}; it must not be negative", spec.logits_soft_cap));
  require(spec.dtype == DType::kFloat32 || spec.dtype == DType::kFloat16 ||
              spec.dtype == DType::kBFloat16,
          fmt::format("dtype {} of q, k, v and out; possible are float32, float16, bfloat16",
                      dtype_name(spec.dtype)));
  const KVCacheShape one_block{spec.kv_cache_layout, spec.kv_cache_dtype, 1,
                               spec.block_size,      spec.num_kv_heads,   spec.head_size};
  if (const Status cache = validate_kv_cache_shape(one_block); !cache.ok()) {
    reasons.push_back(cache.message());
  }
  return reasons;
}

std::vector<std::string> why_unsupported(const AttentionSpec& spec) {
  std::vector<std::string> reasons;
  if (spec.attention_type != AttentionType::kDecoder) {
    reasons.emplace_back(
        "attention_type must be decoder: keys of an encoder have lengths of their own, which a "
        "decoder's batch does not carry");
  }
  if (!spec.causal) {
    reasons.emplace_back("non-causal attention is not served by any kernel");
  }
  if (spec.sliding_window != 0) {
    reasons.push_back(
        fmt::format("sliding_window {} is not served by any kernel", spec.sliding_window));
  }
  if (spec.logits_soft_cap != 0.0F) {
    reasons.push_back(
        fmt::format("logits_soft_cap {} is not served by any kernel", spec.logits_soft_cap));
  }
  return reasons;
}

}  // namespace paceline
