#include "kv/layout.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"

namespace paceline {

namespace {

// Whether the keys or values of a shape of positive dimensions are beyond 2^62 bytes.
bool bytes_overflow(const KVCacheShape& shape) {
  int64_t left = (int64_t{1} << 62) / static_cast<int64_t>(dtype_size(shape.dtype));
  for (const int64_t factor :
       {shape.num_blocks, int64_t{shape.block_size}, int64_t{shape.num_kv_heads},
        int64_t{std::max(shape.head_size, shape.value_size())}}) {
    left /= factor;
  }
  return left == 0;
}

}  // namespace

const char* kv_cache_layout_name(KVCacheLayout layout) {
  return layout == KVCacheLayout::kNHD ? "NHD" : "SHUFFLE";
}

Result<KVCacheLayout> parse_kv_cache_layout(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (upper == "NHD") {
    return KVCacheLayout::kNHD;
  }
  if (upper == "SHUFFLE") {
    return KVCacheLayout::kShuffle;
  }
  return invalid_argument("unknown KV cache layout '{}'; possible are NHD, SHUFFLE", name);
}

const char* kv_scale_kind_name(KVScaleKind kind) {
  switch (kind) {
    case KVScaleKind::kPerTensor:
      return "per_tensor";
    case KVScaleKind::kPerHead:
      return "per_head";
    case KVScaleKind::kPerTokenHead:
      return "per_token_head";
  }
  return "unknown";
}

Result<KVScaleKind> parse_kv_scale_kind(std::string_view name) {
  for (const KVScaleKind kind :
       {KVScaleKind::kPerTensor, KVScaleKind::kPerHead, KVScaleKind::kPerTokenHead}) {
    if (name == kv_scale_kind_name(kind)) {
      return kind;
    }
  }
  return invalid_argument(
      "unknown kind of KV scale '{}'; possible are per_tensor, per_head, per_token_head", name);
}

Status validate_kv_cache_shape(const KVCacheShape& shape) {
  std::vector<std::string> reasons;
  const auto need_positive = [&](const char* name, int64_t value) {
    if (value <= 0) {
      reasons.push_back(fmt::format("{} is {}; it must be positive", name, value));
    }
  };
  need_positive("num_blocks", shape.num_blocks);
  need_positive("block_size", shape.block_size);
  need_positive("num_kv_heads", shape.num_kv_heads);
  need_positive("head_size", shape.head_size);
  need_positive("head_size_v", shape.value_size());
  if (reasons.empty() && bytes_overflow(shape)) {
    reasons.push_back(fmt::format("{} blocks of {} x {} x {} elements are beyond 2^62 bytes",
                                  shape.num_blocks, shape.block_size, shape.num_kv_heads,
                                  shape.head_size));
  }
  if (!is_floating_point(shape.dtype) && shape.dtype != DType::kInt8) {
    reasons.push_back(
        fmt::format("dtype {} cannot be cached; possible are float32, float16, bfloat16, fp8_e4m3, "
                    "fp8_e4m3fnuz, fp8_e5m2, int8",
                    dtype_name(shape.dtype)));
  } else if (shape.layout == KVCacheLayout::kShuffle) {
    const auto need_multiple = [&](const char* name, int value) {
      if (value % shape.x() != 0) {
        reasons.push_back(fmt::format("SHUFFLE with {} needs {} to be a multiple of {}; it is {}",
                                      dtype_name(shape.dtype), name, shape.x(), value));
      }
    };
    need_multiple("head_size", shape.head_size);
    need_multiple("block_size", shape.block_size);
  }
  if (!reasons.empty()) {
    return invalid_argument("KV cache: {}", fmt::join(reasons, "; "));
  }
  return {};
}

Result<KVCacheView> make_kv_cache_view(const KVCacheShape& shape, void* key, void* value) {
  PACELINE_RETURN_IF_ERROR(validate_kv_cache_shape(shape));
  const int64_t nb = shape.num_blocks;
  const int64_t bs = shape.block_size;
  const int64_t heads = shape.num_kv_heads;
  const int64_t d = shape.head_size;
  const int64_t dv = shape.value_size();
  const int64_t x = shape.x();
  KVCacheView view;
  view.layout = shape.layout;
  if (shape.layout == KVCacheLayout::kNHD) {
    view.key = TensorView::contiguous(key, shape.dtype, {nb, bs, heads, d});
    view.value = TensorView::contiguous(value, shape.dtype, {nb, bs, heads, dv});
  } else {
    view.key = TensorView::contiguous(key, shape.dtype, {nb, heads, d / x, bs, x});
    view.value = TensorView::contiguous(value, shape.dtype, {nb, heads, bs / x, dv, x});
  }
  return view;
}

namespace {

Status check_view(const char* name, const TensorView& view, const TensorView& expected) {
  if (!view.defined()) {
    return invalid_argument("KV cache: {} is null", name);
  }
  bool same = view.rank == expected.rank && view.dtype == expected.dtype;
  for (int i = 1; same && i < view.rank; ++i) {
    same = view.dim(i) == expected.dim(i);
  }
  if (!same || view.dim(0) <= 0) {
    return invalid_argument("KV cache: {} is {}; expected {} with any number of blocks", name,
                            view.to_string(), expected.to_string());
  }
  if (view.stride(view.rank - 1) != 1) {
    return invalid_argument("KV cache: the innermost dimension of {} must be dense; it is {}", name,
                            view.to_string());
  }
  return {};
}

Status check_scale(const char* name, const KVScale& scale, KVScaleKind kind) {
  const bool blocks = scale.block_stride != 0 || scale.token_stride != 0;
  if (kind != KVScaleKind::kPerTensor && scale.data == nullptr) {
    return invalid_argument("KV cache: {} is null; {} scales need an array", name,
                            kv_scale_kind_name(kind));
  }
  if ((kind == KVScaleKind::kPerTensor && (blocks || scale.head_stride != 0)) ||
      (kind == KVScaleKind::kPerHead && blocks) ||
      (kind == KVScaleKind::kPerTokenHead && scale.token_stride == 0)) {
    return invalid_argument("KV cache: {} has strides [{}, {}, {}], which do not fit {} scales",
                            name, scale.block_stride, scale.head_stride, scale.token_stride,
                            kv_scale_kind_name(kind));
  }
  return {};
}

CacheStrides read_strides(const TensorView& view, KVCacheLayout layout) {
  if (layout == KVCacheLayout::kNHD) {
    return {view.stride(0), view.stride(2), view.stride(1), 0};
  }
  return {view.stride(0), view.stride(1), view.stride(3), view.stride(2)};
}

}  // namespace

Result<CacheParams> make_cache_params(const KVCacheView& view, const KVCacheShape& shape,
                                      KVScaleKind scales) {
  if (view.layout != shape.layout) {
    return invalid_argument("KV cache: the layout is {}; expected {}",
                            kv_cache_layout_name(view.layout), kv_cache_layout_name(shape.layout));
  }
  KVCacheShape one_block = shape;
  one_block.num_blocks = 1;
  PACELINE_ASSIGN_OR_RETURN(const KVCacheView expected,
                            make_kv_cache_view(one_block, nullptr, nullptr));
  PACELINE_RETURN_IF_ERROR(check_view("key", view.key, expected.key));
  PACELINE_RETURN_IF_ERROR(check_view("value", view.value, expected.value));
  if (view.key.dim(0) != view.value.dim(0)) {
    return invalid_argument("KV cache: key has {} blocks and value has {}", view.key.dim(0),
                            view.value.dim(0));
  }
  PACELINE_RETURN_IF_ERROR(check_scale("k_scale", view.k_scale, scales));
  PACELINE_RETURN_IF_ERROR(check_scale("v_scale", view.v_scale, scales));
  CacheParams params{};
  params.key = view.key.data;
  params.value = view.value.data;
  params.k_scale = view.k_scale;
  params.v_scale = view.v_scale;
  params.key_strides = read_strides(view.key, view.layout);
  params.value_strides = read_strides(view.value, view.layout);
  params.num_blocks = view.key.dim(0);
  params.block_size = shape.block_size;
  params.x = shape.x();
  params.layout = view.layout;
  params.scale_kind = scales;
  params.dtype = shape.dtype;
  return params;
}

}  // namespace paceline
