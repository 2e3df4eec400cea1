// Events and timelines of the CPU device.
#pragma once

#include <atomic>
#include <cstdint>

#include "device/cpu/cpu_device.h"

namespace paceline::cpu {

class CpuEvent final : public Event {
 public:
  explicit CpuEvent(CpuDevice& device) : device_(device) {}

  bool query() const override { return reached(newest()); }
  Status synchronize() override {
    device_.atomic_counters().waits.fetch_add(1, std::memory_order_relaxed);
    block_until(newest());
    return {};
  }

  // Points are numbered from 1 in the order of recording.
  uint64_t new_point() { return recorded_.fetch_add(1, std::memory_order_relaxed) + 1; }
  uint64_t newest() const { return recorded_.load(std::memory_order_relaxed); }
  bool reached(uint64_t point) const { return completed_.load(std::memory_order_acquire) >= point; }
  void complete(uint64_t point) {
    uint64_t seen = completed_.load(std::memory_order_relaxed);
    while (seen < point &&
           !completed_.compare_exchange_weak(seen, point, std::memory_order_release)) {
    }
    completed_.notify_all();
  }
  void block_until(uint64_t point) const {
    for (uint64_t seen = completed_.load(std::memory_order_acquire); seen < point;
         seen = completed_.load(std::memory_order_acquire)) {
      completed_.wait(seen, std::memory_order_acquire);
    }
  }

 private:
  CpuDevice& device_;
  std::atomic<uint64_t> recorded_{0};
  std::atomic<uint64_t> completed_{0};
};

class CpuTimeline final : public Timeline {
 public:
  explicit CpuTimeline(CpuDevice& device) : device_(device) {}

  uint64_t value() const override { return value_.load(std::memory_order_acquire); }
  void wait(uint64_t target) override {
    uint64_t seen = value();
    if (seen >= target) {
      return;
    }
    device_.atomic_counters().result_waits.fetch_add(1, std::memory_order_relaxed);
    for (; seen < target; seen = value()) {
      value_.wait(seen, std::memory_order_acquire);
    }
  }
  void raise(uint64_t value) {
    value_.store(value, std::memory_order_release);
    value_.notify_all();
  }

 private:
  CpuDevice& device_;
  std::atomic<uint64_t> value_{0};
};

}  // namespace paceline::cpu
