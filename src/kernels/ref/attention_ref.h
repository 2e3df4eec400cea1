// The reference kernels: slow, obvious, and the last row of every dispatch table. They sum in
// float32 in plain order, and are the yardstick that other kernels' errors are compared with.
#pragma once

#include "attention/dispatch.h"

namespace paceline::ref {

std::vector<std::string> why_not(const AttentionSpec& spec);  // head sizes beyond its scratch
std::vector<std::string> why_not_extend(const AttentionSpec& spec);
Status launch_decode(Stream& stream, const AttentionParams& params);
Status launch_extend(Stream& stream, const AttentionParams& params);
Status launch_prefill(Stream& stream, const AttentionParams& params);

}  // namespace paceline::ref
