// Random numbers without state: a function of a seed and a counter, so that a request's tokens do
// not depend on its batch. SplitMix64's finaliser (Steele, Lea, Flood: Fast Splittable Pseudorandom
// Number Generators, 2014) over both.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace paceline {

PACELINE_HOST_DEVICE constexpr uint64_t mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// Uniform in [0, 1), 53 bits.
PACELINE_HOST_DEVICE constexpr double random_uniform(uint64_t seed, uint64_t counter) {
  return static_cast<double>(mix64(mix64(seed) ^ mix64(~counter)) >> 11) * 0x1.0p-53;
}

}  // namespace paceline
