// What the attention backend refuses, and what it says.
#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/attention.h"

namespace paceline {
namespace {

AttentionSpec good_spec() {
  AttentionSpec spec;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_size = 32;
  return spec;
}

const AttentionLimits kLimits{
    .max_num_seqs = 4, .max_num_batched_tokens = 64, .max_model_len = 512};

class RefusalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = create_device("cpu", {.num_threads = 1}).value();
    stream_ = device_->create_stream().value();
  }

  void expect_spec_refused(const AttentionSpec& spec, StatusCode code,
                           const std::vector<std::string>& words) {
    const auto backend = AttentionBackend::create(*device_, spec, kLimits);
    ASSERT_FALSE(backend.ok());
    EXPECT_EQ(backend.status().code(), code) << backend.status().to_string();
    EXPECT_FALSE(AttentionBackend::why_not(DeviceKind::kCpu, spec).empty());
    for (const std::string& word : words) {
      EXPECT_NE(backend.status().message().find(word), std::string::npos)
          << word << " not in: " << backend.status().message();
    }
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(RefusalTest, AServedSpecHasNoReasons) {
  EXPECT_TRUE(AttentionBackend::why_not(DeviceKind::kCpu, good_spec()).empty());
  const auto backend = AttentionBackend::create(*device_, good_spec(), kLimits).value();
  EXPECT_EQ(backend->kernel_names(), "decode: cpu_simd, extend: cpu_simd, prefill: cpu_simd");
  AttentionSpec odd = good_spec();
  odd.head_size = 36;  // not a multiple of 8: the reference serves it
  EXPECT_EQ(AttentionBackend::create(*device_, odd, kLimits).value()->kernel_names(),
            "decode: ref, extend: ref, prefill: ref");
}

TEST_F(RefusalTest, NonsenseListsEveryReason) {
  AttentionSpec spec = good_spec();
  spec.num_heads = 5;
  spec.reorder_batch_threshold = 0;
  spec.dtype = DType::kInt32;
  spec.block_size = 0;
  expect_spec_refused(spec, StatusCode::kInvalidArgument,
                      {"5 is not a multiple of num_kv_heads 2", "reorder_batch_threshold is 0",
                       "dtype int32", "block_size is 0"});
  spec = good_spec();
  spec.num_kv_heads = 0;
  expect_spec_refused(spec, StatusCode::kInvalidArgument, {"num_kv_heads is 0"});
}

TEST_F(RefusalTest, FeaturesThatNoKernelHas) {
  AttentionSpec spec = good_spec();
  spec.attention_type = AttentionType::kEncoderDecoder;
  expect_spec_refused(spec, StatusCode::kUnsupported, {"attention_type must be decoder"});
  spec = good_spec();
  spec.kernel = "cpu_simd";
  spec.head_size = 36;
  expect_spec_refused(spec, StatusCode::kUnsupported, {"36 is not a multiple of 8"});
  spec.kernel = "nothing";
  expect_spec_refused(spec, StatusCode::kUnsupported, {"possible are cpu_simd, ref"});
}

TEST_F(RefusalTest, OtherDevicesAreNotServedYet) {
  const auto reasons = AttentionBackend::why_not(DeviceKind::kHip, good_spec());
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("no decode kernel for device hip"), std::string::npos) << reasons[0];
}

TEST_F(RefusalTest, LimitsThatMakeNoSense) {
  for (AttentionLimits limits : {AttentionLimits{0, 1, 1}, AttentionLimits{1, 0, 1},
                                 AttentionLimits{1, 1, 0}, AttentionLimits{1, 1, 1, -1}}) {
    EXPECT_EQ(AttentionBackend::create(*device_, good_spec(), limits).status().code(),
              StatusCode::kInvalidArgument);
  }
}

// build() checks a batch before anything is enqueued.
class BatchTest : public RefusalTest {
 protected:
  void SetUp() override {
    RefusalTest::SetUp();
    backend_ = AttentionBackend::create(*device_, good_spec(), kLimits).value();
  }

