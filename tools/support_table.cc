// Prints docs/SUPPORT.md: what each kernel serves, and why it refuses what it refuses, by asking
// the dispatch table. scripts/support-table writes the file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "attention/dispatch.h"

namespace paceline {
namespace {

using Reasons = std::vector<std::string>;

struct Case {
  std::string name;
  AttentionSpec spec;
};

AttentionSpec base_spec() {
  AttentionSpec spec;
  spec.num_heads = 32;
  spec.num_kv_heads = 8;
  spec.head_size = 128;
  spec.dtype = spec.kv_cache_dtype = DType::kBFloat16;
  return spec;
}

template <typename Change>
Case make_case(std::string name, const Change& change) {
  Case result{std::move(name), base_spec()};
  change(result.spec);
  return result;
}

std::vector<Case> feature_cases() {
  using S = AttentionSpec;
  return {
      make_case("causal", [](S&) {}),
      make_case("not causal", [](S& s) { s.causal = false; }),
      make_case("encoder", [](S& s) { s.attention_type = AttentionType::kEncoder; }),
      make_case("encoder-decoder", [](S& s) { s.attention_type = AttentionType::kEncoderDecoder; }),
      make_case("sliding window 4096", [](S& s) { s.sliding_window = 4096; }),
      make_case("chunked-local 8192", [](S& s) { s.attention_chunk_size = 8192; }),
      make_case("logits soft cap", [](S& s) { s.logits_soft_cap = 50.0F; }),
      make_case("ALiBi", [](S& s) { s.alibi = true; }),
      make_case("sinks", [](S& s) { s.sinks = true; }),
      make_case("tree mask", [](S& s) { s.tree_mask = true; }),
      make_case("tree mask, not causal",
                [](S& s) {
                  s.tree_mask = true;
                  s.causal = false;
                }),
      make_case("extends gathered", [](S& s) { s.extend_strategy = ExtendStrategy::kGather; }),
      make_case("decodes of 8 tokens", [](S& s) { s.reorder_batch_threshold = 8; }),
      make_case("queries float32", [](S& s) { s.dtype = DType::kFloat32; }),
      make_case("queries float16", [](S& s) { s.dtype = DType::kFloat16; }),
      make_case("MHA (32 KV heads)", [](S& s) { s.num_kv_heads = 32; }),
      make_case("MQA (1 KV head)", [](S& s) { s.num_kv_heads = 1; }),
      make_case("block of 1 token", [](S& s) { s.block_size = 1; }),
      make_case("block of 64 tokens", [](S& s) { s.block_size = 64; }),
  };
}

std::vector<Case> head_cases() {
  std::vector<Case> cases;
  for (const int size :
       {32, 36, 48, 64, 72, 80, 96, 112, 128, 160, 192, 256, 320, 512, 576, 1024}) {
    cases.push_back(
        make_case(fmt::format("{}", size), [&](AttentionSpec& s) { s.head_size = size; }));
  }
  for (const auto& sizes : {std::pair{192, 128}, {128, 64}, {128, 60}, {576, 512}}) {
    cases.push_back(
        make_case(fmt::format("{}, values {}", sizes.first, sizes.second), [&](AttentionSpec& s) {
          s.head_size = sizes.first;
          s.head_size_v = sizes.second;
        }));
  }
  return cases;
}

// The reasons met so far; a cell names them by number.
struct Notes {
  Reasons texts;

