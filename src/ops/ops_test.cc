#include "ops/ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "base/float_convert.h"
#include "device/cpu/simd_target.h"

namespace paceline {
namespace {

class OpsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = create_device("cpu", {.num_threads = 2}).value();
    stream_ = device_->create_stream().value();
    ops_ = Ops::create(*device_).value();
  }
  void sync(const Status& status) {
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_TRUE(stream_->synchronize().ok());
  }
  std::vector<float> normal(size_t count, uint32_t seed) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> distribution;
    std::vector<float> values(count);
    for (float& value : values) {
      value = distribution(rng);
    }
    return values;
  }
  // Random blocks with sane scales.
  std::vector<uint8_t> random_weights(WeightFormat format, int64_t rows, int64_t cols,
                                      uint32_t seed) {
    std::mt19937 rng(seed);
    std::vector<uint8_t> bytes(static_cast<size_t>(rows) * weight_row_bytes(format, cols));
    const size_t block = weight_block_bytes(format);
    const auto put_half = [&](size_t at, float value) {
      const uint16_t bits = to_half(value).bits;
      std::memcpy(bytes.data() + at, &bits, 2);
    };
    const auto number = [&] { return std::uniform_real_distribution<float>(-0.1F, 0.1F)(rng); };
    for (size_t at = 0; at < bytes.size(); at += block) {
      for (size_t i = 0; i < block; ++i) {
        bytes[at + i] = static_cast<uint8_t>(rng());
      }
      switch (format) {
        case WeightFormat::kF32: {
          const float value = number();
          std::memcpy(bytes.data() + at, &value, 4);
          break;
        }
        case WeightFormat::kBF16: {
          const uint16_t bits = to_bfloat16(number()).bits;
          std::memcpy(bytes.data() + at, &bits, 2);
          break;
        }
        case WeightFormat::kQ4_1:
          put_half(at + 2, number());
          put_half(at, number());
          break;
        case WeightFormat::kQ6_K:
          put_half(at + 208, number() * 0.01F);
          break;
        default:
          put_half(at, number());
      }
    }
    return bytes;
  }

  void check_embed();

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Ops> ops_;
};

const std::vector<WeightFormat> kFormats{
    WeightFormat::kF32,  WeightFormat::kF16,  WeightFormat::kBF16, WeightFormat::kQ8_0,
    WeightFormat::kQ4_0, WeightFormat::kQ4_1, WeightFormat::kQ6_K};

// On every instruction set that runs here.
TEST_F(OpsTest, EmbedDecodesEveryFormatToTheBitsOfTheReference) {
  for (const std::string& target : cpu::simd_targets()) {
    SCOPED_TRACE(target);
    ASSERT_TRUE(cpu::force_simd_target(target));
    check_embed();
  }
  ASSERT_TRUE(cpu::force_simd_target(""));
}

void OpsTest::check_embed() {
  for (const WeightFormat format : kFormats) {
    constexpr int64_t kRows = 9;
    constexpr int64_t kCols = 512;
    const auto bytes = random_weights(format, kRows, kCols, 5);
    const std::vector<int32_t> ids{8, 0, 3};
    std::vector<float> out(ids.size() * kCols, NAN);
    sync(ops_->embed(*stream_, {bytes.data(), format, kRows, kCols}, ids.data(), 3, out.data()));
    for (size_t i = 0; i < ids.size(); ++i) {
      std::vector<float> expected(kCols);
      dequantize_row(format,
                     bytes.data() + static_cast<size_t>(ids[i]) * weight_row_bytes(format, kCols),
                     kCols, expected.data());
      EXPECT_EQ(std::memcmp(expected.data(), out.data() + i * kCols, kCols * sizeof(float)), 0)
          << weight_format_name(format);
    }
  }
}

