// Attention through the public API: right against the oracle, the same bits in any company, and
// nothing of what no request owns.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "conformance/harness.h"
#include "device/cpu/simd_target.h"

namespace paceline {
namespace {

// A device and a harness of its own.
class TestRun {
 public:
  explicit TestRun(const AttentionSpec& spec, const HarnessOptions& options = {}, int threads = 2)
      : spec_(spec), options_(options) {
    device_ = create_device("cpu", {.num_threads = threads}).value();
    auto harness = Harness::create(*device_, spec, options);
    EXPECT_TRUE(harness.ok()) << harness.status().to_string();
    harness_ = std::move(harness).value();
  }
  std::vector<float> run(const std::vector<Row>& rows, uint32_t block_seed = 1) {
    auto output = harness_->run(rows, block_seed);
    EXPECT_TRUE(output.ok()) << output.status().to_string();
    output_ = std::move(output).value();
    return output_.out;
  }
  double max_error(const std::vector<Row>& rows) {
    run(rows);
    return errors(*harness_, spec_, options_, rows, output_).out;
  }

 private:
  AttentionSpec spec_;
  HarnessOptions options_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Harness> harness_;
  HarnessOutput output_;
};

AttentionSpec make_spec(int heads, int kv_heads, int head_size, DType kv = DType::kFloat32,
                        KVCacheLayout layout = KVCacheLayout::kNHD, int block_size = 16) {
  AttentionSpec spec;
  spec.num_heads = heads;
  spec.num_kv_heads = kv_heads;
  spec.head_size = head_size;
  spec.kv_cache_dtype = kv;
  spec.kv_cache_layout = layout;
  spec.block_size = block_size;
  return spec;
}

std::string describe(const AttentionSpec& spec) {
  return fmt::format("heads {}/{} D {} dtype {} kv {} {} block {}", spec.num_heads,
                     spec.num_kv_heads, spec.head_size, dtype_name(spec.dtype),
                     dtype_name(spec.kv_cache_dtype), kv_cache_layout_name(spec.kv_cache_layout),
                     spec.block_size);
}

// Two decodes, two extends, two prefills, with lengths on and off block and split borders.
std::vector<Sequence> mixed_sequences(const AttentionSpec& spec) {
  std::vector<Sequence> sequences;
  uint32_t seed = 100;
  for (const int64_t length : {37, 530, 256, 70, 1, 19}) {
    sequences.push_back(random_sequence(spec, length, ++seed));
  }
  return sequences;
}
std::vector<Row> mixed_rows(const std::vector<Sequence>& s) {
  return {{&s[0], 1, 37}, {&s[1], 1, 530}, {&s[2], 40, 256},
          {&s[3], 5, 70}, {&s[4], 1, 1},   {&s[5], 19, 19}};
}

// Twice the error of the plain float32 kernel on the same inputs, and room for one rounding of the
// output.
void expect_right(const AttentionSpec& spec, const HarnessOptions& options = {}) {
  const std::vector<Sequence> sequences = mixed_sequences(spec);
  const std::vector<Row> rows = mixed_rows(sequences);
  AttentionSpec ref = spec;
  ref.kernel = "ref";
  const double plain = TestRun(ref, options).max_error(rows);
  const double error = TestRun(spec, options).max_error(rows);
  const double unit = spec.dtype == DType::kFloat32   ? 0x1p-24
                      : spec.dtype == DType::kFloat16 ? 0x1p-11
                                                      : 0x1p-8;
  EXPECT_LE(plain, 8 * unit + 5e-5) << describe(spec);
  EXPECT_LE(error, 2 * plain + unit) << describe(spec);
}

TEST(Attention, RightForEveryCacheDtypeAndLayout) {
  for (const KVCacheLayout layout : {KVCacheLayout::kNHD, KVCacheLayout::kShuffle}) {
    for (const DType kv :
         {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3}) {
      for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
        AttentionSpec spec = make_spec(6, 2, 64, kv, layout);
        spec.dtype = dtype;
        HarnessOptions options;
        options.k_scale = kv == DType::kFloat8E4M3 ? 0.05F : 1.0F;
        options.v_scale = kv == DType::kFloat8E4M3 ? 0.03F : 1.0F;
        expect_right(spec, options);
      }
    }
  }
}

TEST(Attention, RightForEveryHeadDimAndGroup) {
  for (const int d : {8, 16, 24, 32, 64, 80, 96, 112, 128, 192, 256, 512}) {
    expect_right(make_spec(4, 2, d));
  }
  for (const auto& [heads, kv_heads] : std::vector<std::pair<int, int>>{
           {1, 1}, {9, 3}, {5, 1}, {14, 2}, {20, 1}, {64, 2}, {8, 8}, {64, 1}, {130, 1}}) {
    expect_right(make_spec(heads, kv_heads, 32));
  }
}

TEST(Attention, RightForEveryBlockSize) {
  for (const int block_size : {1, 2, 8, 16, 32, 48, 64, 128, 256}) {
    HarnessOptions options;
    options.num_blocks = 2048 / block_size + 16;
    expect_right(make_spec(4, 2, 32, DType::kFloat32, KVCacheLayout::kNHD, block_size), options);
    expect_right(make_spec(4, 2, 32, DType::kBFloat16, KVCacheLayout::kNHD, block_size), options);
    if (block_size % 8 == 0) {
      expect_right(make_spec(4, 2, 32, DType::kBFloat16, KVCacheLayout::kShuffle, block_size),
                   options);
    }
  }
}

TEST(Attention, TheScaleIsUsed) {
  for (const float scale : {1.0F, 0.05F, 0.0F, -0.3F}) {
    AttentionSpec spec = make_spec(4, 2, 128, DType::kBFloat16, KVCacheLayout::kShuffle);
    spec.scale = scale;
    expect_right(spec);
  }
}

// Speculative decoding: rows of up to four tokens are decodes, ragged.
TEST(Attention, DecodeRowsOfSeveralTokens) {
  AttentionSpec spec = make_spec(6, 2, 64, DType::kBFloat16);
  spec.reorder_batch_threshold = 4;
  const Sequence a = random_sequence(spec, 700, 1);
  const Sequence b = random_sequence(spec, 258, 2);
  const Sequence c = random_sequence(spec, 3, 3);
  const std::vector<Row> rows{{&a, 4, 700}, {&b, 1, 200}, {&b, 3, 258}, {&c, 2, 3}};
  EXPECT_LE(TestRun(spec).max_error(rows), 4e-6);
}

bool same_bits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

std::vector<AttentionSpec> invariance_specs() {
  std::vector<AttentionSpec> specs;
  for (const KVCacheLayout layout : {KVCacheLayout::kNHD, KVCacheLayout::kShuffle}) {
    specs.push_back(make_spec(9, 3, 64, DType::kFloat32, layout));
    specs.push_back(make_spec(8, 2, 128, DType::kBFloat16, layout));
    specs.push_back(make_spec(4, 4, 80, DType::kFloat8E4M3, layout));
  }
  AttentionSpec narrow = make_spec(8, 2, 64, DType::kFloat16);
  narrow.dtype = DType::kBFloat16;
  specs.push_back(narrow);
  for (const char* kernel : {"ref", ""}) {
    specs.push_back(make_spec(6, 2, 32, DType::kFloat32));
    specs.back().kernel = kernel;
  }
  return specs;
}

// A row alone, among others, with padding, threads, captured, on other blocks: the same bits.
TEST(Attention, BatchInvariance) {
  for (const AttentionSpec& spec : invariance_specs()) {
    const std::vector<Sequence> sequences = mixed_sequences(spec);
    const std::vector<Row> rows = mixed_rows(sequences);
    const auto width = static_cast<size_t>(spec.num_heads) * static_cast<size_t>(spec.head_size);
    std::vector<std::vector<float>> runs;
    HarnessOptions options;
    runs.push_back(TestRun(spec, options).run(rows));
    runs.push_back(TestRun(spec, options).run(rows, 99));
    options.padded_reqs = 3;
    options.max_query_len = 4000;
    runs.push_back(TestRun(spec, options, 3).run(rows));
    options.captured = true;
    runs.push_back(TestRun(spec, options).run(rows));
    for (size_t i = 1; i < runs.size(); ++i) {
      EXPECT_TRUE(same_bits(runs[0].data(), runs[i].data(), runs[0].size()))
          << describe(spec) << " run " << i;
    }
    TestRun alone(spec, {}, 1);
    size_t token = 0;
    for (const Row& row : rows) {
      const std::vector<float> out = alone.run({row}, 5);
      EXPECT_TRUE(same_bits(out.data(), runs[0].data() + token * width, out.size()))
          << describe(spec) << " row at token " << token;
      token += static_cast<size_t>(row.query_len);
    }
  }
}

// A token's output is the same from a decode, from any cut of its prompt into extends, and from one
// prefill.
TEST(Attention, PhaseAndChunkInvariance) {
  for (const AttentionSpec& spec : invariance_specs()) {
    constexpr int32_t kLength = 523;
    const Sequence sequence = random_sequence(spec, kLength, 11);
    const auto width = static_cast<size_t>(spec.num_heads) * static_cast<size_t>(spec.head_size);
    TestRun harness(spec);
    const std::vector<float> whole = harness.run({{&sequence, kLength, kLength}});
    for (const int32_t chunk : {64, 100, 256, 511}) {
      for (int32_t end = chunk; end - chunk < kLength; end += chunk) {
        const int32_t seq_len = std::min(end, kLength);
        const int32_t query_len = seq_len - (end - chunk);
        const std::vector<float> out = harness.run({{&sequence, query_len, seq_len}});
        const size_t first = static_cast<size_t>(end - chunk) * width;
        ASSERT_TRUE(same_bits(out.data(), whole.data() + first, out.size()))
            << describe(spec) << " chunk " << chunk << " at " << end - chunk;
      }
    }
    for (const int32_t position : {0, 1, 255, 256, 257, 522}) {  // each as a decode
      const std::vector<float> out = harness.run({{&sequence, 1, position + 1}});
      ASSERT_TRUE(
          same_bits(out.data(), whole.data() + static_cast<size_t>(position) * width, width))
          << describe(spec) << " position " << position;
    }
  }
}

TEST(Attention, BothLayoutsGiveTheSameBits) {
  for (const DType kv : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3}) {
    const AttentionSpec nhd = make_spec(6, 2, 64, kv);
    AttentionSpec shuffle = nhd;
    shuffle.kv_cache_layout = KVCacheLayout::kShuffle;
    const std::vector<Sequence> sequences = mixed_sequences(nhd);
    const HarnessOptions options{.k_scale = 0.5F, .v_scale = 0.25F};
    const auto a = TestRun(nhd, options).run(mixed_rows(sequences));
    const auto b = TestRun(shuffle, options).run(mixed_rows(sequences));
    EXPECT_TRUE(same_bits(a.data(), b.data(), a.size())) << dtype_name(kv);
  }
}

