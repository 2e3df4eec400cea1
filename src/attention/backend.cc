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

// A [T, heads, size] view of the spec's dtype with at least `tokens` rows.
Result<TokenTensor> check_tokens(const char* name, const TensorView& view, int64_t tokens,
                                 int heads, int size, DType dtype) {
  if (tokens == 0 && !view.defined()) {
    return TokenTensor{};
  }
  if (!view.defined() || view.rank != 3 || view.dtype != dtype || view.dim(0) < tokens ||
      view.dim(1) != heads || view.dim(2) != size || view.stride(2) != 1) {
    return invalid_argument(
        "{} must be {}[at least {}, {}, {}] with a dense last dimension; it is {}", name,
        dtype_name(dtype), tokens, heads, size, view.defined() ? view.to_string() : "null");
  }
  return TokenTensor{view.data, view.stride(0), view.stride(1)};
}

Result<LseTensor> check_lse(const TensorView& view, int64_t tokens, int heads) {
  if (!view.defined()) {
    return LseTensor{};
  }
  if (view.rank != 2 || view.dtype != DType::kFloat32 || view.dim(0) < tokens ||
      view.dim(1) != heads) {
    return invalid_argument("lse must be float32[at least {}, {}]; it is {}", tokens, heads,
                            view.to_string());
  }
  return LseTensor{view.ptr<float>(), view.stride(0), view.stride(1)};
}

// What a layer may ask for is what the spec was checked with.
Status check_layer(const AttentionSpec& spec, const AttentionLayer& layer) {
  const auto fits = [](const char* name, bool asked, const float* given) -> Status {
    if (asked == (given != nullptr)) {
      return {};
    }
    return invalid_argument("the layer has {}{}; the spec asks for {}", asked ? "no " : "", name,
                            asked ? "them" : "none");
  };
  PACELINE_RETURN_IF_ERROR(fits("alibi_slopes", spec.alibi, layer.alibi_slopes));
  PACELINE_RETURN_IF_ERROR(fits("sinks", spec.sinks, layer.sinks));
  const int window = layer.sliding_window.value_or(spec.sliding_window);
  if (window < 0 || (window > 0 && spec.sliding_window == 0)) {
    return invalid_argument("the layer's sliding_window is {}; the spec's is {}: {}", window,
                            spec.sliding_window,
                            window < 0 ? "it must not be negative" : "no layer may have one");
  }
  return {};
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
    if (slot_mapping.dim(0) > 0 && !slot_mapping.defined()) {
      return invalid_argument("slot_mapping is null, for {} tokens", slot_mapping.dim(0));
    }
    CacheWriteParams params{};
    params.num_tokens = slot_mapping.dim(0);
    PACELINE_RETURN_IF_ERROR(check_kv(k, v, params.num_tokens, params.k, params.v));
    PACELINE_ASSIGN_OR_RETURN(params.cache,
                              make_cache_params(cache, cache_shape(spec_, 0), spec_.kv_scale));
    params.slot_mapping = slot_mapping.ptr<const int64_t>();
    params.num_kv_heads = spec_.num_kv_heads;
    params.head_size = spec_.head_size;
    params.head_size_v = value_size();
    params.dtype = spec_.dtype;
    return device_kernels_.write_cache(stream, params);
  }

  Status forward(Stream& stream, const AttentionMetadata& metadata, const AttentionLayer& layer,
                 const TensorView& q, const TensorView& k, const TensorView& v,
                 const TensorView& out, const TensorView& lse) override {
    PACELINE_RETURN_IF_ERROR(check_layer(spec_, layer));
    AttentionParams params{};
    const int64_t tokens = metadata.num_actual_tokens;
    const int heads = spec_.num_heads;
    PACELINE_ASSIGN_OR_RETURN(params.q,
                              check_tokens("q", q, tokens, heads, spec_.head_size, spec_.dtype));
    PACELINE_ASSIGN_OR_RETURN(params.out,
                              check_tokens("out", out, tokens, heads, value_size(), spec_.dtype));
    PACELINE_ASSIGN_OR_RETURN(params.lse, check_lse(lse, tokens, heads));
    if (!layer.kv_sharing) {
      PACELINE_RETURN_IF_ERROR(check_kv(k, v, tokens, params.k, params.v));
    }
    PACELINE_ASSIGN_OR_RETURN(
        params.cache, make_cache_params(layer.cache, cache_shape(spec_, 0), spec_.kv_scale));
    fill_batch(metadata, params);
    fill_layer(layer, params);
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
  int value_size() const { return cache_shape(spec_, 0).value_size(); }

  Status check_kv(const TensorView& k, const TensorView& v, int64_t tokens, TokenTensor& k_params,
                  TokenTensor& v_params) const {
    PACELINE_ASSIGN_OR_RETURN(
        k_params, check_tokens("k", k, tokens, spec_.num_kv_heads, spec_.head_size, spec_.dtype));
    PACELINE_ASSIGN_OR_RETURN(
        v_params, check_tokens("v", v, tokens, spec_.num_kv_heads, value_size(), spec_.dtype));
    return {};
  }

  void fill_batch(const AttentionMetadata& metadata, AttentionParams& params) const {
    params.plan = builder_->plan();
    params.workspace = builder_->workspace();
    params.gather = builder_->gather();
    params.query_start_loc = metadata.query_start_loc.ptr<const int32_t>();
    params.seq_lens = metadata.seq_lens.ptr<const int32_t>();
    params.block_table = metadata.block_table.ptr<const int32_t>();
    params.block_table_stride = metadata.block_table.stride(0);
    params.max_seq_len = metadata.max_extend_seq_len;
    params.masks.tree_mask = metadata.tree_mask.ptr<const int64_t>();
    params.num_heads = spec_.num_heads;
    params.num_kv_heads = spec_.num_kv_heads;
    params.head_size = spec_.head_size;
    params.head_size_v = value_size();
    params.tile_tokens = builder_->tile_tokens();
    params.scale = spec_.scale.value_or(1.0F / std::sqrt(static_cast<float>(spec_.head_size)));
    params.soft_cap = spec_.logits_soft_cap;
    params.dtype = spec_.dtype;
  }

  // The list of decodes made for the spec's masks leaves out splits that they hide: right for
  // layers that hide them too.
  void fill_layer(const AttentionLayer& layer, AttentionParams& params) const {
    params.masks.sliding_window = layer.sliding_window.value_or(spec_.sliding_window);
    params.masks.chunk_size = spec_.attention_chunk_size;
    params.masks.causal = spec_.causal;
    const bool window_fits =
        spec_.sliding_window == 0 ||
        (params.masks.sliding_window > 0 && params.masks.sliding_window <= spec_.sliding_window);
    params.windowed = (spec_.sliding_window > 0 || spec_.attention_chunk_size > 0) && window_fits;
    params.plan_masks = {nullptr, 0, 0, spec_.causal};
    if (params.windowed) {
      params.plan_masks.sliding_window = spec_.sliding_window;
      params.plan_masks.chunk_size = spec_.attention_chunk_size;
    }
    params.alibi_slopes = layer.alibi_slopes;
    params.sinks = layer.sinks;
    params.paged_prefill = layer.kv_sharing;
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
