// The threads that execute CPU kernels.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace paceline::cpu {

// What a kernel's task sees: which task it is, who runs it, and scratch memory of that worker's own
// (the CPU's shared memory: fixed size, contents undefined at the start of a task).
struct TaskContext {
  static constexpr size_t kScratchBytes = size_t{4} << 20;

  int64_t task = 0;
  int64_t num_tasks = 1;
  int worker = 0;
  std::byte* scratch = nullptr;  // kScratchBytes bytes, 64-byte aligned
};

// A kernel: runs task `context.task` of a launch whose arguments lie at `params`.
using KernelFn = void (*)(const void* params, const TaskContext& context);

// Runs the tasks of one kernel at a time on `num_threads` threads, the caller's among them.
//
// Helpers that are late (descheduled, asleep) are not waited for: a launch is over when its tasks
// are done and those helpers that did enter have left. Between launches a helper spins for a short
// while, then sleeps.
class WorkerTeam {
 public:
  explicit WorkerTeam(int num_threads);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  int num_threads() const { return static_cast<int>(helpers_.size()) + 1; }

  // Runs tasks 0 .. num_tasks-1, in no particular order, and returns when all are done. When
  // another thread's launch has the helpers, the caller does all of its tasks alone: results never
  // depend on that. `leader_scratch` is the calling stream's own scratch.
  void run(KernelFn kernel, const void* params, int64_t num_tasks, std::byte* leader_scratch);

 private:
  struct Job {
    KernelFn kernel = nullptr;
    const void* params = nullptr;
    int64_t num_tasks = 0;
  };

  void helper_main(int worker);
  // Enters the open launch unless it is closed or `seen`; then works until no task is left.
  bool try_enter(uint64_t& seen, int worker, std::byte* scratch);
  void work(int worker, std::byte* scratch);

  // gate_: launch number in the upper half, kClosed, and the count of helpers inside.
  static constexpr uint64_t kClosed = uint64_t{1} << 31;
  static constexpr uint64_t kCountMask = kClosed - 1;

  std::mutex launch_mutex_;
  Job job_;
  alignas(64) std::atomic<uint64_t> gate_{kClosed};
  alignas(64) std::atomic<int64_t> next_task_{0};
  alignas(64) std::atomic<uint32_t> wake_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> helpers_;
};

// Tells the processor that this is a spin loop.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Scratch of one worker; released with the holder.
struct ScratchDeleter {
  void operator()(std::byte* p) const;
};
using Scratch = std::unique_ptr<std::byte, ScratchDeleter>;
Scratch make_scratch();

}  // namespace paceline::cpu