// Every instruction set that was compiled and runs here: right, and invariant.
TEST(Attention, EverySimdTarget) {
  const std::vector<std::string> targets = cpu::simd_targets();
  ASSERT_FALSE(targets.empty());
  for (const std::string& target : targets) {
    SCOPED_TRACE(target);
    ASSERT_TRUE(cpu::force_simd_target(target));
    EXPECT_EQ(cpu::simd_target_name(), target);
    for (const DType kv :
         {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3}) {
      const AttentionSpec spec = make_spec(6, 2, 64, kv);
      expect_right(spec);
      const std::vector<Sequence> sequences = mixed_sequences(spec);
      const std::vector<Row> rows = mixed_rows(sequences);
      const std::vector<float> together = TestRun(spec).run(rows);
      const std::vector<float> alone = TestRun(spec).run({rows[1]});
      EXPECT_TRUE(same_bits(alone.data(), together.data() + size_t{6} * 64, alone.size()));
    }
  }
  EXPECT_FALSE(cpu::force_simd_target("8087"));
  EXPECT_TRUE(cpu::force_simd_target(""));
  EXPECT_EQ(cpu::simd_target_name(), targets.front());
}

// A later token that holds infinity must not reach the tokens before it, not even times zero.
TEST(Attention, WhatARowDoesNotSeeNeverReachesIt) {
  const AttentionSpec spec = make_spec(4, 2, 32);
  Sequence sequence = random_sequence(spec, 40, 3);
  const std::vector<float> before = TestRun(spec).run({{&sequence, 40, 40}});
  const size_t kv_width = 2 * 32;
  for (size_t i = 30 * kv_width; i < sequence.k.size(); ++i) {
    sequence.k[i] = std::numeric_limits<float>::infinity();
    sequence.v[i] = std::numeric_limits<float>::quiet_NaN();
  }
  const std::vector<float> after = TestRun(spec).run({{&sequence, 40, 40}});
  const size_t unaffected = size_t{30} * 4 * 32;
  EXPECT_TRUE(same_bits(before.data(), after.data(), unaffected));
  EXPECT_TRUE(std::isnan(after[unaffected]));
}

