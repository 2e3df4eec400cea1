#include "device/cpu/cpu_device.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "base/errors.h"
#include "device/cpu/cpu_sync.h"
#include "device/cpu/simd_target.h"

namespace paceline::cpu {
namespace {

constexpr int kMaxThreads = 1024;
constexpr size_t kAlignment = 64;

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    return std::max(1, CPU_COUNT(&set));
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// The machine's memory: more is not promised, although the system might, until it is used.
size_t physical_memory() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Result<std::unique_ptr<CpuDevice>> CpuDevice::create(const DeviceOptions& options) {
  if (options.num_threads < 0 || options.num_threads > kMaxThreads) {
    return invalid_argument("cpu device: {} threads asked; possible are 1 to {}, or 0 for all",
                            options.num_threads, kMaxThreads);
  }
  const int threads = options.num_threads == 0 ? available_processors() : options.num_threads;
  return std::unique_ptr<CpuDevice>(new CpuDevice(threads));
}

CpuDevice::CpuDevice(int num_threads) : team_(num_threads) {
  info_.kind = DeviceKind::kCpu;
  info_.compute_units = num_threads;
  info_.memory_bytes = physical_memory();
  info_.name = fmt::format("cpu ({} thread{}, {})", num_threads, num_threads == 1 ? "" : "s",
                           simd_target_name());
}

Result<Buffer> CpuDevice::allocate(size_t bytes, MemoryKind kind) {
  const size_t total = info_.memory_bytes;
  const size_t live = live_bytes_.load(std::memory_order_relaxed);
  // At least one unit, so that an empty buffer has an address too.
  const size_t rounded = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  void* data =
      bytes > total - std::min(live, total) ? nullptr : std::aligned_alloc(kAlignment, rounded);
  if (data == nullptr) {
    return resource_exhausted("cpu device: cannot allocate {} bytes; {} of {} are in use here",
                              bytes, live, total);
  }
  live_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  counters_.allocations.fetch_add(1, std::memory_order_relaxed);
  counters_.allocated_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return Buffer(this, data, bytes, kind);
}

void CpuDevice::deallocate(void* data, size_t bytes, MemoryKind /*kind*/) {
  live_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  std::free(data);
}

Result<std::unique_ptr<Stream>> CpuDevice::create_stream() {
  return std::unique_ptr<Stream>(new CpuStream(*this));
}

Result<std::unique_ptr<Event>> CpuDevice::create_event() {
  return std::unique_ptr<Event>(new CpuEvent(*this));
}

Result<std::unique_ptr<Timeline>> CpuDevice::create_timeline() {
  return std::unique_ptr<Timeline>(new CpuTimeline(*this));
}

DeviceCounters CpuDevice::counters() const {
  DeviceCounters counters;
  counters.waits = counters_.waits.load(std::memory_order_relaxed);
  counters.result_waits = counters_.result_waits.load(std::memory_order_relaxed);
  counters.d2h_copies = counters_.d2h_copies.load(std::memory_order_relaxed);
  counters.h2d_copies = counters_.h2d_copies.load(std::memory_order_relaxed);
  counters.allocations = counters_.allocations.load(std::memory_order_relaxed);
  counters.allocated_bytes = counters_.allocated_bytes.load(std::memory_order_relaxed);
  counters.launches = counters_.launches.load(std::memory_order_relaxed);
  counters.graph_launches = counters_.graph_launches.load(std::memory_order_relaxed);
  return counters;
}

}  // namespace paceline::cpu
