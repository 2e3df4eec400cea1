#include "attention/dispatch.h"

#include <fmt/format.h>

#include <cmath>

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

KVCacheShape cache_shape(const AttentionSpec& spec, int64_t num_blocks) {
  KVCacheShape shape;
  shape.layout = spec.kv_cache_layout;
  shape.dtype = spec.kv_cache_dtype;
  shape.num_blocks = num_blocks;
  shape.block_size = spec.block_size;
  shape.num_kv_heads = spec.num_kv_heads;
  shape.head_size = spec.head_size;
  shape.head_size_v = spec.head_size_v;
  return shape;
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
  const auto not_negative = [&](const char* name, auto value) {
    require(value >= 0, fmt::format("{} is {}; it must not be negative", name, value));
  };
  not_negative("head_size_v", spec.head_size_v);
  not_negative("sliding_window", spec.sliding_window);
  not_negative("attention_chunk_size", spec.attention_chunk_size);
  not_negative("logits_soft_cap", spec.logits_soft_cap);
  require(std::isfinite(spec.scale.value_or(1.0F)) && std::isfinite(spec.logits_soft_cap),
          fmt::format("scale {} and logits_soft_cap {} must be finite", spec.scale.value_or(1.0F),
                      spec.logits_soft_cap));
  require(spec.extend_workspace_tokens >= 64 && spec.extend_workspace_tokens <= 1 << 24,
          fmt::format("extend_workspace_tokens is {}; 64 to {} are possible",
                      spec.extend_workspace_tokens, 1 << 24));
  require(!spec.tree_mask || spec.causal,
          "tree_mask needs causal: the tree says what a query sees");
  require(
      spec.kv_scale != KVScaleKind::kPerTokenHead || dtype_max(spec.kv_cache_dtype) > 0.0F,
      fmt::format("kv_scale per_token_head with a cache of {}; possible are the fp8 formats and "
                  "int8",
                  dtype_name(spec.kv_cache_dtype)));
  require(spec.dtype == DType::kFloat32 || spec.dtype == DType::kFloat16 ||
              spec.dtype == DType::kBFloat16,
          fmt::format("dtype {} of q, k, v and out; possible are float32, float16, bfloat16",
                      dtype_name(spec.dtype)));
  if (const Status cache = validate_kv_cache_shape(cache_shape(spec, 1)); !cache.ok()) {
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
  return reasons;
}

}  // namespace paceline