// What a row does see reaches it: NaN in a key, a value or a query gives NaN, never numbers that
// look sound.
TEST(Attention, NaNIsNotHidden) {
  constexpr int32_t kLength = 300;
  constexpr int32_t kAt = 20;
  for (const char* kernel : {"ref", "cpu_simd"}) {
    AttentionSpec spec = make_spec(4, 2, 32);
    spec.kernel = kernel;
    const size_t kv_width = 2 * 32;
    const size_t width = 4 * 32;
    const auto nan_from = [&](const char* what, const std::vector<float>& out, int32_t first,
                              int32_t end, int32_t base) {
      for (int32_t token = base; token < kLength; ++token) {
        for (size_t i = 0; i < width; ++i) {
          const float value = out[static_cast<size_t>(token - base) * width + i];
          ASSERT_EQ(std::isnan(value), token >= first && token < end)
              << kernel << ": " << what << ", token " << token;
        }
      }
    };
    const auto spoil = [](std::vector<float>& values, int32_t token, size_t size) {
      std::fill_n(values.begin() + static_cast<int64_t>(token * size), size, NAN);
    };
    for (const int32_t query_len : {kLength, kLength - 10, 1}) {  // prefill, extend, decode
      const int32_t base = kLength - query_len;
      Sequence key = random_sequence(spec, kLength, 3);
      Sequence value = key;
      Sequence query = key;
      spoil(key.k, kAt, kv_width);
      spoil(value.v, kAt, kv_width);
      spoil(query.q, kLength - 1, width);
      TestRun harness(spec);
      nan_from("key", harness.run({{&key, query_len, kLength}}), kAt, kLength, base);
      nan_from("value", harness.run({{&value, query_len, kLength}}), kAt, kLength, base);
      nan_from("query", harness.run({{&query, query_len, kLength}}), kLength - 1, kLength, base);
    }
  }
}

}  // namespace
}  // namespace paceline