  Status build(std::vector<int32_t> starts, std::vector<int32_t> lens, int columns = 32,
               int max_query_len = -1) {
    const auto reqs = static_cast<int>(lens.size());
    std::vector<int32_t> table(static_cast<size_t>(reqs) * 32, 0);
    CommonAttentionMetadata batch;
    batch.num_reqs = reqs;
    batch.num_actual_tokens = std::max(starts.back(), 0);
    for (size_t i = 0; i < lens.size(); ++i) {
      const int64_t query_len = int64_t{starts[i + 1]} - starts[i];
      batch.max_query_len = static_cast<int>(std::max<int64_t>(batch.max_query_len, query_len));
    }
    if (max_query_len >= 0) {
      batch.max_query_len = max_query_len;
    }
    batch.query_start_loc_cpu = starts;
    batch.seq_lens_cpu_upper_bound = lens;
    batch.query_start_loc = TensorView::contiguous(starts.data(), DType::kInt32, {reqs + 1});
    batch.seq_lens = TensorView::contiguous(lens.data(), DType::kInt32, {reqs});
    batch.block_table = TensorView::contiguous(table.data(), DType::kInt32, {reqs, columns});
    const auto metadata = backend_->build(*stream_, batch);
    EXPECT_TRUE(stream_->synchronize().ok());
    return metadata.ok() ? Status() : metadata.status();
  }

  std::unique_ptr<AttentionBackend> backend_;
};

TEST_F(BatchTest, GoodOnesPass) {
  EXPECT_TRUE(build({0}, {}).ok());
  EXPECT_TRUE(build({0, 1, 2, 6, 13}, {10, 300, 36, 7}).ok());
}

TEST_F(BatchTest, BadOnesAreNamed) {
  const auto expect = [&](const Status& status, StatusCode code, const char* words) {
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_NE(status.message().find(words), std::string::npos) << status.to_string();
  };
  expect(build({0, 5, 9}, {5, 20}), StatusCode::kInvalidArgument, "request 1");
  expect(build({0, 5}, {4}), StatusCode::kInvalidArgument, "query_len 5 and seq_len 4");
  expect(build({0, 3, 1}, {3, 9}), StatusCode::kInvalidArgument, "query_len -2");
  expect(build({1, 2}, {3}), StatusCode::kInvalidArgument, "runs from 1");
  expect(build({0, 5, INT32_MIN, 1}, {5, 9, 9}), StatusCode::kInvalidArgument, "query_len");
  expect(build({0, 1}, {513}), StatusCode::kResourceExhausted, "max_model_len 512");
  expect(build({0, 65}, {65}), StatusCode::kResourceExhausted, "max_num_batched_tokens 64");
  expect(build({0, 1, 2, 3, 4, 5}, {5, 5, 5, 5, 5}), StatusCode::kResourceExhausted,
         "max_num_seqs 4");
  expect(build({0, 1}, {100}, 6), StatusCode::kInvalidArgument, "needs 7 blocks");
  expect(build({0, 4}, {9}, 32, 2), StatusCode::kInvalidArgument, "max_query_len 2");
}

TEST_F(BatchTest, TensorsOfTheWrongShapeAreRefused) {
  float memory[512] = {};
  KVCacheView cache;
  cache.key = TensorView::contiguous(memory, DType::kFloat32, {1, 16, 2, 32});
  cache.value = cache.key;
  int64_t slots[1] = {-1};
  const auto slot_view = TensorView::contiguous(slots, DType::kInt64, {1});
  const auto k = TensorView::contiguous(memory, DType::kFloat32, {1, 2, 32});
  EXPECT_TRUE(backend_->update_kv_cache(*stream_, k, k, slot_view, cache).ok());
  const auto half = TensorView::contiguous(memory, DType::kFloat16, {1, 2, 32});
  EXPECT_FALSE(backend_->update_kv_cache(*stream_, half, k, slot_view, cache).ok());
  EXPECT_FALSE(backend_->update_kv_cache(*stream_, TensorView(), k, slot_view, cache).ok());
  TensorView strided = k;
  strided.strides[2] = 2;
  EXPECT_FALSE(backend_->update_kv_cache(*stream_, k, strided, slot_view, cache).ok());
  int64_t* no_slots = nullptr;
  const auto null_slots = TensorView::contiguous(no_slots, DType::kInt64, {1});
  EXPECT_NE(backend_->update_kv_cache(*stream_, k, k, null_slots, cache)
                .message()
                .find("slot_mapping is null, for 1 tokens"),
            std::string::npos);
  const auto wrong_slots = TensorView::contiguous(slots, DType::kInt32, {1});
  EXPECT_FALSE(backend_->update_kv_cache(*stream_, k, k, wrong_slots, cache).ok());
  cache.k_scale.head_stride = 1;
  EXPECT_FALSE(backend_->update_kv_cache(*stream_, k, k, slot_view, cache).ok());
  EXPECT_TRUE(stream_->synchronize().ok());
}

}  // namespace
}  // namespace paceline
