// Every failure that is known of the backend this library does the work of, as a test that bears
// its number: B for reported ones, I for those found by reading the code.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>

#include "attention/batch_split.h"
#include "conformance/runner.h"
#include "raw_attention.h"

namespace paceline {
namespace {

using testing::make_spec;
using testing::random_floats;
using testing::RawAttention;

// Cases in the language of conformance files; all must pass.
void expect_passed(const std::string& text) {
  const auto cases = parse_cases("case " + text, "test");
  ASSERT_TRUE(cases.ok()) << cases.status().to_string();
  const auto device = create_device("cpu", {.num_threads = 2}).value();
  for (const Case& c : *cases) {
    const CaseResult result = run_case(*device, c);
    EXPECT_EQ(result.verdict, Verdict::kPassed) << c.name << ": " << result.reason;
  }
}

TEST(KnownFailures, B1_HeadSizesBelowAndBesides64) {
  expect_passed("head_size={32,64,80,96,112,128,192,256} rows=1@37+1@300 kv={float32,bfloat16}");
}

TEST(KnownFailures, B2_WindowedDecodeSeesExactlyTheWindow) {
  for (const int w : {1, 10, 128, 256, 4096}) {
    expect_passed(fmt::format("window={0} head_size=32 heads=2/1 rows=1@{1}+1@{0}+1@{2}+1@{3}", w,
                              std::max(1, w - 1), w + 1, 2 * w + 255));
  }
}

TEST(KnownFailures, B3_LastRequestOfARaggedDecode) {
  expect_passed("threshold=4 rows=4@50 kv=bfloat16");
  expect_passed("threshold=4 rows=4@50+1@30+3@300 kv=bfloat16");
}

TEST(KnownFailures, B4_EncoderDecoderAndNullKeysAreErrors) {
  const auto device = create_device("cpu").value();
  for (const AttentionType type : {AttentionType::kEncoder, AttentionType::kEncoderDecoder}) {
    AttentionSpec spec = make_spec(4, 2, 64);
    spec.attention_type = type;
    EXPECT_FALSE(AttentionBackend::why_not(DeviceKind::kCpu, spec).empty());
    EXPECT_FALSE(AttentionBackend::create(*device, spec, {2, 8, 64}).ok());
  }
  RawAttention raw(make_spec(2, 1, 8), {2, 8, 64}, 4);
  raw.write(random_floats(8, 1), random_floats(8, 2), {0});
  RawAttention::Step step = raw.make_step(random_floats(16, 3), {0, 1}, {1}, {0});
  raw.layer().kv_sharing = false;
  const Status status = raw.enqueue(step);  // k and v are null
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("k must be"), std::string::npos) << status.message();
}

TEST(KnownFailures, B6_LargeHeadsAtAnyBatchSize) {
  for (const int rows : {1, 20, 77, 160}) {  // times 8 heads: on both sides of 608
    expect_passed(fmt::format("head_size=256 heads=8/2 kv=bfloat16 rows={}*1@40", rows));
  }
}

TEST(KnownFailures, B7_NoStepCopiesTheCache) {
  RawAttention raw(make_spec(4, 2, 64), {4, 64, 512}, 64);
  raw.write(random_floats(128 * 40, 1), random_floats(128 * 40, 2), [] {
    std::vector<int64_t> slots(40);
    for (size_t i = 0; i < 40; ++i) {
      slots[i] = static_cast<int64_t>(i);
    }
    return slots;
  }());
  RawAttention::Step step = raw.make_step(random_floats(256, 3), {0, 1}, {40}, {0, 1, 2});
  const DeviceCounters before = raw.device().counters();
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(raw.enqueue(step).ok());
  }
  const DeviceCounters used = raw.device().counters() - before;
  EXPECT_EQ(used.allocations, 0U);
  EXPECT_EQ(used.allocated_bytes, 0U);
  // Strides that do not fit are an error, not a copy.
  raw.layer().cache.key.strides[3] = 2;
  EXPECT_EQ(raw.enqueue(step).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(raw.stream().synchronize().ok());
}

TEST(KnownFailures, B9_LargeBlocksAndShuffledSpeculativeDecode) {
  expect_passed("block=128 kv={bfloat16,fp8_e4m3} layout={NHD,SHUFFLE}");
  expect_passed("threshold=4 layout=SHUFFLE kv={bfloat16,fp8_e4m3} rows=4@100+4@300+4@17");
}

TEST(KnownFailures, B10_ScalesAreThoseOfTheLayersOwnCache) {
  for (const int64_t blocks : {100, 70000}) {
    AttentionSpec spec = make_spec(2, 1, 16);
    spec.kv_cache_dtype = DType::kFloat8E4M3;
    spec.kv_cache_layout = KVCacheLayout::kShuffle;
    spec.kv_scale = KVScaleKind::kPerTokenHead;
    RawAttention raw(spec, {4, 64, 512}, blocks);
    EXPECT_EQ(raw.shape().token_head_scales(), blocks * 16);
    const Buffer scales =
        raw.device()
            .allocate(static_cast<size_t>(2 * raw.shape().token_head_scales()) * sizeof(float))
            .value();
    raw.layer().cache.k_scale = KVScale::per_token_head(scales.as<float>(), raw.shape());
    raw.layer().cache.v_scale =
        KVScale::per_token_head(scales.as<float>() + raw.shape().token_head_scales(), raw.shape());
    // Drafting: one token, then five, on the last block.
    const auto last = static_cast<int32_t>(blocks - 1);
    std::vector<int64_t> slots;
    for (int64_t t = 0; t < 6; ++t) {
      slots.push_back(int64_t{last} * 16 + t);
    }
    raw.write(random_floats(6 * 16, 1), std::vector<float>(6 * 16, 3.0F), slots);
    const auto out = raw.attend(random_floats(6 * 32, 2), {0, 1, 6}, {6, 6}, {last, last});
    for (const float value : out) {
      EXPECT_NEAR(value, 3.0F, 1e-5F);
    }
  }
}

TEST(KnownFailures, B11_TheLastBlockOfEitherCacheShape) {
  // K and V in one allocation: [2, NB, ...] and [NB, 2, ...].
  const int64_t blocks = 10;
  const int64_t block_floats = 16 * 2 * 8;
  for (const bool blocks_first : {false, true}) {
    RawAttention raw(make_spec(2, 2, 8), {4, 64, 256}, blocks);
    const Buffer both =
        raw.device()
            .allocate(static_cast<size_t>(2 * blocks * block_floats) * sizeof(float))
            .value();
    KVCacheView& cache = raw.layer().cache;
    cache.key.data = both.data();
    cache.value.data = both.as<float>() + (blocks_first ? block_floats : blocks * block_floats);
    cache.key.strides[0] = cache.value.strides[0] = blocks_first ? 2 * block_floats : block_floats;
    const int64_t slot = (blocks - 1) * 16 + 15;
    raw.write(random_floats(16, 1), std::vector<float>(16, 0.5F), {slot - 15});
    raw.write(random_floats(16, 2), std::vector<float>(16, 0.75F), {slot});
    const auto out = raw.attend(random_floats(16, 3), {0, 1}, {1}, {9});
    EXPECT_EQ(out, std::vector<float>(16, 0.5F));
  }
}

TEST(KnownFailures, B12_BlocksBeyond65536) {
  for (const KVCacheLayout layout : {KVCacheLayout::kNHD, KVCacheLayout::kShuffle}) {
    AttentionSpec spec = make_spec(8, 8, 128);
    spec.kv_cache_dtype = DType::kBFloat16;
    spec.kv_cache_layout = layout;
    RawAttention raw(spec, {2, 16, 64}, 70000);
    raw.write(random_floats(8 * 128, 1), std::vector<float>(8 * 128, 0.75F), {int64_t{67000} * 16});
    const auto out = raw.attend(random_floats(8 * 128, 2), {0, 1}, {1}, {67000});
    EXPECT_EQ(out, std::vector<float>(8 * 128, 0.75F));
  }
}

TEST(KnownFailures, B13_ScalesThatVaryByBlockHeadAndSlot) {
  expect_passed("kv={fp8_e4m3,int8} kv_scale=per_token_head layout={NHD,SHUFFLE} heads=8/4");
}

TEST(KnownFailures, B14_BuildDoesNotWaitForABusyDevice) {
  RawAttention raw(make_spec(4, 2, 64), {4, 64, 512}, 64);
  raw.write(random_floats(128, 1), random_floats(128, 2), {0});
  RawAttention::Step step = raw.make_step(random_floats(512, 3), {0, 1, 2}, {1, 1}, {0, 0});
  const Buffer large = raw.device().allocate(size_t{256} << 20).value();
  const auto event = raw.device().create_event().value();
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(raw.stream().fill(large.data(), static_cast<uint8_t>(i), large.bytes()).ok());
  }
  ASSERT_TRUE(raw.stream().record(*event).ok());
  const DeviceCounters before = raw.device().counters();
  ASSERT_TRUE(raw.enqueue(step).ok());
  EXPECT_FALSE(event->query()) << "build returned after the queue had drained";
  const DeviceCounters used = raw.device().counters() - before;
  EXPECT_EQ(used.waits, 0U);
  EXPECT_EQ(used.d2h_copies, 0U);
  EXPECT_EQ(used.allocations, 0U);
  ASSERT_TRUE(raw.stream().synchronize().ok());
}

