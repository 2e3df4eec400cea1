// Which instruction set the SIMD kernels use on this machine.
#pragma once

namespace paceline::cpu {

// Highway's name of the target that run-time dispatch picks, e.g. "AVX2", "AVX3", "NEON".
const char* simd_target_name();

}  // namespace paceline::cpu
