// Which instruction set the SIMD kernels use on this machine.
#pragma once

#include <string>
#include <vector>

namespace paceline::cpu {

// Highway's name of the target that run-time dispatch picks, e.g. "AVX2", "AVX3", "NEON".
const char* simd_target_name();

// The targets that were compiled and that this machine can run, the fastest first.
std::vector<std::string> simd_targets();

// For tests: from now on dispatch picks this target, or again the fastest when `name` is empty.
// Returns false, and changes nothing, when it cannot run here. Not to be called while kernels run.
bool force_simd_target(const std::string& name);

}  // namespace paceline::cpu
