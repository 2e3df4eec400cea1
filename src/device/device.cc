#include "paceline/device.h"

#include <memory>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "device/cpu/cpu_device.h"

namespace paceline {

const char* device_kind_name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kCuda:
      return "cuda";
    case DeviceKind::kHip:
      return "hip";
  }
  return "unknown";
}

namespace {

// apply(a.field, b.field) for every counter.
template <typename Apply>
void for_each_counter(DeviceCounters& a, const DeviceCounters& b, const Apply& apply) {
  apply(a.waits, b.waits);
  apply(a.result_waits, b.result_waits);
  apply(a.d2h_copies, b.d2h_copies);
  apply(a.h2d_copies, b.h2d_copies);
  apply(a.allocations, b.allocations);
  apply(a.allocated_bytes, b.allocated_bytes);
  apply(a.launches, b.launches);
  apply(a.graph_launches, b.graph_launches);
}

}  // namespace

DeviceCounters operator-(const DeviceCounters& after, const DeviceCounters& before) {
  DeviceCounters difference = after;
  for_each_counter(difference, before, [](uint64_t& a, uint64_t b) { a -= b; });
  return difference;
}

DeviceCounters& operator+=(DeviceCounters& sum, const DeviceCounters& more) {
  for_each_counter(sum, more, [](uint64_t& a, uint64_t b) { a += b; });
  return sum;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    reset();
    device_ = std::exchange(other.device_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    kind_ = other.kind_;
  }
  return *this;
}

void Buffer::reset() {
  if (data_ != nullptr) {
    device_->deallocate(data_, bytes_, kind_);
  }
  data_ = nullptr;
  bytes_ = 0;
}

Result<std::unique_ptr<Device>> create_device(std::string_view name, const DeviceOptions& options) {
  if (name == "cpu") {
    PACELINE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, cpu::CpuDevice::create(options));
    return device;
  }
  return not_found("unknown device '{}'; this build has: cpu", name);
}

}  // namespace paceline
