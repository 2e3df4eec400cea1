#include "ops/ops.h"

#include "base/errors.h"
#include "ops/cpu/cpu_ops.h"

namespace paceline {

Result<std::unique_ptr<Ops>> Ops::create(Device& device) {
  if (device.kind() == DeviceKind::kCpu) {
    return std::unique_ptr<Ops>(new cpu::CpuOps());
  }
  return unsupported("no operators for device {}; possible is cpu", device.info().name);
}

}  // namespace paceline