TEST_F(OpsTest, GemmIsRightAndDoesNotDependOnTheBatch) {
  constexpr int64_t kCols = 256;
  const std::vector<int64_t> rows{77, 1, 32};
  for (const WeightFormat format : kFormats) {
    std::vector<std::vector<uint8_t>> weights;
    for (const int64_t r : rows) {
      weights.push_back(random_weights(format, r, kCols, static_cast<uint32_t>(r)));
    }
    std::vector<std::vector<float>> by_n;  // first row's outputs at each batch size
    for (const int64_t n : {1, 2, 3, 4, 5, 17}) {
      const auto x = normal(static_cast<size_t>(17 * kCols), 3);
      GemmParams p;
      p.x = x.data();
      p.x_stride = kCols;
      p.n = n;
      p.num_outputs = 3;
      std::vector<std::vector<float>> out(3);
      for (size_t i = 0; i < 3; ++i) {
        out[i].assign(static_cast<size_t>(n * rows[i]), 0.5F);
        p.outputs[i] = {{weights[i].data(), format, rows[i], kCols}, out[i].data(), rows[i]};
      }
      p.accumulate = n == 17;
      sync(ops_->gemm(*stream_, p));
      for (size_t i = 0; i < 3; ++i) {
        for (int64_t t = 0; t < n; ++t) {
          for (int64_t r = 0; r < rows[i]; ++r) {
            std::vector<float> w(kCols);
            dequantize_row(
                format,
                weights[i].data() + static_cast<size_t>(r) * weight_row_bytes(format, kCols), kCols,
                w.data());
            double expected = p.accumulate ? 0.5 : 0.0;
            for (size_t c = 0; c < kCols; ++c) {
              expected += double{w[c]} * double{x[static_cast<size_t>(t) * kCols + c]};
            }
            ASSERT_NEAR(out[i][static_cast<size_t>(t * rows[i] + r)], expected, 2e-4)
                << weight_format_name(format);
          }
        }
      }
      if (!p.accumulate) {
        by_n.emplace_back(out[0].begin(), out[0].begin() + rows[0]);
        EXPECT_EQ(by_n.front(), by_n.back()) << weight_format_name(format) << " n " << n;
      }
    }
  }
}

TEST_F(OpsTest, GemmRefusesWhatItCannotDo) {
  GemmParams p;
  p.num_outputs = 1;
  p.outputs[0].weights = {nullptr, WeightFormat::kF32, 4, 12};
  EXPECT_EQ(ops_->gemm(*stream_, p).code(), StatusCode::kUnsupported);
}

TEST_F(OpsTest, RmsNorm) {
  constexpr int64_t kDim = 576;
  const auto x = normal(static_cast<size_t>(100 * kDim), 1);
  const auto weight = normal(kDim, 2);
  std::vector<float> out(x.size(), NAN);
  sync(ops_->rms_norm(*stream_, x.data(), weight.data(), 1e-5F, 100, kDim, out.data()));
  for (size_t row = 0; row < 100; ++row) {
    double squares = 0.0;
    for (size_t i = 0; i < kDim; ++i) {
      squares += double{x[row * kDim + i]} * double{x[row * kDim + i]};
    }
    const double factor = 1.0 / std::sqrt(squares / kDim + 1e-5);
    for (size_t i = 0; i < kDim; ++i) {
      ASSERT_NEAR(out[row * kDim + i], double{x[row * kDim + i]} * factor * double{weight[i]},
                  1e-5);
    }
  }
}

TEST_F(OpsTest, RopeRotatesBothPairings) {
  const std::vector<int32_t> positions{0, 3};
  std::vector<float> table;  // rotary_dim 4: angles 1 and 0.1 times the position
  for (int position = 0; position < 4; ++position) {
    for (const bool sine : {false, true}) {
      for (const double frequency : {1.0, 0.1}) {
        table.push_back(static_cast<float>(sine ? std::sin(position * frequency)
                                                : std::cos(position * frequency)));
      }
    }
  }
  for (const bool interleaved : {false, true}) {
    const auto before = normal(2 * 2 * 8, 4);
    std::vector<float> x = before;
    RopeParams p;
    p.x = x.data();
    p.token_stride = 16;
    p.n = 2;
    p.num_heads = 2;
    p.head_size = 8;
    p.rotary_dim = 4;
    p.interleaved = interleaved;
    p.positions = positions.data();
    p.cos_sin = table.data();
    sync(ops_->rope(*stream_, p));
    for (size_t head = 0; head < 4; ++head) {
      const double position = head < 2 ? 0 : 3;
      for (size_t i = 0; i < 2; ++i) {
        const size_t a = head * 8 + (interleaved ? 2 * i : i);
        const size_t b = head * 8 + (interleaved ? 2 * i + 1 : i + 2);
        const double angle = position * (i == 0 ? 1.0 : 0.1);
        EXPECT_NEAR(x[a], double{before[a]} * std::cos(angle) - double{before[b]} * std::sin(angle),
                    1e-6);
        EXPECT_NEAR(x[b], double{before[a]} * std::sin(angle) + double{before[b]} * std::cos(angle),
                    1e-6);
      }
      for (size_t i = 4; i < 8; ++i) {
        EXPECT_EQ(x[head * 8 + i], before[head * 8 + i]);
      }
    }
  }
}

