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

}  // namespace paceline::cpu
#endif
