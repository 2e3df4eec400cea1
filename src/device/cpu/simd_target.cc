#include "device/cpu/simd_target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/simd_target.cc"
#include <hwy/foreach_target.h>
// The target loop comes first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace paceline::cpu::HWY_NAMESPACE {
namespace {
const char* name() { return hwy::TargetName(HWY_TARGET); }
}  // namespace
}  // namespace paceline::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::cpu {
namespace {
HWY_EXPORT(name);
}  // namespace

const char* simd_target_name() { return HWY_DYNAMIC_DISPATCH(name)(); }

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

bool force_simd_target(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  bool found = name.empty();
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) {
      hwy::SetSupportedTargetsForTest(target);
      found = true;
    }
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return found;
}

}  // namespace paceline::cpu
#endif
