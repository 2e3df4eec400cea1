// Tensors, caches and attention.
#include <fmt/ranges.h>

#include <atomic>

#include "base/status_macros.h"
#include "capi/convert.h"
#include "capi/guard.h"
#include "capi/handles.h"

using namespace paceline;        // NOLINT(google-build-using-namespace)
using namespace paceline::capi;  // NOLINT(google-build-using-namespace)

namespace {

Status check_pair(const paceline_attention* attention, const paceline_stream* stream) {
  PACELINE_REQUIRE(attention, stream);
  if (attention->device != stream->device) {
    return invalid_argument("the attention is of another device than the stream");
  }
  return {};
}

}  // namespace

paceline_status paceline_tensor_contiguous(const void* data, int32_t dtype, int32_t rank,
                                           const int64_t* shape, paceline_tensor* out) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(out);
    if (rank < 0 || rank > TensorView::kMaxRank) {
      return invalid_argument("rank {}; 0 to {} are possible", rank, TensorView::kMaxRank);
    }
    if (rank > 0) {
      PACELINE_REQUIRE(shape);
    }
    PACELINE_RETURN_IF_ERROR(to_enum("dtype", dtype, DType::kUInt8).status());
    paceline_tensor tensor{};
    tensor.data = const_cast<void*>(data);
    tensor.dtype = dtype;
    tensor.rank = rank;
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; --i) {
      tensor.shape[i] = shape[i];
      tensor.strides[i] = stride;
      if (shape[i] < 0 || __builtin_mul_overflow(stride, shape[i], &stride)) {
        return invalid_argument(
            "dimension {} is {}; it must not be negative, nor the tensor beyond "
            "2^63 elements",
            i, shape[i]);
      }
    }
    *out = tensor;
    return {};
  });
}

paceline_status paceline_kv_cache_shape_init(paceline_kv_cache_shape* shape, size_t struct_size) {
  return guard(__func__, [&] {
    return init_struct("paceline_kv_cache_shape", shape, struct_size, default_cache_shape());
  });
}
paceline_status paceline_kv_cache_init(paceline_kv_cache* cache, size_t struct_size) {
  return guard(__func__, [&] {
    return init_struct("paceline_kv_cache", cache, struct_size, paceline_kv_cache{});
  });
}
paceline_status paceline_kv_cache_bytes(const paceline_kv_cache_shape* shape, int64_t* key_bytes,
                                        int64_t* value_bytes) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(shape, key_bytes, value_bytes);
    PACELINE_ASSIGN_OR_RETURN(const KVCacheShape checked, to_cache_shape(shape));
    *key_bytes = checked.key_bytes();
    *value_bytes = checked.value_bytes();
    return {};
  });
}
paceline_status paceline_kv_cache_make(const paceline_kv_cache_shape* shape, void* key, void* value,
                                       paceline_kv_cache* out) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(shape, key, value, out);
    PACELINE_ASSIGN_OR_RETURN(const KVCacheShape checked, to_cache_shape(shape));
    PACELINE_ASSIGN_OR_RETURN(const KVCacheView view, make_kv_cache_view(checked, key, value));
    paceline_kv_cache cache{};
    cache.layout = static_cast<int32_t>(view.layout);
    cache.key = from_view(view.key);
    cache.value = from_view(view.value);
    return write_struct("paceline_kv_cache", cache, out);
  });
}

paceline_status paceline_attention_spec_init(paceline_attention_spec* spec, size_t struct_size) {
  return guard(__func__, [&] {
    return init_struct("paceline_attention_spec", spec, struct_size, default_spec());
  });
}
paceline_status paceline_attention_limits_init(paceline_attention_limits* limits,
                                               size_t struct_size) {
  return guard(__func__, [&] {
    return init_struct("paceline_attention_limits", limits, struct_size,
                       paceline_attention_limits{});
  });
}
paceline_status paceline_attention_batch_init(paceline_attention_batch* batch, size_t struct_size) {
  return guard(__func__, [&] {
    return init_struct("paceline_attention_batch", batch, struct_size, paceline_attention_batch{});
  });
}
paceline_status paceline_attention_metadata_init(paceline_attention_metadata* metadata,
                                                 size_t struct_size) {
  return guard(__func__, [&] {
    return init_struct("paceline_attention_metadata", metadata, struct_size,
                       paceline_attention_metadata{});
  });
}
paceline_status paceline_attention_layer_init(paceline_attention_layer* layer, size_t struct_size) {
  return guard(__func__, [&] {
    return init_struct("paceline_attention_layer", layer, struct_size, default_layer());
  });
}

paceline_status paceline_attention_why_not(int32_t device_kind, const paceline_attention_spec* spec,
                                           const char** reasons) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(spec, reasons);
    PACELINE_ASSIGN_OR_RETURN(const DeviceKind kind,
                              to_enum("device_kind", device_kind, DeviceKind::kHip));
    PACELINE_ASSIGN_OR_RETURN(const AttentionSpec checked, to_spec(spec));
    thread_local std::string joined;
    joined = fmt::format("{}", fmt::join(AttentionBackend::why_not(kind, checked), "; "));
    *reasons = joined.c_str();
    return {};
  });
}

