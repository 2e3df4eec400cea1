// Batches as an engine makes them: random company, captured graphs, padding, the largest sizes, and
// what their metadata costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

#include "attention/metadata_builder.h"
#include "conformance/oracle.h"
#include "raw_attention.h"

namespace paceline {
namespace {

using testing::make_spec;
using testing::random_floats;
using testing::RawAttention;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kTimeFactor = 50.0;  // instrumented code
#else
constexpr double kTimeFactor = 1.0;
#endif

// Every token of a few sequences by one prefill each; then 200 batches that cut the sequences
// otherwise, in other company, order, padding, on other blocks, captured or not: the same bits.
TEST(Batches, TwoHundredRandomOnesChangeNoBit) {
  std::mt19937 rng(17);
  const auto pick = [&](int32_t least, int32_t most) {
    return least + static_cast<int32_t>(rng() % static_cast<uint32_t>(most - least + 1));
  };
  std::vector<AttentionSpec> specs{make_spec(6, 2, 32), make_spec(8, 2, 64, DType::kBFloat16),
                                   make_spec(4, 4, 16, DType::kFloat8E4M3)};
  specs[1].kv_cache_layout = KVCacheLayout::kShuffle;
  specs[1].sliding_window = 100;
  specs[1].logits_soft_cap = 10.0F;
  specs[2].alibi = true;
  specs[2].sinks = true;
  specs[2].reorder_batch_threshold = 3;
  const auto device = create_device("cpu", {.num_threads = 2}).value();
  for (int round = 0; round < 200; ++round) {
    const AttentionSpec& spec = specs[static_cast<size_t>(round) % specs.size()];
    const auto width = static_cast<size_t>(spec.num_heads * spec.head_size);
    HarnessOptions options;
    options.padded_reqs = pick(0, 3);
    options.captured = pick(0, 1) == 1;
    options.seq_len_slack = pick(0, 1) * pick(0, 500);
    options.max_query_len = pick(0, 1) == 1 ? 4000 : -1;
    std::vector<Sequence> sequences;
    std::vector<Row> rows;
    for (int32_t i = pick(1, 8); i > 0; --i) {
      sequences.push_back(random_sequence(spec, pick(2, 600), static_cast<uint32_t>(rng())));
    }
    for (const Sequence& sequence : sequences) {
      const int32_t seq_len = pick(1, static_cast<int32_t>(sequence.length));
      const int32_t query_len = pick(0, 1) == 1 ? std::min(seq_len, pick(1, 3)) : pick(1, seq_len);
      rows.push_back({&sequence, query_len, seq_len, {}});
    }
    rows = in_order(rows, spec.reorder_batch_threshold);
    const auto harness = Harness::create(*device, spec, options).value();
    const HarnessOutput together = harness->run(rows, static_cast<uint32_t>(rng())).value();
    const auto alone = Harness::create(*device, spec, {}).value();
    size_t token = 0;
    for (const Row& row : rows) {
      const HarnessOutput whole =
          alone->run({{row.sequence, row.seq_len, row.seq_len, {}}}, static_cast<uint32_t>(rng()))
              .value();
      const auto query_len = static_cast<size_t>(row.query_len);
      const size_t first = (static_cast<size_t>(row.seq_len) - query_len) * width;
      ASSERT_EQ(std::memcmp(whole.out.data() + first, together.out.data() + token * width,
                            query_len * width * sizeof(float)),
                0)
          << "round " << round << ", a row of " << row.query_len << " at " << row.seq_len;
      token += query_len;
    }
  }
}

// A captured step replayed over other lengths, blocks, queries and fewer requests.
TEST(Batches, ReplaysOfACapturedStep) {
  const AttentionSpec spec = make_spec(4, 2, 32);
  RawAttention raw(spec, {8, 64, 1024}, 256);
  const size_t width = 4 * 32;
  const auto slots = [] {
    std::vector<int64_t> all(256 * 16);
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<int64_t>(i);
    }
    return all;
  }();
  raw.write(random_floats(slots.size() * 64, 1), random_floats(slots.size() * 64, 2), slots);
  // Captured with four decodes, an extend and a prefill of the longest lengths.
  const std::vector<int32_t> starts{0, 1, 2, 3, 4, 12, 20};
  const std::vector<int32_t> longest{1000, 1000, 1000, 1000, 1000, 8};
  std::mt19937 rng(5);
  const auto random_table = [&] {
    std::vector<int32_t> table(6 * 64);
    for (int32_t& block : table) {
      block = static_cast<int32_t>(rng() % 256);
    }
    return table;
  };
  RawAttention::Step captured =
      raw.make_step(random_floats(20 * width, 3), starts, longest, random_table());
  ASSERT_TRUE(raw.stream().begin_capture().ok());
  ASSERT_TRUE(raw.enqueue(captured).ok());
  const auto graph = raw.stream().end_capture().value();
  for (int round = 0; round < 20; ++round) {
    const auto live = static_cast<int32_t>(rng() % 5);  // decodes
    std::vector<int32_t> now{0};
    std::vector<int32_t> lens;
    for (int32_t i = 0; i < 4; ++i) {
      now.push_back(now.back() + (i < live ? 1 : 0));
      lens.push_back(i < live ? 2 + static_cast<int32_t>(rng() % 999) : 0);
    }
    now.push_back(now.back() + 8);
    now.push_back(now.back() + 8);
    lens.push_back(9 + static_cast<int32_t>(rng() % 991));
    lens.push_back(8);
    const std::vector<int32_t> table = random_table();
    const std::vector<float> q = random_floats(20 * width, static_cast<uint32_t>(rng()));
    ASSERT_TRUE(upload(raw.stream(), now, captured.starts).ok());
    ASSERT_TRUE(upload(raw.stream(), lens, captured.lens).ok());
    ASSERT_TRUE(upload(raw.stream(), table, captured.table).ok());
    ASSERT_TRUE(upload(raw.stream(), q, captured.q).ok());
    ASSERT_TRUE(raw.stream().fill(captured.out.data(), 0xFF, captured.out.bytes()).ok());
    ASSERT_TRUE(raw.stream().launch(graph).ok());
    const std::vector<float> replayed = raw.result(captured);
    const std::vector<float> expected = raw.attend(q, now, lens, table);
    const auto tokens = static_cast<size_t>(now.back());
    ASSERT_EQ(std::memcmp(replayed.data(), expected.data(), tokens * width * sizeof(float)), 0)
        << "round " << round;
    for (size_t i = tokens * width; i < replayed.size(); ++i) {
      ASSERT_TRUE(std::isnan(replayed[i])) << "a row of no request was written";
    }
  }
}

// A request of seq_len 0 that keeps its query token gives zeros.
TEST(Batches, RequestsWithoutTokens) {
  RawAttention raw(make_spec(4, 2, 32), {8, 64, 1024}, 8);
  raw.write(random_floats(64, 1), random_floats(64, 2), {0});
  RawAttention::Step step = raw.make_step(random_floats(256, 3), {0, 1, 2}, {1, 1}, {0, 0});
  ASSERT_TRUE(raw.enqueue(step).ok());
  const std::vector<float> both = raw.result(step);
  ASSERT_TRUE(upload(raw.stream(), std::vector<int32_t>{1, 0}, step.lens).ok());
  ASSERT_TRUE(raw.stream().fill(step.out.data(), 0xFF, step.out.bytes()).ok());
  ASSERT_TRUE(raw.enqueue(step).ok());
  const std::vector<float> one = raw.result(step);
  EXPECT_EQ(std::memcmp(one.data(), both.data(), 128 * sizeof(float)), 0);
  for (size_t i = 128; i < 256; ++i) {
    EXPECT_EQ(one[i], 0.0F);
  }
}

// The plan that the device makes is the host's, entry by entry, whatever the bounds say.
TEST(Batches, TheDevicesPlanIsTheHosts) {
  AttentionSpec spec = make_spec(8, 2, 64);
  spec.sliding_window = 300;
  const auto device = create_device("cpu", {.num_threads = 2}).value();
  const auto stream = device->create_stream().value();
  const auto builder = MetadataBuilder::create(*device, spec, {64, 4096, 20000}).value();
  std::mt19937 rng(3);
  for (int round = 0; round < 30; ++round) {
    std::vector<int32_t> starts{0};
    std::vector<int32_t> lens;
    const int counts[3] = {static_cast<int>(rng() % 20), static_cast<int>(rng() % 6),
                           static_cast<int>(rng() % 6)};
    for (int phase = 0; phase < 3; ++phase) {
      for (int i = 0; i < counts[phase]; ++i) {
        const auto query_len = static_cast<int32_t>(phase == 0 ? 1 : 2 + rng() % 100);
        starts.push_back(starts.back() + query_len);
        lens.push_back(query_len + static_cast<int32_t>(phase == 2 ? 0 : 1 + rng() % 9000));
      }
    }
    std::vector<int32_t> bounds = lens;
    for (int i = 0; i < counts[0]; ++i) {
      bounds[static_cast<size_t>(i)] += static_cast<int32_t>(rng() % 5000);
    }
    const auto reqs = static_cast<int64_t>(lens.size());
    const Buffer starts_buffer = to_device(*stream, starts).value();
    const Buffer lens_buffer = to_device(*stream, lens).value();
    const Buffer table = device->allocate(static_cast<size_t>(reqs + 1) * 1000 * 4).value();
    CommonAttentionMetadata batch;
    batch.num_reqs = static_cast<int>(reqs);
    batch.num_actual_tokens = starts.back();
    batch.max_query_len = 4096;
    batch.common_prefix_len = static_cast<int>(rng() % 3) * 512;
    batch.query_start_loc_cpu = starts;
    batch.seq_lens_cpu_upper_bound = bounds;
    batch.query_start_loc = TensorView::contiguous(starts_buffer.data(), DType::kInt32, {reqs + 1});
    batch.seq_lens = TensorView::contiguous(lens_buffer.data(), DType::kInt32, {reqs});
    batch.block_table = TensorView::contiguous(table.data(), DType::kInt32, {reqs, 1000});
    const AttentionMetadata metadata = builder->build(*stream, batch).value();
    ASSERT_TRUE(stream->synchronize().ok());
    EXPECT_EQ(metadata.num_decodes, counts[0]);

    const PlanBuffers& plan = builder->plan();
    std::vector<DecodeWork> decodes(4096);
    std::vector<int32_t> first_partial(65);
    const auto same = [](const auto* a, const auto* b, int32_t count) {
      return std::memcmp(a, b, static_cast<size_t>(count) * sizeof(*a)) == 0;
    };
    for (const bool windowed : {false, true}) {
      const MaskParams masks{nullptr, windowed ? 300 : 0, 0, true};
      const int32_t count =
          plan_decodes(starts.data(), lens.data(), counts[0], masks, builder->tile_tokens(),
                       batch.common_prefix_len, decodes.data(), first_partial.data());
      ASSERT_EQ(plan.num_work[windowed ? kWindowedList : kDecodeList], count);
      EXPECT_TRUE(same(decodes.data(), windowed ? plan.windowed : plan.decodes, count));
      EXPECT_TRUE(same(first_partial.data(), plan.first_partial, counts[0] + 1));
    }
    std::vector<TileWork> tiles(4096);
    const int32_t extends =
        plan_query_tiles(starts.data(), counts[0], counts[1], builder->tile_tokens(), tiles.data());
    ASSERT_EQ(plan.num_work[kExtendList], extends);
    EXPECT_TRUE(same(tiles.data(), plan.extends, extends));
    const int32_t prefills = plan_query_tiles(starts.data(), counts[0] + counts[1], counts[2],
                                              builder->tile_tokens(), tiles.data());
    ASSERT_EQ(plan.num_work[kPrefillList], prefills);
    EXPECT_TRUE(same(tiles.data(), plan.prefills, prefills));
  }
}

// One row of a million tokens: as a decode, and as an extend by both strategies.
TEST(Batches, ARowOfAMillionTokens) {
  constexpr int32_t kTokens = 1000000;
  AttentionSpec spec = make_spec(1, 1, 8);
  const std::vector<float> k = random_floats(size_t{kTokens} * 8, 1);
  const std::vector<float> v = random_floats(size_t{kTokens} * 8, 2);
  const std::vector<float> q = random_floats(4 * 8, 3);
  std::vector<int64_t> slots(kTokens);
  std::vector<int32_t> table(kTokens / 16);
  for (size_t i = 0; i < slots.size(); ++i) {
    slots[i] = static_cast<int64_t>(i);
  }
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<int32_t>(i);
  }
  OracleProblem p;
  p.num_heads = p.num_kv_heads = 1;
  p.head_size = p.head_size_v = 8;
  p.scale = 1.0 / std::sqrt(8.0);
  p.query_len = 4;
  p.seq_len = kTokens;
  p.q = q;
  p.k = k;
  p.v = v;
  const OracleResult expected = oracle_attention(p);
  for (const ExtendStrategy strategy : {ExtendStrategy::kInPlace, ExtendStrategy::kGather}) {
    for (const int threshold : {1, 4}) {  // an extend, a decode
      spec.extend_strategy = strategy;
      spec.reorder_batch_threshold = threshold;
      RawAttention raw(spec, {1, 16, 1 << 20}, kTokens / 16);
      raw.write(k, v, slots);
      const auto out = raw.attend(q, {0, 4}, {kTokens}, table);
      for (size_t i = 0; i < out.size(); ++i) {
        EXPECT_NEAR(double{out[i]}, expected.out[i], 2e-7);
      }
    }
  }
}