TEST_F(OpsTest, SiluGatherAndResolve) {
  const auto gate = normal(40000, 6);
  const auto up = normal(40000, 7);
  std::vector<float> out = gate;
  sync(ops_->silu_mul(*stream_, out.data(), up.data(), 5, 8000));
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], double{gate[i]} / (1 + std::exp(-double{gate[i]})) * double{up[i]}, 2e-6);
  }
  const std::vector<int32_t> indices{2, 0};
  std::vector<float> rows(16, NAN);
  sync(ops_->gather_rows(*stream_, gate.data(), indices.data(), 2, 8, rows.data()));
  EXPECT_EQ(rows[0], gate[16]);
  EXPECT_EQ(rows[15], gate[7]);
  const std::vector<int32_t> prompt{7, -1, 9, -3};
  const std::vector<int32_t> tokens{100, 101, 102};
  std::vector<int32_t> ids(4);
  sync(ops_->resolve_ids(*stream_, prompt.data(), tokens.data(), 4, ids.data()));
  EXPECT_EQ(ids, (std::vector<int32_t>{7, 100, 9, 102}));
}

class SampleTest : public OpsTest {
 protected:
  int32_t sample(const std::vector<float>& logits, SamplingRow row) {
    SampleParams p;
    p.logits = logits.data();
    p.vocab = static_cast<int64_t>(logits.size());
    p.rows = &row;
    p.n = 1;
    int32_t token = -1;
    int32_t result = -2;
    p.tokens = &token;
    p.results = &result;
    sync(ops_->sample(*stream_, p));
    EXPECT_EQ(token, result);
    return token;
  }
};

TEST_F(SampleTest, GreedyTakesTheFirstLargest) {
  EXPECT_EQ(sample({0.0F, 3.0F, -1.0F, 3.0F}, {}), 1);
}

TEST_F(SampleTest, FrequenciesFollowTheProbabilities) {
  const std::vector<float> logits{std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  std::map<int32_t, int> counts;
  for (int64_t position = 0; position < 20000; ++position) {
    ++counts[sample(logits, {.temperature = 1.0F, .seed = 42, .position = position})];
  }
  EXPECT_NEAR(counts[0] / 20000.0, 0.5, 0.015);
  EXPECT_NEAR(counts[1] / 20000.0, 0.3, 0.015);
  EXPECT_NEAR(counts[2] / 20000.0, 0.2, 0.015);
}

// top_p keeps exactly the smallest sufficient set, whatever buckets its members fall in; checked
// against a sort.
TEST_F(SampleTest, TopPKeepsTheSmallestSet) {
  std::mt19937 rng(8);
  for (int round = 0; round < 30; ++round) {
    std::vector<float> logits(300);
    for (float& logit : logits) {
      logit = static_cast<float>(rng() % 40) * 0.2F;  // with ties
    }
    const float top_p = 0.05F + 0.9F * static_cast<float>(round) / 30.0F;
    std::vector<int32_t> order(logits.size());
    for (size_t i = 0; i < order.size(); ++i) {
      order[i] = static_cast<int32_t>(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    double total = 0.0;
    for (const float logit : logits) {
      total += std::exp(double{logit});
    }
    double mass = 0.0;
    size_t kept = 0;
    while (mass < double{top_p} * total) {
      mass += std::exp(double{logits[static_cast<size_t>(order[kept++])]});
    }
    std::map<int32_t, int> counts;
    for (int64_t position = 0; position < 3000; ++position) {
      ++counts[sample(logits,
                      {.temperature = 1.0F, .top_p = top_p, .seed = 1, .position = position})];
    }
    for (const auto& [token, count] : counts) {
      const auto rank = std::find(order.begin(), order.end(), token) - order.begin();
      // One more may be kept where the mass lands on top_p within rounding.
      EXPECT_LE(rank, static_cast<int64_t>(kept)) << "top_p " << top_p;
    }
  }
}

TEST_F(SampleTest, SeedAndPositionDecide) {
  const auto logits = normal(1000, 9);
  const SamplingRow row{.temperature = 0.8F, .top_p = 0.95F, .seed = 5, .position = 17};
  const int32_t token = sample(logits, row);
  EXPECT_EQ(sample(logits, row), token);
  int different = 0;
  for (uint64_t seed = 6; seed < 26; ++seed) {
    SamplingRow other = row;
    other.seed = seed;
    different += sample(logits, other) != token ? 1 : 0;
  }
  EXPECT_GT(different, 10);
  EXPECT_EQ(sample(logits, {.temperature = 0.8F, .top_p = 1e-6F, .seed = 3}), sample(logits, {}));
}

}  // namespace
}  // namespace paceline