TEST(KnownFailures, B15_EmptyContextChunks) {
  expect_passed("gather={16384,20480} heads=2/1 head_size=16 rows=4@104+4@20004");
}

TEST(KnownFailures, B17_ScatteredLargeBlocks) {
  expect_passed(
      "heads=8/8 head_size=128 block=128 kv=bfloat16 dtype=bfloat16 rows=8@300+16@128+5@5");
}

TEST(KnownFailures, B19_TheEnvironmentDecidesNothing) {
  setenv("VLLM_ROCM_USE_AITER", "0", 1);
  setenv("VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT", "1", 1);
  expect_passed("layout={NHD,SHUFFLE}");
  unsetenv("VLLM_ROCM_USE_AITER");
  unsetenv("VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT");
}

TEST(KnownFailures, B20_WhatIsAskedForAndServedIsChosen) {
  const auto device = create_device("cpu").value();
  for (const char* kernel : {"", "cpu_simd", "ref"}) {
    AttentionSpec spec = make_spec(64, 4, 128);
    spec.kernel = kernel;
    const std::string name = *kernel == '\0' ? "cpu_simd" : kernel;
    EXPECT_EQ(AttentionBackend::create(*device, spec, {2, 8, 64}).value()->kernel_names(),
              fmt::format("decode: {0}, extend: {0}, prefill: {0}", name));
  }
}