  std::string cell(const Reasons& reasons) {
    std::vector<std::string> numbers;
    for (const std::string& reason : reasons) {
      auto at = std::find(texts.begin(), texts.end(), reason);
      if (at == texts.end()) {
        at = texts.insert(texts.end(), reason);
      }
      numbers.push_back(fmt::format("[{}]", at - texts.begin() + 1));
    }
    return numbers.empty() ? "yes" : fmt::format("no {}", fmt::join(numbers, " "));
  }
  void print() const {
    for (size_t i = 0; i < texts.size(); ++i) {
      fmt::print("{}{}. {}\n", i == 0 ? "\n" : "", i + 1, texts[i]);
    }
  }
};

void print_header(const std::string& first, const std::vector<std::string>& columns) {
  fmt::print("\n| {} | {} |\n|---|", first, fmt::join(columns, " | "));
  for (size_t i = 0; i < columns.size(); ++i) {
    fmt::print("---|");
  }
  fmt::print("\n");
}

Reasons why_row_not(const AttentionKernel& kernel, const AttentionSpec& spec) {
  Reasons reasons = why_invalid(spec);
  const Reasons unsupported = why_unsupported(spec);
  reasons.insert(reasons.end(), unsupported.begin(), unsupported.end());
  return reasons.empty() ? kernel.why_not(spec) : reasons;
}

// One column for create(), which needs a row in every phase, and one for each row.
void print_rows(DeviceKind device, const char* first, const std::vector<Case>& cases) {
  std::vector<std::string> columns{"served"};
  for (const AttentionKernel& kernel : attention_kernels()) {
    if (kernel.device == device) {
      columns.push_back(fmt::format("{} {}", attention_phase_name(kernel.phase), kernel.name));
    }
  }
  print_header(first, columns);
  Notes notes;
  for (const Case& each : cases) {
    fmt::print("| {} | {} |", each.name,
               AttentionBackend::why_not(device, each.spec).empty() ? "**yes**" : "**no**");
    for (const AttentionKernel& kernel : attention_kernels()) {
      if (kernel.device == device) {
        fmt::print(" {} |", notes.cell(why_row_not(kernel, each.spec)));
      }
    }
    fmt::print("\n");
  }
  notes.print();
}

void print_caches(DeviceKind device) {
  const std::vector<KVScaleKind> kinds{KVScaleKind::kPerTensor, KVScaleKind::kPerHead,
                                       KVScaleKind::kPerTokenHead};
  std::vector<std::string> columns;
  columns.reserve(kinds.size());
  for (const KVScaleKind kind : kinds) {
    columns.emplace_back(kv_scale_kind_name(kind));
  }
  print_header("layout and dtype", columns);
  Notes notes;
  for (const KVCacheLayout layout : {KVCacheLayout::kNHD, KVCacheLayout::kShuffle}) {
    for (int code = 0; code <= static_cast<int>(DType::kUInt8); ++code) {
      AttentionSpec spec = base_spec();
      spec.kv_cache_layout = layout;
      spec.kv_cache_dtype = static_cast<DType>(code);
      fmt::print("| {} {} |", kv_cache_layout_name(layout), dtype_name(spec.kv_cache_dtype));
      for (const KVScaleKind kind : kinds) {
        spec.kv_scale = kind;
        fmt::print(" {} |", notes.cell(AttentionBackend::why_not(device, spec)));
      }
      fmt::print("\n");
    }
  }
  notes.print();
}

void print_device(DeviceKind device) {
  fmt::print("\n## {}\n", device_kind_name(device));
  const auto rows = attention_kernels();
  if (std::none_of(rows.begin(), rows.end(),
                   [&](const AttentionKernel& kernel) { return kernel.device == device; })) {
    fmt::print("\nNot served:\n\n");
    for (const std::string& reason : AttentionBackend::why_not(device, base_spec())) {
      fmt::print("- {}\n", reason);
    }
    return;
  }
  fmt::print("\n### Features\n");
  print_rows(device, "feature", feature_cases());
  fmt::print("\n### Head sizes\n");
  print_rows(device, "head_size", head_cases());
  fmt::print("\n### Caches\n");
  print_caches(device);
}

}  // namespace
}  // namespace paceline

int main() {
  fmt::print(
      "# What is served\n\n"
      "Written by `scripts/support-table`, which asks `AttentionBackend::why_not` and each row of "
      "the dispatch table\n(`src/kernels/registry.cc`); a test fails when this page is out of "
      "date. "
      "Unless a line says otherwise: 32 query\nheads, 8 KV heads, head size 128, bfloat16, an NHD "
      "cache of bfloat16 with blocks of 16 tokens, causal.\n\n"
      "*Served* means that `create()` accepts it: every phase has a row that serves. The rows of a "
      "phase stand in the\norder in which they are tried. Numbers name the reasons of refusals.\n");
  for (const auto device :
       {paceline::DeviceKind::kCpu, paceline::DeviceKind::kCuda, paceline::DeviceKind::kHip}) {
    paceline::print_device(device);
  }
  return 0;
}