// What a backend holds is what paceline/attention.h says, and no more.
TEST(Batches, WorkspaceIsWhatTheFormulaSays) {
  const auto device = create_device("cpu", {.num_threads = 1}).value();
  for (const bool windowed : {false, true}) {
    for (const ExtendStrategy strategy : {ExtendStrategy::kInPlace, ExtendStrategy::kGather}) {
      AttentionSpec spec = make_spec(32, 8, 192, DType::kBFloat16);
      spec.head_size_v = 128;
      spec.reorder_batch_threshold = 4;
      spec.sliding_window = windowed ? 1000 : 0;
      spec.extend_strategy = strategy;
      const AttentionLimits limits{64, 2048, 100000, 500000};
      const int64_t work = std::min<int64_t>(64 * 391, 500000 / 256 + 64);
      int64_t bytes = 4 * work * 32 * (128 + 2) * 4;
      bytes += (windowed ? 24 : 12) * work + 16 * (2048 + 64) + 4 * 64 * (8 + 1);
      if (strategy == ExtendStrategy::kGather) {
        bytes += int64_t{32768} * 8 * ((192 + 128) * 2 + 8) + int64_t{2048} * 32 * (128 + 2) * 4;
      }
      const auto backend = AttentionBackend::create(*device, spec, limits).value();
      EXPECT_LE(backend->workspace_bytes(), static_cast<size_t>(bytes + 12 * 64));
      EXPECT_GE(backend->workspace_bytes(), static_cast<size_t>(bytes - 16 * (2048 + 64)));
    }
  }
}