TEST(KnownFailures, B21_ALayoutOtherThanTheSpecsIsRejected) {
  AttentionSpec spec = make_spec(2, 2, 16);
  spec.kv_cache_dtype = DType::kBFloat16;
  RawAttention raw(spec, {2, 8, 64}, 4);
  RawAttention::Step step = raw.make_step(random_floats(32, 3), {0, 1}, {1}, {0});
  KVCacheShape shuffled = raw.shape();
  shuffled.layout = KVCacheLayout::kShuffle;
  raw.layer().cache =
      make_kv_cache_view(shuffled, raw.layer().cache.key.data, raw.layer().cache.value.data)
          .value();
  EXPECT_NE(raw.enqueue(step).message().find("the layout is SHUFFLE; expected NHD"),
            std::string::npos);
  ASSERT_TRUE(raw.stream().synchronize().ok());
}

TEST(KnownFailures, B22_AMillionTokensOfContextFitTheWorkspace) {
  AttentionSpec spec = make_spec(8, 8, 128);
  spec.dtype = DType::kBFloat16;
  spec.kv_cache_dtype = DType::kBFloat16;
  spec.extend_strategy = ExtendStrategy::kGather;
  const auto device = create_device("cpu").value();
  const auto bytes = [&](int64_t max_model_len) {
    return AttentionBackend::create(*device, spec, {1, 512, max_model_len})
        .value()
        ->workspace_bytes();
  };
  // The workspace of 32768 tokens is the same; only what decodes need grows, 1 % of a cache.
  const size_t gather = size_t{2} * 32768 * 8 * 128 * 2;
  EXPECT_GE(bytes(4096), gather);
  EXPECT_LE(bytes(1 << 20) - bytes(4096), size_t{4096} * 8 * 130 * 4 + 200000);
}

TEST(KnownFailures, B23_NonCausalIsNotComputedCausally) {
  expect_passed("causal=0 threshold=8 rows=8@100+5@300+40@90+9@9 layout={NHD,SHUFFLE}");
}

TEST(KnownFailures, B24_UnsupportedDevicesAreRefused) {
  const auto reasons = AttentionBackend::why_not(DeviceKind::kHip, make_spec(4, 2, 64));
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("device hip"), std::string::npos);
}

