// The CPU as a device: in-order streams, each executed by a thread of its own with the help of the
// device's worker team; events, timelines and graphs.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "device/cpu/worker_team.h"
#include "paceline/device.h"

namespace paceline::cpu {

struct AtomicCounters {
  std::atomic<uint64_t> waits{0}, result_waits{0}, d2h_copies{0}, h2d_copies{0}, allocations{0},
      allocated_bytes{0}, launches{0}, graph_launches{0};
};

class CpuDevice final : public Device {
 public:
  static Result<std::unique_ptr<CpuDevice>> create(const DeviceOptions& options);

  const DeviceInfo& info() const override { return info_; }
  Result<Buffer> allocate(size_t bytes, MemoryKind kind) override;
  Result<std::unique_ptr<Stream>> create_stream() override;
  Result<std::unique_ptr<Event>> create_event() override;
  Result<std::unique_ptr<Timeline>> create_timeline() override;
  DeviceCounters counters() const override;

  WorkerTeam& team() { return team_; }
  AtomicCounters& atomic_counters() { return counters_; }

 private:
  explicit CpuDevice(int num_threads);
  void deallocate(void* data, size_t bytes, MemoryKind kind) override;

  DeviceInfo info_;
  AtomicCounters counters_;
  std::atomic<size_t> live_bytes_{0};
  WorkerTeam team_;
};

// One queued piece of work: a kernel and its arguments, held by value.
struct Command {
  static constexpr size_t kMaxParamBytes = 1008;

  KernelFn kernel = nullptr;
  int64_t num_tasks = 0;
  alignas(16) std::array<std::byte, kMaxParamBytes> params;
};

class CpuGraph final : public Graph {
 public:
  size_t num_nodes() const override { return commands.size(); }
  std::vector<Command> commands;
};

class CpuStream final : public Stream {
 public:
  explicit CpuStream(CpuDevice& device);
  ~CpuStream() override;

  Device& device() override { return device_; }
  Status copy(void* dst, const void* src, size_t bytes, CopyKind kind) override;
  Status fill(void* dst, uint8_t value, size_t bytes) override;
  Status record(Event& event) override;
  Status wait(Event& event) override;
  Status signal(Timeline& timeline, uint64_t value) override;
  Status synchronize() override;
  Status begin_capture() override;
  Result<std::shared_ptr<Graph>> end_capture() override;
  bool capturing() const override { return capture_ != nullptr; }
  Status launch(const std::shared_ptr<Graph>& graph) override;

  // Launches kernel(params, context) for context.task = 0 .. num_tasks-1.
  template <typename Params>
  Status launch(int64_t num_tasks, void (*kernel)(const Params&, const TaskContext&),
                const Params& params) {
    // The typed function pointer travels in front of its arguments.
    struct Packed {
      void (*kernel)(const Params&, const TaskContext&);
      Params params;
    };
    static_assert(std::is_trivially_copyable_v<Params> && sizeof(Packed) <= Command::kMaxParamBytes,
                  "kernel arguments are copied as bytes and must fit a command");
    static_assert(alignof(Packed) <= 16);
    const Packed packed{kernel, params};
    device_.atomic_counters().launches.fetch_add(1, std::memory_order_relaxed);
    return enqueue(
        [](const void* bytes, const TaskContext& context) {
          const auto& p = *static_cast<const Packed*>(bytes);
          p.kernel(p.params, context);
        },
        num_tasks, &packed, sizeof(packed));
  }

 private:
  Status enqueue(KernelFn kernel, int64_t num_tasks, const void* params, size_t param_bytes);
  Status refuse_while_capturing(const char* call) const;
  void leader_main();
  void execute(const Command& command);

  static constexpr uint64_t kQueueLength = 4096;

  CpuDevice& device_;
  Scratch scratch_;
  std::unique_ptr<CpuGraph> capture_;

  std::mutex mutex_;  // of producers; and of the sleeping consumer
  std::condition_variable work_ready_;
  std::condition_variable space_ready_;
  std::vector<Command> queue_;
  std::atomic<uint64_t> enqueued_{0};
  std::atomic<uint64_t> completed_{0};
  bool leader_sleeps_ = false;
  bool host_sleeps_ = false;
  std::atomic<bool> stop_{false};
  std::thread leader_;
};

// The stream as the CPU's own type; only for streams of a CPU device.
inline CpuStream& as_cpu(Stream& stream) { return static_cast<CpuStream&>(stream); }

}  // namespace paceline::cpu
