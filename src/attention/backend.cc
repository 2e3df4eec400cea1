#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <utility>

#include "attention/dispatch.h"
#include "attention/metadata_builder.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "paceline/attention.h"

namespace paceline {
namespace {

// A [T, heads, D] view of the spec's dtype with at least `tokens` rows.
Result<TokenTensor> check_tokens(const char* name, const TensorView& view, int64_t tokens,
                                 int heads, const AttentionSpec& spec) {
  if (tokens == 0 && !view.defined()) {
    return TokenTensor{};
  }
  if (!view.defined() || view.rank != 3 || view.dtype != spec.dtype || view.dim(0) < tokens ||
      view.dim(1) != heads || view.dim(2) != spec.head_size || view.stride(2) != 1) {
    return invalid_argument(
        "{} must be {}[at least {}, {}, {}] with a dense last dimension; it is {}", name,
        dtype_name(spec.dtype), tokens, heads, spec.head_size,
        view.defined() ? view.to_string() : "null");
  }
  return TokenTensor{view.data, view.stride(0), view.stride(1)};
}

class Backend final : public AttentionBackend {
 public:
  Backend(const AttentionSpec& spec, std::array<const AttentionKernel*, kNumPhases> kernels,
          const DeviceKernels& device_kernels, std::unique_ptr<MetadataBuilder> builder)
      : spec_(spec),
        kernels_(kernels),
        device_kernels_(device_kernels),
        builder_(std::move(builder)) {}

  const AttentionSpec& spec() const override { return spec_; }
  size_t workspace_bytes() const override { return builder_->workspace_bytes(); }

  std::string kernel_names() const override {
    std::string names;
    for (const AttentionKernel* kernel : kernels_) {
      names += fmt::format("{}{}: {}", names.empty() ? "" : ", ",
                           attention_phase_name(kernel->phase), kernel->name);
    }
    return names;
  }

  Result<AttentionMetadata> build(Stream& stream, const CommonAttentionMetadata& batch) override {
    return builder_->build(stream, batch);
  }

  Status update_kv_cache(Stream& stream, const TensorView& k, const TensorView& v,
                         const TensorView& slot_mapping, const KVCacheView& cache) override {
    if (slot_mapping.rank != 1 || slot_mapping.dtype != DType::kInt64 ||
        (slot_mapping.dim(0) > 1 && slot_mapping.stride(0) != 1)) {
      return invalid_argument("slot_mapping must be a dense int64 vector; it is {}",
                              slot_mapping.to_string());
    }
    CacheWriteParams params{};
    params.num_tokens = slot_mapping.dim(0);
    PACELINE_ASSIGN_OR_RETURN(params.k,
                              check_tokens("k", k, params.num_tokens, spec_.num_kv_heads, spec_));
    PACELINE_ASSIGN_OR_RETURN(params.v,
                              check_tokens("v", v, params.num_tokens, spec_.num_kv_heads, spec_));
    PACELINE_ASSIGN_OR_RETURN(params.cache, make_cache_params(cache, cache_shape()));
    params.slot_mapping = slot_mapping.ptr<const int64_t>();
    params.num_kv_heads = spec_.num_kv_heads;
    params.head_size = spec_.head_size;
    params.dtype = spec_.dtype;
    return device_kernels_.write_cache(stream, params);
  }

