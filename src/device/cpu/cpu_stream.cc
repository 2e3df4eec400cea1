#include <cstring>

#include "base/errors.h"
#include "base/status_macros.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/cpu_sync.h"

namespace paceline::cpu {
namespace {

// Spins of an idle leader before it sleeps: about 20 us, see worker_team.cc.
constexpr int kLeaderSpins = 1500;

struct CopyParams {
  void* dst;
  const void* src;
  size_t bytes;
};

struct FillParams {
  void* dst;
  size_t bytes;
  uint8_t value;
};

struct PointParams {
  CpuEvent* event;
  uint64_t point;
};

struct SignalParams {
  CpuTimeline* timeline;
  uint64_t value;
};

}  // namespace

CpuStream::CpuStream(CpuDevice& device)
    : device_(device), scratch_(make_scratch()), queue_(kQueueLength) {
  leader_ = std::thread([this] { leader_main(); });
}

CpuStream::~CpuStream() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_.store(true, std::memory_order_release);
    work_ready_.notify_all();
  }
  leader_.join();  // the leader drains the queue first
}

Status CpuStream::enqueue(KernelFn kernel, int64_t num_tasks, const void* params,
                          size_t param_bytes) {
  if (capture_ != nullptr) {
    Command& command = capture_->commands.emplace_back();
    command.kernel = kernel;
    command.num_tasks = num_tasks;
    std::memcpy(command.params.data(), params, param_bytes);
    return {};
  }
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t index = enqueued_.load(std::memory_order_relaxed);
  if (index - completed_.load(std::memory_order_acquire) >= kQueueLength) {
    device_.atomic_counters().waits.fetch_add(1, std::memory_order_relaxed);
    host_sleeps_ = true;
    space_ready_.wait(
        lock, [&] { return index - completed_.load(std::memory_order_acquire) < kQueueLength; });
    host_sleeps_ = false;
  }
  Command& command = queue_[index % kQueueLength];
  command.kernel = kernel;
  command.num_tasks = num_tasks;
  std::memcpy(command.params.data(), params, param_bytes);
  enqueued_.store(index + 1, std::memory_order_release);
  if (leader_sleeps_) {
    work_ready_.notify_one();
  }
  return {};
}

void CpuStream::leader_main() {
  int spins = 0;
  uint64_t index = 0;
  for (;;) {
    if (enqueued_.load(std::memory_order_acquire) > index) {
      execute(queue_[index % kQueueLength]);
      completed_.store(++index, std::memory_order_release);
      spins = 0;
      if ((index & 63U) == 0) {  // a host that waits for space is woken now and then
        const std::lock_guard<std::mutex> lock(mutex_);
        if (host_sleeps_) {
          space_ready_.notify_all();
        }
      }
    } else if (++spins < kLeaderSpins) {
      spin_pause();
    } else {
      std::unique_lock<std::mutex> lock(mutex_);
      if (host_sleeps_) {
        space_ready_.notify_all();
      }
      leader_sleeps_ = true;
      work_ready_.wait(lock, [&] {
        return enqueued_.load(std::memory_order_relaxed) > index ||
               stop_.load(std::memory_order_relaxed);
      });
      leader_sleeps_ = false;
      spins = 0;
      if (enqueued_.load(std::memory_order_relaxed) == index) {
        return;  // stopped, and nothing is left
      }
    }
  }
}

void CpuStream::execute(const Command& command) {
  if (command.num_tasks == 1) {
    command.kernel(command.params.data(), TaskContext{0, 1, 0, scratch_.get()});
  } else {
    device_.team().run(command.kernel, command.params.data(), command.num_tasks, scratch_.get());
  }
}

Status CpuStream::copy(void* dst, const void* src, size_t bytes, CopyKind kind) {
  if (bytes > 0 && (dst == nullptr || src == nullptr)) {
    return invalid_argument("Stream::copy of {} bytes {} null", bytes,
                            dst == nullptr ? "to" : "from");
  }
  if (kind == CopyKind::kDeviceToHost) {
    device_.atomic_counters().d2h_copies.fetch_add(1, std::memory_order_relaxed);
  } else if (kind == CopyKind::kHostToDevice) {
    device_.atomic_counters().h2d_copies.fetch_add(1, std::memory_order_relaxed);
  }
  const CopyParams params{dst, src, bytes};
  return enqueue(
      [](const void* p, const TaskContext&) {
        const auto& copy = *static_cast<const CopyParams*>(p);
        if (copy.bytes > 0) {
          std::memcpy(copy.dst, copy.src, copy.bytes);
        }
      },
      1, &params, sizeof(params));
}