// aiter#2517, #2608: 32-bit offsets. The cache is larger than memory; only what is used is touched.
TEST(KnownFailures, Adjacent_OffsetsBeyond2To31And2To32) {
  for (const KVCacheLayout layout : {KVCacheLayout::kNHD, KVCacheLayout::kShuffle}) {
    AttentionSpec spec = make_spec(8, 8, 512);  // 2^16 elements a block
    spec.kv_cache_dtype = DType::kFloat8E4M3;
    spec.kv_cache_layout = layout;
    if (create_device("cpu").value()->info().memory_bytes < (size_t{12} << 30)) {
      GTEST_SKIP() << "two caches of 4.6 GB need a machine of 12 GiB";
    }
    RawAttention raw(spec, {4, 16, 64}, 70000);
    const std::vector<int32_t> blocks{32767, 32768, 65535, 65536, 69999};
    for (const int32_t block : blocks) {
      raw.write(random_floats(8 * 512, 1),
                std::vector<float>(8 * 512, 1.0F + 0.125F * static_cast<float>(block % 8)),
                {int64_t{block} * 16});
    }
    for (const int32_t block : blocks) {
      const auto out = raw.attend(random_floats(8 * 512, 2), {0, 1}, {1}, {block});
      EXPECT_EQ(out, std::vector<float>(8 * 512, 1.0F + 0.125F * static_cast<float>(block % 8)));
    }
  }
}

TEST(KnownFailures, I1_SoftCapInEveryPhase) {
  expect_passed("softcap=5 spread=4 rows=1@90+40@90+90@90 layout={NHD,SHUFFLE}");
}

TEST(KnownFailures, I3_GroupsAbove16) {
  expect_passed("heads={64/2,40/2} head_size=64 layout={NHD,SHUFFLE} rows=1@70+20@90+7@7");
}

TEST(KnownFailures, I4_TheScaleIsUsed) {
  expect_passed(
      "scale={1,0.05} head_size=128 layout=SHUFFLE kv=bfloat16 heads=8/1 rows={1@70,100*1@70}");
}

TEST(KnownFailures, I5_FeaturesOfShuffledDecodes) {
  expect_passed(
      "layout=SHUFFLE kv={bfloat16,fp8_e4m3} alibi={0,1} softcap={0,5} window={0,30} rows=3*1@100");
}

TEST(KnownFailures, I7_GatheredValuesKeepTheirScale) {
  AttentionSpec spec = make_spec(2, 1, 16);
  spec.kv_cache_dtype = DType::kFloat8E4M3;
  spec.extend_strategy = ExtendStrategy::kGather;
  spec.extend_workspace_tokens = 256;
  RawAttention raw(spec, {2, 16, 512}, 8);
  const Buffer four = to_device(raw.stream(), std::vector<float>{4.0F}).value();
  raw.layer().cache.k_scale = raw.layer().cache.v_scale = KVScale::per_tensor(four.as<float>());
  std::vector<int64_t> slots{0, 1, 2, 3, 4, 5, 6, 7};
  raw.write(random_floats(8 * 16, 1), std::vector<float>(8 * 16, 1792.0F), slots);  // 448 * 4
  const auto out = raw.attend(random_floats(4 * 32, 2), {0, 4}, {8}, {0});
  for (const float value : out) {
    EXPECT_NEAR(value, 1792.0F, 1792.0F * 0x1p-22F);  // weights that sum to 1 within rounding
  }
}

TEST(KnownFailures, I9_AnEmptyContextInEveryChunk) {
  expect_passed("gather=32768 heads=2/1 head_size=16 rows=4@40004+1@1");
}