  Status forward(Stream& stream, const AttentionMetadata& metadata, const TensorView& q,
                 const TensorView& k, const TensorView& v, const KVCacheView& cache,
                 const TensorView& out) override {
    AttentionParams params{};
    const int64_t tokens = metadata.num_actual_tokens;
    PACELINE_ASSIGN_OR_RETURN(params.q, check_tokens("q", q, tokens, spec_.num_heads, spec_));
    PACELINE_ASSIGN_OR_RETURN(params.k, check_tokens("k", k, tokens, spec_.num_kv_heads, spec_));
    PACELINE_ASSIGN_OR_RETURN(params.v, check_tokens("v", v, tokens, spec_.num_kv_heads, spec_));
    PACELINE_ASSIGN_OR_RETURN(params.out, check_tokens("out", out, tokens, spec_.num_heads, spec_));
    PACELINE_ASSIGN_OR_RETURN(params.cache, make_cache_params(cache, cache_shape()));
    fill_common(metadata, params);
    const std::array<int, kNumPhases> counts{metadata.num_decodes, metadata.num_extends,
                                             metadata.num_prefills};
    for (size_t phase = 0; phase < counts.size(); ++phase) {
      params.num_reqs = counts[phase];
      if (params.num_reqs > 0) {
        PACELINE_RETURN_IF_ERROR(kernels_[phase]->launch(stream, params));
      }
      params.first_req += params.num_reqs;
    }
    return {};
  }

 private:
  KVCacheShape cache_shape() const {
    return {spec_.kv_cache_layout, spec_.kv_cache_dtype, 0,
            spec_.block_size,      spec_.num_kv_heads,   spec_.head_size};
  }

  void fill_common(const AttentionMetadata& metadata, AttentionParams& params) const {
    params.plan = builder_->plan();
    params.workspace = builder_->workspace();
    params.query_start_loc = metadata.query_start_loc.ptr<const int32_t>();
    params.seq_lens = metadata.seq_lens.ptr<const int32_t>();
    params.block_table = metadata.block_table.ptr<const int32_t>();
    params.block_table_stride = metadata.block_table.stride(0);
    params.num_heads = spec_.num_heads;
    params.num_kv_heads = spec_.num_kv_heads;
    params.head_size = spec_.head_size;
    params.tile_tokens = builder_->tile_tokens();
    params.scale = spec_.scale.value_or(1.0F / std::sqrt(static_cast<float>(spec_.head_size)));
    params.dtype = spec_.dtype;
  }

  AttentionSpec spec_;
  std::array<const AttentionKernel*, kNumPhases> kernels_;
  const DeviceKernels& device_kernels_;
  std::unique_ptr<MetadataBuilder> builder_;
};

}  // namespace

std::vector<std::string> AttentionBackend::why_not(DeviceKind device, const AttentionSpec& spec) {
  std::vector<std::string> reasons = why_invalid(spec);
  const std::vector<std::string> unsupported_features = why_unsupported(spec);
  reasons.insert(reasons.end(), unsupported_features.begin(), unsupported_features.end());
  if (!reasons.empty()) {
    return reasons;  // kernels' own reasons would only repeat these
  }
  for (int phase = 0; phase < kNumPhases; ++phase) {
    select_kernel(device, static_cast<AttentionPhase>(phase), spec, &reasons);
  }
  return reasons;
}

Result<std::unique_ptr<AttentionBackend>> AttentionBackend::create(Device& device,
                                                                   const AttentionSpec& spec,
                                                                   const AttentionLimits& limits) {
  if (const std::vector<std::string> reasons = why_invalid(spec); !reasons.empty()) {
    return invalid_argument("attention spec: {}", fmt::join(reasons, "; "));
  }
  if (const std::vector<std::string> reasons = why_not(device.kind(), spec); !reasons.empty()) {
    return unsupported("attention on {}: {}", device.info().name, fmt::join(reasons, "; "));
  }
  std::array<const AttentionKernel*, kNumPhases> kernels{};
  for (size_t phase = 0; phase < kernels.size(); ++phase) {
    kernels[phase] =
        select_kernel(device.kind(), static_cast<AttentionPhase>(phase), spec, nullptr);
  }
  PACELINE_ASSIGN_OR_RETURN(std::unique_ptr<MetadataBuilder> builder,
                            MetadataBuilder::create(device, spec, limits));
  const DeviceKernels& device_kernels = *find_device_kernels(device.kind());
  return std::unique_ptr<AttentionBackend>(
      std::make_unique<Backend>(spec, kernels, device_kernels, std::move(builder)));
}

}  // namespace paceline