TEST(Batches, FourThousandRequestsOfAToken) {
  RawAttention raw(make_spec(4, 2, 16), {4096, 4096, 64}, 8192);
  std::vector<int64_t> slots;
  std::vector<int32_t> starts{0};
  std::vector<int32_t> table;
  for (int32_t i = 0; i < 4096; ++i) {
    slots.push_back(int64_t{i} * 2 * 16);
    starts.push_back(i + 1);
    table.push_back(2 * i);
  }
  const std::vector<float> v = random_floats(size_t{4096} * 32, 2);
  raw.write(random_floats(size_t{4096} * 32, 1), v, slots);
  const auto out =
      raw.attend(random_floats(size_t{4096} * 64, 3), starts, std::vector<int32_t>(4096, 1), table);
  for (size_t token = 0; token < 4096; ++token) {
    for (size_t head = 0; head < 4; ++head) {
      for (size_t d = 0; d < 16; ++d) {
        ASSERT_EQ(out[(token * 4 + head) * 16 + d], v[(token * 2 + head / 2) * 16 + d]);
      }
    }
  }
}

// What build() costs the host: nothing that grows with the context.
class MetadataCost : public ::testing::Test {
 protected:
  // The least of many calls, in seconds.
  static double measure(const std::vector<int32_t>& query_lens, int32_t context) {
    const AttentionSpec spec = make_spec(32, 8, 128, DType::kBFloat16);
    const auto device = create_device("cpu", {.num_threads = 1}).value();
    const auto stream = device->create_stream().value();
    AttentionLimits limits{256, 8192, 140000};
    limits.max_kv_tokens = static_cast<int64_t>(query_lens.size()) * (context + 1);
    std::vector<int32_t> starts{0};
    std::vector<int32_t> lens;
    for (const int32_t query_len : query_lens) {
      starts.push_back(starts.back() + std::abs(query_len));
      lens.push_back(query_len < 0 ? -query_len : query_len + context);  // negative: a prefill
    }
    const auto backend = AttentionBackend::create(*device, spec, limits).value();
    const auto reqs = static_cast<int64_t>(lens.size());
    const Buffer starts_buffer = to_device(*stream, starts).value();
    const Buffer lens_buffer = to_device(*stream, lens).value();
    const Buffer table = device->allocate(static_cast<size_t>(reqs) * 9000 * 4).value();
    CommonAttentionMetadata batch;
    batch.num_reqs = static_cast<int>(reqs);
    batch.num_actual_tokens = starts.back();
    for (const int32_t query_len : query_lens) {
      batch.max_query_len = std::max(batch.max_query_len, std::abs(query_len));
    }
    batch.query_start_loc_cpu = starts;
    batch.seq_lens_cpu_upper_bound = lens;
    batch.query_start_loc = TensorView::contiguous(starts_buffer.data(), DType::kInt32, {reqs + 1});
    batch.seq_lens = TensorView::contiguous(lens_buffer.data(), DType::kInt32, {reqs});
    batch.block_table = TensorView::contiguous(table.data(), DType::kInt32, {reqs, 9000});
    const DeviceCounters before = device->counters();
    double least = 1.0;
    for (int i = 0; i < 200; ++i) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_TRUE(backend->build(*stream, batch).ok());
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      least = std::min(least, seconds.count());
    }
    const DeviceCounters used = device->counters() - before;
    EXPECT_EQ(used.allocations, 0U);
    EXPECT_EQ(used.waits, 0U);
    EXPECT_EQ(used.d2h_copies, 0U);
    EXPECT_TRUE(stream->synchronize().ok());
    return least;
  }
};

TEST_F(MetadataCost, OfDecodesIsFlatInTheContext) {
  for (const int32_t context : {1024, 16384, 131072}) {
    const double seconds = measure(std::vector<int32_t>(256, 1), context);
    EXPECT_LT(seconds, 20e-6 * kTimeFactor) << context;
    RecordProperty("us_at_" + std::to_string(context), std::to_string(seconds * 1e6));
  }
}

TEST_F(MetadataCost, OfAMixedBatch) {
  std::vector<int32_t> query_lens(64, 1);
  query_lens.insert(query_lens.end(), 8, 256);
  query_lens.insert(query_lens.end(), 8, -512);
  const double seconds = measure(query_lens, 4096);
  EXPECT_LT(seconds, 200e-6 * kTimeFactor);
  RecordProperty("us", std::to_string(seconds * 1e6));
}

}  // namespace
}  // namespace paceline
