// Conformance cases as text. A line is a case, or many:
//
//   # comment
//   windows  heads=8/2 head_size=64 kv={float16,fp8_e4m3} window={1,128} rows=1@37+40@256+19@19
//
// First a name, then fields key=value in any order. A value in braces stands for each of its
// alternatives; a line with several gives every combination, each named after its choices. Fields
// that are left out have the values of parse_cases's table, which docs/CONFORMANCE.md repeats.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/attention.h"

namespace paceline {

struct CaseRow {
  int32_t query_len;
  int32_t seq_len;
};

struct Case {
  std::string name;  // with the choices that were made
  AttentionSpec spec;
  std::vector<CaseRow> rows;  // in any order: the batch lists decodes, extends, prefills
  float k_scale = 1.0F;
  float v_scale = 1.0F;
  float spread = 1.0F;    // standard deviation of q, k and v
  int layer_window = -1;  // -1: the spec's
  int common_prefix_len = 0;
  int64_t num_blocks = 0;  // 0: what the rows need, and as many again
  bool kv_sharing = false;
  uint32_t seed = 1;
};

// kInvalidArgument, with file and line, for what cannot be read.
Result<std::vector<Case>> parse_cases(std::string_view text, std::string_view file);

}  // namespace paceline
