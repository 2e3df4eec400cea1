// Devices, and the asynchronous work that runs on them.
//
// A Stream is an in-order queue. Every call that takes a Stream only enqueues: it returns before
// the device has done the work. The CPU is a device like the others: its streams are executed by
// worker threads, so that host code is asynchronous there too.
//
// The host learns that work is done in one of three ways:
//   Stream::synchronize, Event::synchronize
//       block the host until the device gets there. This is a *wait*.
//   Event::query
//       asks, and never blocks.
//   Timeline
//       a counter in host memory that a stream raises in order. The host reads it without asking
//       the device: results of a step that was launched earlier are collected so.
// Waits, copies from the device to the host and allocations are counted, so that tests can assert
// that a code path has none.
//
// Threads. A Device may be used from any thread. A Stream is used by one thread at a time; two
// streams run at the same time and know nothing of each other but through events. Event and
// Timeline may be read (query, value, wait) from any thread.
//
// Errors. A call that enqueues reports what it can see. What fails on the device later is returned
// by a later call on the same stream; the CPU device has no such faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "paceline/status.h"

namespace paceline {

enum class DeviceKind : uint8_t { kCpu, kCuda, kHip };
const char* device_kind_name(DeviceKind kind);  // "cpu", "cuda", "hip"

// Where a buffer lives. Pinned host memory can be read and written by the host and by the device.
enum class MemoryKind : uint8_t { kDevice, kPinnedHost };

enum class CopyKind : uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice };

// Monotonic counts since the device was created.
struct DeviceCounters {
  // The host blocked in Stream::synchronize or Event::synchronize, or because a stream's queue was
  // full: the CPU device's holds 4096 commands, far more than a step.
  uint64_t waits = 0;
  // The host blocked in Timeline::wait, for results of work launched earlier.
  uint64_t result_waits = 0;
  uint64_t d2h_copies = 0;
  uint64_t h2d_copies = 0;
  uint64_t allocations = 0;  // buffers, of either memory kind
  uint64_t allocated_bytes = 0;
  uint64_t launches = 0;  // kernels, outside of graphs
  uint64_t graph_launches = 0;
};
// The events between two readings: `after - before`, field by field.
DeviceCounters operator-(const DeviceCounters& after, const DeviceCounters& before);
DeviceCounters& operator+=(DeviceCounters& sum, const DeviceCounters& more);

struct DeviceInfo {
  DeviceKind kind = DeviceKind::kCpu;
  std::string name;         // e.g. "cpu (2 threads, AVX2)"
  int compute_units = 1;    // worker threads, SMs or CUs: how many blocks of work run at once
  size_t memory_bytes = 0;  // of the device in all; of the machine, for the CPU
};

class Device;

// Owns device or pinned memory; move-only, and empty when default-made or moved from (data() is
// null). Frees it when destroyed: the owner makes sure that no queued work still uses it. Contents
// are undefined until written. Only a Device makes one that holds memory.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device* device, void* data, size_t bytes, MemoryKind kind)
      : device_(device), data_(data), bytes_(bytes), kind_(kind) {}
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  MemoryKind kind() const { return kind_; }
  void reset();

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  MemoryKind kind_ = MemoryKind::kDevice;
};

// A point in a stream's work. May be recorded again; it then stands for the newest point.
class Event {
 public:
  virtual ~Event() = default;
  // True when the newest recorded point has been reached, or nothing was ever recorded.
  virtual bool query() const = 0;
  // Blocks the host until query() is true. Counted as a wait.
  virtual Status synchronize() = 0;
};

// A 64-bit value in host memory that streams raise in order (see Stream::signal).
class Timeline {
 public:
  virtual ~Timeline() = default;
  virtual uint64_t value() const = 0;
  // Returns at once when value() >= target; else blocks the host, counted in result_waits.
  virtual void wait(uint64_t target) = 0;
};

// Recorded work that can be launched any number of times. It holds the pointers and sizes it was
// recorded with; what changes between launches is read from device memory.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual size_t num_nodes() const = 0;
};

class Stream {
 public:
  // Runs what is queued to its end first, and blocks until then; not counted as a wait.
  virtual ~Stream() = default;
  virtual Device& device() = 0;

  // Copies `bytes` between memories that do not overlap. Host memory must be pinned and stay
  // untouched until the copy has run. kInvalidArgument for null, unless there are no bytes.
  virtual Status copy(void* dst, const void* src, size_t bytes, CopyKind kind) = 0;
  virtual Status fill(void* dst, uint8_t value, size_t bytes) = 0;

  virtual Status record(Event& event) = 0;
  // Later work of this stream runs after `event`'s newest point; the host does not block.
  virtual Status wait(Event& event) = 0;
  // When all earlier work of this stream is done, raises `timeline` to `value`.
  virtual Status signal(Timeline& timeline, uint64_t value) = 0;
  // Blocks the host until all work enqueued so far is done. Counted as a wait.
  virtual Status synchronize() = 0;

  // Between begin_capture and end_capture, work is recorded and not run. Events, timelines and
  // synchronize are refused meanwhile with kFailedPrecondition.
  virtual Status begin_capture() = 0;
  virtual Result<std::shared_ptr<Graph>> end_capture() = 0;
  virtual bool capturing() const = 0;
  // Enqueues one run of the graph, with one host call; the stream keeps it alive until it has run.
  // A graph runs on any stream of its device, but never twice at the same time.
  virtual Status launch(const std::shared_ptr<Graph>& graph) = 0;
};

// Thread-safe. Must outlive everything made from it.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  DeviceKind kind() const { return info().kind; }

  // At least 64-byte aligned. kResourceExhausted, with the size asked, when there is not enough.
  virtual Result<Buffer> allocate(size_t bytes, MemoryKind kind = MemoryKind::kDevice) = 0;
  virtual Result<std::unique_ptr<Stream>> create_stream() = 0;
  virtual Result<std::unique_ptr<Event>> create_event() = 0;
  virtual Result<std::unique_ptr<Timeline>> create_timeline() = 0;
  virtual DeviceCounters counters() const = 0;

 protected:
  friend class Buffer;
  virtual void deallocate(void* data, size_t bytes, MemoryKind kind) = 0;
};

struct DeviceOptions {
  // CPU only: threads that execute kernels. 0 means one for each processor this process may run on.
  int num_threads = 0;
};

// Opens a device by name: "cpu". kNotFound with the names this build knows for anything else.
Result<std::unique_ptr<Device>> create_device(std::string_view name,
                                              const DeviceOptions& options = {});

}  // namespace paceline
