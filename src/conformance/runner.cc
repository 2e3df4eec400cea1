#include "conformance/runner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "attention/dispatch.h"
#include "base/errors.h"
#include "base/status_macros.h"

namespace paceline {
namespace {

// Sequences of a case; `rows` points into `sequences`.
struct Inputs {
  std::vector<Sequence> sequences;
  std::vector<Row> rows;
};

// The first `prefix` tokens of every sequence are the first one's.
void share_prefix(const Case& c, std::vector<Sequence>& sequences) {
  const auto copy = [&](std::vector<float> Sequence::*tensor, int64_t width) {
    for (size_t i = 1; i < sequences.size(); ++i) {
      std::copy_n((sequences[0].*tensor).begin(), c.common_prefix_len * width,
                  (sequences[i].*tensor).begin());
    }
  };
  const int value_size = cache_shape(c.spec, 1).value_size();
  copy(&Sequence::k, int64_t{c.spec.num_kv_heads} * c.spec.head_size);
  copy(&Sequence::v, int64_t{c.spec.num_kv_heads} * value_size);
}

Inputs make_inputs(const Case& c) {
  Inputs inputs;
  uint32_t seed = c.seed * 1000;
  for (const CaseRow& row : c.rows) {
    inputs.sequences.push_back(random_sequence(c.spec, row.seq_len, ++seed, c.spread));
  }
  if (c.common_prefix_len > 0) {
    share_prefix(c, inputs.sequences);
  }
  for (size_t i = 0; i < c.rows.size(); ++i) {
    Row row{&inputs.sequences[i], c.rows[i].query_len, c.rows[i].seq_len, {}};
    if (c.spec.tree_mask && row.query_len <= 64) {
      row.tree_mask = random_tree(row.query_len, ++seed);
    }
    inputs.rows.push_back(std::move(row));
  }
  inputs.rows = in_order(inputs.rows, c.spec.reorder_batch_threshold);
  return inputs;
}

HarnessOptions make_options(const Case& c) {
  HarnessOptions options;
  options.k_scale = c.k_scale;
  options.v_scale = c.v_scale;
  options.common_prefix_len = c.common_prefix_len;
  options.kv_sharing = c.kv_sharing;
  if (c.layer_window >= 0) {
    options.layer_window = c.layer_window;
  }
  int64_t blocks = 0;
  int tokens = 0;
  int64_t longest = 0;
  for (const CaseRow& row : c.rows) {
    blocks += (row.seq_len + c.spec.block_size - 1) / c.spec.block_size;
    tokens += row.query_len;
    longest = std::max<int64_t>(longest, row.seq_len);
  }
  options.num_blocks = c.num_blocks != 0 ? c.num_blocks : 2 * blocks;
  options.max_num_seqs = static_cast<int>(c.rows.size()) + 3;
  options.max_num_batched_tokens = tokens;
  options.max_model_len = longest + 300;
  return options;
}

// A unit in the last place of a value near 1 of the output's dtype, halved: one rounding.
double rounding(DType dtype) {
  return dtype == DType::kFloat32 ? 0x1p-24 : dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-8;
}

Status check_same(const char* what, const HarnessOutput& expected, size_t first_token,
                  const HarnessOutput& got, size_t tokens) {
  const size_t width = got.out.size() / tokens;
  const size_t heads = got.lse.size() / tokens;
  if (std::memcmp(expected.out.data() + first_token * width, got.out.data(),
                  got.out.size() * sizeof(float)) != 0) {
    return internal_error("other bits {}", what);
  }
  if (std::memcmp(expected.lse.data() + first_token * heads, got.lse.data(),
                  got.lse.size() * sizeof(float)) != 0) {
    return internal_error("another LSE {}", what);
  }
  return {};
}

Status check_errors(Device& device, const Case& c, const HarnessOptions& options,
                    const std::vector<Row>& rows, const HarnessOutput& output,
                    const Harness& harness, CaseResult& result) {
  Case plain = c;
  plain.spec.kernel = "ref";
  plain.spec.extend_strategy = ExtendStrategy::kInPlace;
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<Harness> ref,
                            Harness::create(device, plain.spec, options));
  PACELINE_ASSIGN_OR_RETURN(const HarnessOutput ref_output, ref->run(rows));
  const Errors plain_errors = errors(*ref, plain.spec, options, rows, ref_output);
  const Errors own = errors(harness, c.spec, options, rows, output);
  float largest = 1.0F;
  for (const float value : output.out) {
    largest = std::max(largest, std::abs(value));
  }
  result.error = own.out;
  result.allowed = 2 * plain_errors.out + rounding(c.spec.dtype) * double{largest};
  if (!(plain_errors.out <=
        1e-3 * double{largest} + 8 * rounding(c.spec.dtype) * double{largest})) {
    return internal_error("the reference kernel's own error is {}", plain_errors.out);
  }
  if (!(own.out <= result.allowed)) {
    return internal_error("error {} against the oracle; {} allowed", own.out, result.allowed);
  }
  const double lse_allowed = 2 * plain_errors.lse + 1e-5;
  if (!(own.lse <= lse_allowed)) {
    return internal_error("error {} of the LSE; {} allowed", own.lse, lse_allowed);
  }
  return {};
}

Status check_bits(Device& device, const Case& c, const HarnessOptions& options,
                  const std::vector<Row>& rows, const HarnessOutput& output) {
  HarnessOptions other = options;
  other.captured = true;
  other.padded_reqs = 3;
  other.seq_len_slack = 300;
  other.max_query_len = options.max_num_batched_tokens + 7;
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<Harness> harness,
                            Harness::create(device, c.spec, other));
  PACELINE_ASSIGN_OR_RETURN(const HarnessOutput again, harness->run(rows, 77));
  const size_t tokens = output.lse.size() / static_cast<size_t>(c.spec.num_heads);
  PACELINE_RETURN_IF_ERROR(
      check_same("from a captured graph, padded, on other blocks", output, 0, again, tokens));
  if (c.spec.kv_cache_layout == KVCacheLayout::kShuffle) {
    AttentionSpec nhd = c.spec;
    nhd.kv_cache_layout = KVCacheLayout::kNHD;
    PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<Harness> plain,
                              Harness::create(device, nhd, options));
    PACELINE_ASSIGN_OR_RETURN(const HarnessOutput unshuffled, plain->run(rows, 3));
    PACELINE_RETURN_IF_ERROR(check_same("from the NHD layout", output, 0, unshuffled, tokens));
  }
  HarnessOptions single = options;
  single.common_prefix_len = 0;
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<Harness> alone,
                            Harness::create(device, c.spec, single));
  size_t token = 0;
  for (size_t i = 0; i < std::min<size_t>(rows.size(), 12); ++i) {
    PACELINE_ASSIGN_OR_RETURN(const HarnessOutput row, alone->run({rows[i]}, 5));
    const auto query_len = static_cast<size_t>(rows[i].query_len);
    // A gathering workspace below a split cuts requests by how many there are.
    if (c.spec.extend_strategy == ExtendStrategy::kInPlace ||
        c.spec.extend_workspace_tokens >= 256) {
      PACELINE_RETURN_IF_ERROR(
          check_same(fmt::format("for row {} alone", i).c_str(), output, token, row, query_len));
    }
    token += query_len;
  }
  return {};
}

Status check(Device& device, const Case& c, CaseResult& result) {
  const Inputs inputs = make_inputs(c);
  const HarnessOptions options = make_options(c);
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<Harness> harness,
                            Harness::create(device, c.spec, options));
  PACELINE_ASSIGN_OR_RETURN(const HarnessOutput output, harness->run(inputs.rows));
  PACELINE_RETURN_IF_ERROR(check_errors(device, c, options, inputs.rows, output, *harness, result));
  return check_bits(device, c, options, inputs.rows, output);
}

}  // namespace

CaseResult run_case(Device& device, const Case& c) {
  CaseResult result;
  const std::vector<std::string> reasons = AttentionBackend::why_not(device.kind(), c.spec);
  if (!reasons.empty()) {
    result.verdict = Verdict::kRefused;
    result.reason = fmt::format("{}", fmt::join(reasons, "; "));
    return result;
  }
  if (const Status status = check(device, c, result); !status.ok()) {
    result.verdict = Verdict::kFailed;
    result.reason = status.message();
  }
  return result;
}

}  // namespace paceline
