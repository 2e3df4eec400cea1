// Runs conformance cases on a device and says what came of each.
#pragma once

#include <string>
#include <vector>

#include "conformance/case_file.h"
#include "conformance/harness.h"

namespace paceline {

enum class Verdict : uint8_t { kPassed, kRefused, kFailed };

struct CaseResult {
  Verdict verdict = Verdict::kPassed;
  std::string reason;  // of a refusal or a failure
  double error = 0.0;  // against the oracle, of the output
  double allowed = 0.0;
};

// What is checked, each time over a poisoned cache and output:
//   - the error against the float64 oracle is at most twice that of the reference kernel, which
//     sums in plain float32 order, on the same rounded inputs, and one rounding of the output's
//     dtype; the error of the LSE likewise;
//   - the same bits again from a captured graph, on other blocks, padded with absent requests and
//     under loose bounds;
//   - the same bits from the NHD layout, where the case's is SHUFFLE;
//   - the same bits for each row alone.
// Refused: AttentionBackend::create says why. Anything else that is no success is a failure.
CaseResult run_case(Device& device, const Case& c);

}  // namespace paceline