Status CpuStream::fill(void* dst, uint8_t value, size_t bytes) {
  if (bytes > 0 && dst == nullptr) {
    return invalid_argument("Stream::fill of {} bytes at null", bytes);
  }
  const FillParams params{dst, bytes, value};
  return enqueue(
      [](const void* p, const TaskContext&) {
        const auto& fill = *static_cast<const FillParams*>(p);
        if (fill.bytes > 0) {
          std::memset(fill.dst, fill.value, fill.bytes);
        }
      },
      1, &params, sizeof(params));
}

Status CpuStream::refuse_while_capturing(const char* call) const {
  if (capture_ != nullptr) {
    return failed_precondition("{} is not possible while a graph is being captured", call);
  }
  return {};
}

Status CpuStream::record(Event& event) {
  PACELINE_RETURN_IF_ERROR(refuse_while_capturing("Stream::record"));
  auto& cpu_event = static_cast<CpuEvent&>(event);
  const PointParams params{&cpu_event, cpu_event.new_point()};
  return enqueue(
      [](const void* p, const TaskContext&) {
        const auto& point = *static_cast<const PointParams*>(p);
        point.event->complete(point.point);
      },
      1, &params, sizeof(params));
}

Status CpuStream::wait(Event& event) {
  PACELINE_RETURN_IF_ERROR(refuse_while_capturing("Stream::wait"));
  auto& cpu_event = static_cast<CpuEvent&>(event);
  const PointParams params{&cpu_event, cpu_event.newest()};
  return enqueue(
      [](const void* p, const TaskContext&) {
        const auto& point = *static_cast<const PointParams*>(p);
        point.event->block_until(point.point);
      },
      1, &params, sizeof(params));
}

Status CpuStream::signal(Timeline& timeline, uint64_t value) {
  PACELINE_RETURN_IF_ERROR(refuse_while_capturing("Stream::signal"));
  const SignalParams params{static_cast<CpuTimeline*>(&timeline), value};
  return enqueue(
      [](const void* p, const TaskContext&) {
        const auto& signal = *static_cast<const SignalParams*>(p);
        signal.timeline->raise(signal.value);
      },
      1, &params, sizeof(params));
}

Status CpuStream::synchronize() {
  PACELINE_RETURN_IF_ERROR(refuse_while_capturing("Stream::synchronize"));
  // Shared with the command: the stream's thread may still be inside complete() when this returns.
  device_.atomic_counters().waits.fetch_add(1, std::memory_order_relaxed);
  struct Params {
    std::shared_ptr<CpuEvent>* event;  // owned by this command
  };
  const auto event = std::make_shared<CpuEvent>(device_);
  const uint64_t point = event->new_point();
  const Params params{new std::shared_ptr<CpuEvent>(event)};
  PACELINE_RETURN_IF_ERROR(enqueue(
      [](const void* p, const TaskContext&) {
        const auto& done = *static_cast<const Params*>(p);
        (*done.event)->complete(1);
        delete done.event;
      },
      1, &params, sizeof(params)));
  event->block_until(point);
  return {};
}

Status CpuStream::begin_capture() {
  PACELINE_RETURN_IF_ERROR(refuse_while_capturing("Stream::begin_capture"));
  capture_ = std::make_unique<CpuGraph>();
  return {};
}

Result<std::shared_ptr<Graph>> CpuStream::end_capture() {
  if (capture_ == nullptr) {
    return failed_precondition("Stream::end_capture without begin_capture");
  }
  return std::shared_ptr<Graph>(std::move(capture_));
}

Status CpuStream::launch(const std::shared_ptr<Graph>& graph) {
  PACELINE_RETURN_IF_ERROR(refuse_while_capturing("Stream::launch of a graph"));
  if (graph == nullptr) {
    return invalid_argument("Stream::launch: the graph is null");
  }
  device_.atomic_counters().graph_launches.fetch_add(1, std::memory_order_relaxed);
  struct Params {
    CpuStream* stream;
    std::shared_ptr<Graph>* graph;  // owned by this command
  };
  const Params params{this, new std::shared_ptr<Graph>(graph)};
  return enqueue(
      [](const void* p, const TaskContext&) {
        const auto& replay = *static_cast<const Params*>(p);
        for (const Command& command : static_cast<CpuGraph&>(**replay.graph).commands) {
          replay.stream->execute(command);
        }
        delete replay.graph;
      },
      1, &params, sizeof(params));
}

}  // namespace paceline::cpu