TEST(KnownFailures, I10_MetadataOfManyLongExtends) {
  for (const ExtendStrategy strategy : {ExtendStrategy::kInPlace, ExtendStrategy::kGather}) {
    AttentionSpec spec = make_spec(2, 1, 16);
    spec.extend_strategy = strategy;
    const auto device = create_device("cpu").value();
    const auto stream = device->create_stream().value();
    // Room for partial results of decodes is not metadata: this batch has none.
    AttentionLimits limits{128, 1024, 131072};
    limits.max_kv_tokens = 131072;
    const auto backend = AttentionBackend::create(*device, spec, limits).value();
    EXPECT_LE(backend->workspace_bytes(), size_t{64} << 20);
    std::vector<int32_t> starts;
    for (int32_t i = 0; i <= 128; ++i) {
      starts.push_back(i * 8);
    }
    const std::vector<int32_t> lens(128, 131072);
    const Buffer starts_buffer = to_device(*stream, starts).value();
    const Buffer lens_buffer = to_device(*stream, lens).value();
    const Buffer table = device->allocate(size_t{128} * 8192 * sizeof(int32_t)).value();
    CommonAttentionMetadata batch;
    batch.num_reqs = 128;
    batch.num_actual_tokens = 1024;
    batch.max_query_len = 8;
    batch.query_start_loc_cpu = starts;
    batch.seq_lens_cpu_upper_bound = lens;
    batch.query_start_loc = TensorView::contiguous(starts_buffer.data(), DType::kInt32, {129});
    batch.seq_lens = TensorView::contiguous(lens_buffer.data(), DType::kInt32, {128});
    batch.block_table = TensorView::contiguous(table.data(), DType::kInt32, {128, 8192});
    const DeviceCounters before = device->counters();
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(backend->build(*stream, batch).ok());
    ASSERT_TRUE(stream->synchronize().ok());  // the planning kernel too
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), 0.005);
    EXPECT_EQ((device->counters() - before).allocations, 0U);
  }
}

TEST(KnownFailures, I11_ALooseQueryBoundKeepsTheDecodes) {
  const std::vector<int32_t> starts{0, 1, 2};
  const std::vector<int32_t> lens{9, 40};
  const auto split = split_decodes_prefills_and_extends(8, 2, 1, starts, lens);
  EXPECT_EQ(split.value(), (BatchSplit{2, 0, 0, 2, 0, 0}));
}

TEST(KnownFailures, I13_WindowedExtendsOfShuffledCaches) {
  expect_passed("layout=SHUFFLE window=128 kv={bfloat16,fp8_e4m3} rows=40@300+20@700");
  expect_passed("layout=SHUFFLE window=128 gather=512 kv={bfloat16,fp8_e4m3} rows=40@300+20@700");
}

TEST(KnownFailures, I15_NothingIsCompiledOrAllocatedAtALength) {
  RawAttention raw(make_spec(2, 1, 16), {2, 16, 20000}, 1300);
  std::vector<int32_t> table(1280);
  std::vector<int64_t> slots(20000);
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<int32_t>(i);
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    slots[i] = static_cast<int64_t>(i);
  }
  raw.write(random_floats(20000 * 16, 1), std::vector<float>(20000 * 16, 2.0F), slots);
  std::vector<double> seconds;
  const auto timed = [&](int32_t seq_len) {
    RawAttention::Step step = raw.make_step(random_floats(32, 3), {0, 1}, {seq_len}, table);
    const DeviceCounters before = raw.device().counters();
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(raw.enqueue(step).ok());
    EXPECT_EQ((raw.device().counters() - before).allocations, 0U);
    EXPECT_TRUE(raw.stream().synchronize().ok());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  timed(16000);
  for (int32_t seq_len = 16380; seq_len <= 16390; ++seq_len) {
    EXPECT_LT(timed(seq_len), 0.25) << seq_len;  // a step takes 1 ms, a compilation seconds
  }
}

TEST(KnownFailures, I16_LayersWithDifferentWindows) {
  expect_passed("window=512 layer_window={128,512,0} rows=1@900+20@900+19@19");
  // A backend without windows does not ignore one: it refuses.
  RawAttention raw(make_spec(2, 1, 16), {2, 16, 64}, 4);
  RawAttention::Step step = raw.make_step(random_floats(32, 3), {0, 1}, {1}, {0});
  raw.layer().sliding_window = 8;
  EXPECT_EQ(raw.enqueue(step).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(raw.stream().synchronize().ok());
}

TEST(KnownFailures, I18_QueryStartsOfExactlyOneMoreThanDecodes) {
  // The harness allocates no entry more; the sanitizers watch.
  expect_passed("rows=3*1@40");
  expect_passed("threshold=4 rows=4@50+1@30+3@300");
}

TEST(KnownFailures, I19_ABatchOutOfOrderIsRejected) {
  RawAttention raw(make_spec(2, 1, 16), {4, 16, 64}, 4);
  RawAttention::Step step =
      raw.make_step(random_floats(9 * 32, 3), {0, 5, 9}, {5, 20}, {0, 1, 2, 3});
  const Status status = raw.enqueue(step);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("request 1"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace paceline
