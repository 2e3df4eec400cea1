// A request, from its prompt to its last token.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace paceline {

struct SamplingParams {
  float temperature = 0.0F;  // 0: greedy
  float top_p = 1.0F;        // 0 < top_p <= 1
  uint64_t seed = 0;         // the same seed and prompt give the same tokens, in any batch
  int64_t max_tokens = 16;
  bool ignore_eos = false;
};

// kError: the model's logits were not numbers, as corrupt weights make them; no token came.
enum class FinishReason : uint8_t { kNone, kStop, kLength, kAborted, kError };
const char* finish_reason_name(FinishReason reason);  // "none", "stop", "length", "abort", "error"

// The scheduler's view of a request. Tokens are numbered from the start of the prompt.
//
// The host is a step behind: `output` holds what has been collected, and in_flight counts tokens
// that launched steps are still sampling. Their values are on the device, in `slot` of the engine's
// token array.
struct Request {
  uint64_t id = 0;
  std::vector<int32_t> prompt;
  SamplingParams sampling;

  std::vector<int32_t> output;
  int in_flight = 0;
  int64_t num_computed = 0;     // tokens whose KV is written once all launched steps have run
  std::vector<int32_t> blocks;  // of the KV cache, in order
  int32_t slot = -1;            // while running
  int num_preemptions = 0;
  FinishReason finished = FinishReason::kNone;

  int64_t num_known() const { return static_cast<int64_t>(prompt.size() + output.size()); }
  int64_t num_tokens() const { return num_known() + in_flight; }
  int64_t num_sampled() const { return static_cast<int64_t>(output.size()) + in_flight; }
  // Token i, for i < num_known().
  int32_t token(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return at < prompt.size() ? prompt[at] : output[at - prompt.size()];
  }
};

using RequestPtr = std::shared_ptr<Request>;

}  // namespace paceline