paceline_status paceline_attention_create(paceline_device* device,
                                          const paceline_attention_spec* spec,
                                          const paceline_attention_limits* limits,
                                          paceline_attention** out) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(device, spec, limits, out);
    PACELINE_ASSIGN_OR_RETURN(const AttentionSpec checked, to_spec(spec));
    PACELINE_ASSIGN_OR_RETURN(const AttentionLimits bounds, to_limits(limits));
    PACELINE_ASSIGN_OR_RETURN(std::unique_ptr<AttentionBackend> backend,
                              AttentionBackend::create(*device->device, checked, bounds));
    auto attention = std::make_unique<paceline_attention>();
    attention->device = device->device;
    attention->kernel_names = backend->kernel_names();
    attention->made = std::move(backend);
    *out = attention.release();
    return {};
  });
}
paceline_status paceline_attention_destroy(paceline_attention* attention) {
  return guard(__func__, [&]() -> Status {
    delete attention;
    return {};
  });
}
paceline_status paceline_attention_kernel_names(const paceline_attention* attention,
                                                const char** names) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(attention, names);
    *names = attention->kernel_names.c_str();
    return {};
  });
}
paceline_status paceline_attention_workspace_bytes(const paceline_attention* attention,
                                                   size_t* bytes) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(attention, bytes);
    *bytes = attention->made->workspace_bytes();
    return {};
  });
}

paceline_status paceline_attention_build(paceline_attention* attention, paceline_stream* stream,
                                         const paceline_attention_batch* batch,
                                         paceline_attention_metadata* metadata) {
  return guard(__func__, [&]() -> Status {
    PACELINE_RETURN_IF_ERROR(check_pair(attention, stream));
    PACELINE_REQUIRE(batch, metadata);
    PACELINE_RETURN_IF_ERROR(check_size<paceline_attention_metadata>("paceline_attention_metadata",
                                                                     metadata->struct_size));
    PACELINE_ASSIGN_OR_RETURN(const CommonAttentionMetadata checked, to_batch(batch));
    PACELINE_ASSIGN_OR_RETURN(const AttentionMetadata built,
                              attention->made->build(*stream->made, checked));
    static std::atomic<uint64_t> builds{0};  // of all handles: none takes another's metadata
    attention->metadata = built;
    attention->build_id = builds.fetch_add(1, std::memory_order_relaxed) + 1;
    paceline_attention_metadata values{};
    values.num_actual_tokens = built.num_actual_tokens;
    values.num_decodes = built.num_decodes;
    values.num_extends = built.num_extends;
    values.num_prefills = built.num_prefills;
    values.num_decode_tokens = built.num_decode_tokens;
    values.num_extend_tokens = built.num_extend_tokens;
    values.num_prefill_tokens = built.num_prefill_tokens;
    values.build_id = attention->build_id;
    return write_struct("paceline_attention_metadata", values, metadata);
  });
}

paceline_status paceline_attention_update_kv_cache(
    paceline_attention* attention, paceline_stream* stream, const paceline_tensor* k,
    const paceline_tensor* v, const paceline_tensor* slot_mapping, const paceline_kv_cache* cache) {
  return guard(__func__, [&]() -> Status {
    PACELINE_RETURN_IF_ERROR(check_pair(attention, stream));
    PACELINE_REQUIRE(k, v, slot_mapping, cache);
    PACELINE_ASSIGN_OR_RETURN(const TensorView k_view, to_view("k", k));
    PACELINE_ASSIGN_OR_RETURN(const TensorView v_view, to_view("v", v));
    PACELINE_ASSIGN_OR_RETURN(const TensorView slots, to_view("slot_mapping", slot_mapping));
    PACELINE_ASSIGN_OR_RETURN(const KVCacheView cache_view, to_cache(cache));
    return attention->made->update_kv_cache(*stream->made, k_view, v_view, slots, cache_view);
  });
}

paceline_status paceline_attention_forward(paceline_attention* attention, paceline_stream* stream,
                                           const paceline_attention_metadata* metadata,
                                           const paceline_attention_layer* layer,
                                           const paceline_tensor* q, const paceline_tensor* k,
                                           const paceline_tensor* v, const paceline_tensor* out,
                                           const paceline_tensor* lse) {
  return guard(__func__, [&]() -> Status {
    PACELINE_RETURN_IF_ERROR(check_pair(attention, stream));
    PACELINE_REQUIRE(metadata, layer, q, out);
    PACELINE_ASSIGN_OR_RETURN(
        const paceline_attention_metadata given,
        read_struct("paceline_attention_metadata", metadata, paceline_attention_metadata{}));
    if (given.build_id == 0 || given.build_id != attention->build_id) {
      return failed_precondition(
          "the metadata is of build {}; the newest build of this attention is {} (0: none)",
          given.build_id, attention->build_id);
    }
    PACELINE_ASSIGN_OR_RETURN(const AttentionLayer layer_view, to_layer(layer));
    PACELINE_ASSIGN_OR_RETURN(const TensorView q_view, to_view("q", q));
    PACELINE_ASSIGN_OR_RETURN(const TensorView k_view, to_view("k", k));
    PACELINE_ASSIGN_OR_RETURN(const TensorView v_view, to_view("v", v));
    PACELINE_ASSIGN_OR_RETURN(const TensorView out_view, to_view("out", out));
    PACELINE_ASSIGN_OR_RETURN(const TensorView lse_view, to_view("lse", lse));
    return attention->made->forward(*stream->made, attention->metadata, layer_view, q_view, k_view,
                                    v_view, out_view, lse_view);
  });
}
