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

DeviceCounters operator-(const DeviceCounters& after, const DeviceCounters& before) {
  DeviceCounters difference;
  difference.waits = after.waits - before.waits;
  difference.result_waits = after.result_waits - before.result_waits;
  difference.d2h_copies = after.d2h_copies - before.d2h_copies;
  difference.h2d_copies = after.h2d_copies - before.h2d_copies;
  difference.allocations = after.allocations - before.allocations;
  difference.allocated_bytes = after.allocated_bytes - before.allocated_bytes;
  difference.launches = after.launches - before.launches;
  difference.graph_launches = after.graph_launches - before.graph_launches;
  return difference;
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
