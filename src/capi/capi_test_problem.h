// A small batch with one request in each phase, and how to run it through the C functions.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "paceline/paceline.h"

namespace paceline {

#define EXPECT_C_OK(call) EXPECT_EQ(call, PACELINE_OK) << paceline_last_error()

struct CapiProblem {
  paceline_attention_spec spec{};
  std::vector<int32_t> query_lens{2, 1, 9, 21};  // two decodes, an extend, a prefill
  std::vector<int32_t> seq_lens{40, 17, 50, 21};
  int64_t num_blocks = 24;
  float first_scale = 1.0F;

  CapiProblem() {
    paceline_attention_spec_init(&spec, sizeof spec);
    spec.num_heads = 4;
    spec.num_kv_heads = 2;
    spec.head_size = 32;
    spec.reorder_batch_threshold = 2;
  }
  int num_reqs() const { return static_cast<int>(query_lens.size()); }
  int value_size() const { return spec.head_size_v == 0 ? spec.head_size : spec.head_size_v; }
  int num_tokens() const {
    int sum = 0;
    for (const int32_t length : query_lens) {
      sum += length;
    }
    return sum;
  }
  std::vector<int32_t> starts() const {
    std::vector<int32_t> starts{0};
    for (const int32_t length : query_lens) {
      starts.push_back(starts.back() + length);
    }
    return starts;
  }
  static constexpr int kColumns = 4;
  std::vector<int32_t> block_table() const {
    std::vector<int32_t> table;
    for (int i = 0; i < num_reqs() * kColumns; ++i) {
      table.push_back((i * 7 + 3) % 19);  // distinct: 7 and 19 are coprime, and there are 16
    }
    return table;
  }
  // Slots of all tokens of all requests, context first.
  std::vector<int64_t> slots() const {
    const std::vector<int32_t> table = block_table();
    std::vector<int64_t> slots;
    for (int r = 0; r < num_reqs(); ++r) {
      for (int t = 0; t < seq_lens[static_cast<size_t>(r)]; ++t) {
        const auto entry = static_cast<size_t>(r * kColumns + t / spec.block_size);
        slots.push_back(int64_t{table[entry]} * spec.block_size + t % spec.block_size);
      }
    }
    return slots;
  }
  std::vector<float> numbers(int64_t count, uint32_t seed) const {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) {
      value = normal(rng);
    }
    return values;
  }
  // What the tests see as q, k and v: float32 numbers, or half as many bytes for 16-bit types.
  int64_t element_bytes() const { return spec.dtype == PACELINE_FLOAT32 ? 4 : 2; }
  std::vector<char> elements(int64_t count, uint32_t seed) const {
    const std::vector<float> values = numbers(count, seed);
    std::vector<char> bytes(static_cast<size_t>(count * element_bytes()));
    for (size_t i = 0; i < values.size(); ++i) {
      const auto* from = reinterpret_cast<const char*>(&values[i]);
      // The upper half of a float32 is a bfloat16.
      std::memcpy(bytes.data() + i * static_cast<size_t>(element_bytes()),
                  from + (4 - element_bytes()), static_cast<size_t>(element_bytes()));
    }
    return bytes;
  }
};

// What both runs share: the host's arrays. Pinned memory is read by host and device.
struct CapiInputs {
  explicit CapiInputs(const CapiProblem& p)
      : starts(p.starts()), table(p.block_table()), slots(p.slots()) {
    const auto all = static_cast<int64_t>(slots.size());
    const int64_t kv = p.spec.num_kv_heads;
    q = p.elements(int64_t{p.num_tokens()} * p.spec.num_heads * p.spec.head_size, 1);
    all_k = p.elements(all * kv * p.spec.head_size, 2);
    all_v = p.elements(all * kv * p.value_size(), 3);
    per_head = p.numbers(2 * p.spec.num_heads, 4);
    for (float& value : per_head) {
      value = std::abs(value);
    }
    // This step's own: the last tokens of each request.
    size_t row = 0;
    for (int r = 0; r < p.num_reqs(); ++r) {
      row += static_cast<size_t>(p.seq_lens[static_cast<size_t>(r)]);
      const auto count = static_cast<size_t>(p.query_lens[static_cast<size_t>(r)]);
      const auto take = [&](const std::vector<char>& from, std::vector<char>& to) {
        const size_t width = from.size() / slots.size();
        to.insert(to.end(), from.begin() + static_cast<int64_t>((row - count) * width),
                  from.begin() + static_cast<int64_t>(row * width));
      };
      take(all_k, k);
      take(all_v, v);
    }
    scales.assign(static_cast<size_t>(4 * kv), p.first_scale);
    scales.back() *= 1.5F;
    if (p.spec.kv_scale == PACELINE_SCALE_PER_TOKEN_HEAD) {
      scales.assign(static_cast<size_t>(2 * p.num_blocks * kv * p.spec.block_size), 0.0F);
    }
    tree.assign(static_cast<size_t>(p.num_tokens()), 0);
    tree[0] = 1;  // two roots, then the other decode's only token
    tree[1] = 2;
    tree[2] = 1;
  }
  std::vector<int32_t> starts;
  std::vector<int32_t> table;
  std::vector<int64_t> slots;
  std::vector<int64_t> tree;
  std::vector<char> q, k, v, all_k, all_v;
  std::vector<float> per_head, scales;
};

struct CapiOutput {
  std::vector<char> out;
  std::vector<float> lse;
};

}  // namespace paceline
