#include "device/cpu/worker_team.h"

#include <new>

namespace paceline::cpu {
namespace {

// About 20 us on a 3 GHz core: longer than the gap between two kernels of a step, shorter than what
// a waiting thread may fairly take from others.
constexpr int kSpins = 1500;

}  // namespace

void ScratchDeleter::operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }

Scratch make_scratch() {
  return Scratch(
      static_cast<std::byte*>(::operator new (TaskContext::kScratchBytes, std::align_val_t{64})));
}

WorkerTeam::WorkerTeam(int num_threads) {
  for (int worker = 1; worker < num_threads; ++worker) {
    helpers_.emplace_back([this, worker] { helper_main(worker); });
  }
}

WorkerTeam::~WorkerTeam() {
  stop_.store(true, std::memory_order_release);
  wake_.fetch_add(1, std::memory_order_seq_cst);
  wake_.notify_all();
  for (std::thread& helper : helpers_) {
    helper.join();
  }
}

void WorkerTeam::work(int worker, std::byte* scratch) {
  const Job job = job_;
  for (;;) {
    const int64_t task = next_task_.fetch_add(1, std::memory_order_relaxed);
    if (task >= job.num_tasks) {
      return;
    }
    job.kernel(job.params, TaskContext{task, job.num_tasks, worker, scratch});
  }
}

bool WorkerTeam::try_enter(uint64_t& seen, int worker, std::byte* scratch) {
  uint64_t gate = gate_.load(std::memory_order_acquire);
  while ((gate & kClosed) == 0 && (gate >> 32) != seen) {
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire)) {
      seen = gate >> 32;
      work(worker, scratch);
      gate_.fetch_sub(1, std::memory_order_release);
      return true;
    }
  }
  return false;
}

void WorkerTeam::helper_main(int worker) {
  const Scratch scratch = make_scratch();
  uint64_t seen = 0;
  int spins = 0;
  while (!stop_.load(std::memory_order_acquire)) {
    const uint32_t ticket = wake_.load(std::memory_order_seq_cst);
    if (try_enter(seen, worker, scratch.get())) {
      spins = 0;
    } else if (++spins < kSpins) {
      spin_pause();
    } else {
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(ticket, std::memory_order_seq_cst);
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
      spins = 0;
    }
  }
}

void WorkerTeam::run(KernelFn kernel, const void* params, int64_t num_tasks,
                     std::byte* leader_scratch) {
  std::unique_lock<std::mutex> lock(launch_mutex_, std::defer_lock);
  if (helpers_.empty() || num_tasks <= 1 || !lock.try_lock()) {
    for (int64_t task = 0; task < num_tasks; ++task) {
      kernel(params, TaskContext{task, num_tasks, 0, leader_scratch});
    }
    return;
  }
  // The gate is closed and empty here, so nobody reads the job while it changes.
  job_ = {kernel, params, num_tasks};
  next_task_.store(0, std::memory_order_relaxed);
  const uint64_t launch = (gate_.load(std::memory_order_relaxed) >> 32) + 1;
  gate_.store((launch & 0xFFFFFFFFU) << 32, std::memory_order_release);
  wake_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    wake_.notify_all();
  }
  work(0, leader_scratch);
  gate_.fetch_or(kClosed, std::memory_order_acq_rel);
  while ((gate_.load(std::memory_order_acquire) & kCountMask) != 0) {
    spin_pause();
  }
}

}  // namespace paceline::cpu
