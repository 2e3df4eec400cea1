// Devices, memory, streams and what streams order.
#include "base/status_macros.h"
#include "capi/convert.h"
#include "capi/guard.h"
#include "capi/handles.h"

namespace paceline::capi {
namespace {

// A new handle for what `device` made.
template <typename Handle, typename Made>
Status make_handle(const std::shared_ptr<Device>& device, Result<Made> made, Handle** out) {
  PACELINE_ASSIGN_OR_RETURN(auto value, std::move(made));
  *out = new Handle{{device, std::move(value)}};
  return {};
}

template <typename Handle>
Status same_device(const char* name, const paceline_stream* stream, const Handle* other) {
  if (stream->device == other->device) {
    return {};
  }
  return invalid_argument("the {} is of another device than the stream", name);
}

template <typename Handle>
paceline_status destroy(const char* function, Handle* handle) {
  return guard(function, [&]() -> Status {
    delete handle;
    return {};
  });
}

}  // namespace
}  // namespace paceline::capi

using namespace paceline;        // NOLINT(google-build-using-namespace)
using namespace paceline::capi;  // NOLINT(google-build-using-namespace)

paceline_status paceline_device_create(const char* name, int32_t num_threads,
                                       paceline_device** out) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(name, out);
    if (num_threads < 0) {
      return invalid_argument("num_threads is {}; it must not be negative", num_threads);
    }
    PACELINE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                              create_device(name, {.num_threads = num_threads}));
    *out = new paceline_device{std::move(device)};
    return {};
  });
}
paceline_status paceline_device_destroy(paceline_device* device) {
  return destroy(__func__, device);
}
paceline_status paceline_device_kind(const paceline_device* device, int32_t* kind) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(device, kind);
    *kind = static_cast<int32_t>(device->device->kind());
    return {};
  });
}
paceline_status paceline_device_name(const paceline_device* device, const char** name) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(device, name);
    *name = device->device->info().name.c_str();
    return {};
  });
}

paceline_status paceline_counters_init(paceline_counters* counters, size_t struct_size) {
  return guard(__func__, [&] {
    return init_struct("paceline_counters", counters, struct_size, paceline_counters{});
  });
}
paceline_status paceline_device_counters(const paceline_device* device,
                                         paceline_counters* counters) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(device, counters);
    const DeviceCounters now = device->device->counters();
    const paceline_counters values{0,
                                   now.waits,
                                   now.result_waits,
                                   now.d2h_copies,
                                   now.h2d_copies,
                                   now.allocations,
                                   now.allocated_bytes,
                                   now.launches,
                                   now.graph_launches};
    return write_struct("paceline_counters", values, counters);
  });
}

paceline_status paceline_buffer_create(paceline_device* device, size_t bytes, int32_t memory_kind,
                                       paceline_buffer** out) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(device, out);
    PACELINE_ASSIGN_OR_RETURN(const MemoryKind kind,
                              to_enum("memory_kind", memory_kind, MemoryKind::kPinnedHost));
    return make_handle(device->device, device->device->allocate(bytes, kind), out);
  });
}
paceline_status paceline_buffer_destroy(paceline_buffer* buffer) {
  return destroy(__func__, buffer);
}
paceline_status paceline_buffer_data(const paceline_buffer* buffer, void** data) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(buffer, data);
    *data = buffer->made.data();
    return {};
  });
}
paceline_status paceline_buffer_bytes(const paceline_buffer* buffer, size_t* bytes) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(buffer, bytes);
    *bytes = buffer->made.bytes();
    return {};
  });
}

paceline_status paceline_stream_create(paceline_device* device, paceline_stream** out) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(device, out);
    return make_handle(device->device, device->device->create_stream(), out);
  });
}
paceline_status paceline_stream_destroy(paceline_stream* stream) {
  return destroy(__func__, stream);
}
paceline_status paceline_stream_copy(paceline_stream* stream, void* dst, const void* src,
                                     size_t bytes, int32_t copy_kind) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(stream);
    PACELINE_ASSIGN_OR_RETURN(const CopyKind kind,
                              to_enum("copy_kind", copy_kind, CopyKind::kDeviceToDevice));
    return stream->made->copy(dst, src, bytes, kind);
  });
}
paceline_status paceline_stream_fill(paceline_stream* stream, void* dst, uint8_t value,
                                     size_t bytes) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(stream);
    return stream->made->fill(dst, value, bytes);
  });
}
paceline_status paceline_stream_synchronize(paceline_stream* stream) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(stream);
    return stream->made->synchronize();
  });
}
paceline_status paceline_stream_begin_capture(paceline_stream* stream) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(stream);
    return stream->made->begin_capture();
  });
}
paceline_status paceline_stream_end_capture(paceline_stream* stream, paceline_graph** out) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(stream, out);
    return make_handle(stream->device, stream->made->end_capture(), out);
  });
}
paceline_status paceline_stream_launch(paceline_stream* stream, paceline_graph* graph) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(stream, graph);
    PACELINE_RETURN_IF_ERROR(same_device("graph", stream, graph));
    return stream->made->launch(graph->made);
  });
}
paceline_status paceline_graph_destroy(paceline_graph* graph) { return destroy(__func__, graph); }
paceline_status paceline_graph_num_nodes(const paceline_graph* graph, size_t* num_nodes) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(graph, num_nodes);
    *num_nodes = graph->made->num_nodes();
    return {};
  });
}

paceline_status paceline_event_create(paceline_device* device, paceline_event** out) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(device, out);
    return make_handle(device->device, device->device->create_event(), out);
  });
}
paceline_status paceline_event_destroy(paceline_event* event) { return destroy(__func__, event); }
paceline_status paceline_event_query(const paceline_event* event, int32_t* reached) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(event, reached);
    *reached = event->made->query() ? 1 : 0;
    return {};
  });
}
paceline_status paceline_event_synchronize(paceline_event* event) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(event);
    return event->made->synchronize();
  });
}
paceline_status paceline_stream_record(paceline_stream* stream, paceline_event* event) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(stream, event);
    PACELINE_RETURN_IF_ERROR(same_device("event", stream, event));
    return stream->made->record(*event->made);
  });
}
paceline_status paceline_stream_wait(paceline_stream* stream, paceline_event* event) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(stream, event);
    PACELINE_RETURN_IF_ERROR(same_device("event", stream, event));
    return stream->made->wait(*event->made);
  });
}

paceline_status paceline_timeline_create(paceline_device* device, paceline_timeline** out) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(device, out);
    return make_handle(device->device, device->device->create_timeline(), out);
  });
}
paceline_status paceline_timeline_destroy(paceline_timeline* timeline) {
  return destroy(__func__, timeline);
}
paceline_status paceline_timeline_value(const paceline_timeline* timeline, uint64_t* value) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(timeline, value);
    *value = timeline->made->value();
    return {};
  });
}
paceline_status paceline_timeline_wait(paceline_timeline* timeline, uint64_t target) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(timeline);
    timeline->made->wait(target);
    return {};
  });
}
paceline_status paceline_stream_signal(paceline_stream* stream, paceline_timeline* timeline,
                                       uint64_t value) {
  return guard(__func__, [&]() -> Status {
    PACELINE_REQUIRE(stream, timeline);
    PACELINE_RETURN_IF_ERROR(same_device("timeline", stream, timeline));
    return stream->made->signal(*timeline->made, value);
  });
}
