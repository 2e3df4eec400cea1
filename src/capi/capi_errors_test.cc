// Bad arguments of C functions are errors with words, never crashes.
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "capi/capi_test_problem.h"

namespace paceline {
namespace {

#define EXPECT_C_ERROR(call, code, words)                                        \
  do {                                                                           \
    EXPECT_EQ(call, code);                                                       \
    EXPECT_NE(std::string(paceline_last_error()).find(words), std::string::npos) \
        << paceline_last_error();                                                \
  } while (false)

class CapiErrors : public ::testing::Test {
 protected:
  void SetUp() override {
    EXPECT_C_OK(paceline_device_create("cpu", 1, &device_));
    EXPECT_C_OK(paceline_stream_create(device_, &stream_));
    EXPECT_C_OK(paceline_attention_spec_init(&spec_, sizeof spec_));
    EXPECT_C_OK(paceline_attention_limits_init(&limits_, sizeof limits_));
    EXPECT_C_OK(paceline_attention_batch_init(&batch_, sizeof batch_));
    EXPECT_C_OK(paceline_attention_layer_init(&layer_, sizeof layer_));
    EXPECT_C_OK(paceline_attention_metadata_init(&metadata_, sizeof metadata_));
    EXPECT_C_OK(paceline_kv_cache_init(&cache_, sizeof cache_));
    EXPECT_C_OK(paceline_kv_cache_shape_init(&shape_, sizeof shape_));
    spec_.num_heads = spec_.num_kv_heads = 1;
    spec_.head_size = 8;
    limits_.max_num_seqs = 2;
    limits_.max_num_batched_tokens = 4;
    limits_.max_model_len = 16;
    EXPECT_C_OK(paceline_attention_create(device_, &spec_, &limits_, &attention_));
    shape_.num_blocks = 1;
    shape_.num_kv_heads = 1;
    shape_.head_size = 8;
    EXPECT_C_OK(paceline_kv_cache_make(&shape_, floats_.data(), floats_.data() + 128, &cache_));
    layer_.cache = &cache_;
    tokens_ = tensor(floats_.data() + 256, PACELINE_FLOAT32, {2, 1, 8});
    slots_ = tensor(slot_data_.data(), PACELINE_INT64, {2});
    batch_.num_reqs = 1;
    batch_.num_actual_tokens = 2;
    batch_.max_query_len = 2;
    batch_.query_start_loc_cpu = starts_.data();
    batch_.seq_lens_cpu_upper_bound = starts_.data() + 1;
    batch_.query_start_loc = tensor(starts_.data(), PACELINE_INT32, {2});
    batch_.seq_lens = tensor(starts_.data() + 1, PACELINE_INT32, {1});
    batch_.block_table = tensor(starts_.data(), PACELINE_INT32, {1, 1});
  }
  void TearDown() override {
    EXPECT_C_OK(paceline_stream_destroy(stream_));  // runs what is queued
    EXPECT_C_OK(paceline_attention_destroy(attention_));
    EXPECT_C_OK(paceline_device_destroy(device_));
  }
  static paceline_tensor tensor(const void* data, int32_t dtype, std::vector<int64_t> dims) {
    paceline_tensor made{};
    EXPECT_C_OK(paceline_tensor_contiguous(data, dtype, static_cast<int32_t>(dims.size()),
                                           dims.data(), &made));
    return made;
  }
  paceline_status forward(const paceline_tensor& q) {
    return paceline_attention_forward(attention_, stream_, &metadata_, &layer_, &q, &tokens_,
                                      &tokens_, &tokens_, nullptr);
  }

  std::array<float, 512> floats_{};
  std::array<int32_t, 2> starts_{0, 2};
  std::array<int64_t, 2> slot_data_{0, 1};
  paceline_device* device_ = nullptr;
  paceline_stream* stream_ = nullptr;
  paceline_attention* attention_ = nullptr;
  paceline_attention_spec spec_{};
  paceline_attention_limits limits_{};
  paceline_attention_batch batch_{};
  paceline_attention_layer layer_{};
  paceline_attention_metadata metadata_{};
  paceline_kv_cache cache_{};
  paceline_kv_cache_shape shape_{};
  paceline_tensor tokens_{};
  paceline_tensor slots_{};
};

TEST_F(CapiErrors, NullEverywhere) {
  const auto refused = [](paceline_status status) {
    EXPECT_EQ(status, PACELINE_INVALID_ARGUMENT);
    EXPECT_NE(std::string(paceline_last_error()).find("null"), std::string::npos)
        << paceline_last_error();
  };
  int32_t number = 0;
  size_t size = 0;
  uint64_t value = 0;
  int64_t bytes = 0;
  void* data = nullptr;
  const char* text = nullptr;
  paceline_device* device = nullptr;
  paceline_buffer* buffer = nullptr;
  paceline_stream* stream = nullptr;
  paceline_graph* graph = nullptr;
  paceline_event* event = nullptr;
  paceline_timeline* timeline = nullptr;
  paceline_attention* attention = nullptr;
  refused(paceline_device_create(nullptr, 0, &device));
  refused(paceline_device_create("cpu", 0, nullptr));
  refused(paceline_device_kind(nullptr, &number));
  refused(paceline_device_kind(device_, nullptr));
  refused(paceline_device_name(nullptr, &text));
  refused(paceline_counters_init(nullptr, sizeof(paceline_counters)));
  refused(paceline_device_counters(device_, nullptr));
  refused(paceline_buffer_create(nullptr, 1, 0, &buffer));
  refused(paceline_buffer_create(device_, 1, 0, nullptr));
  refused(paceline_buffer_data(nullptr, &data));
  refused(paceline_buffer_bytes(nullptr, &size));
  refused(paceline_stream_create(nullptr, &stream));
  refused(paceline_stream_copy(nullptr, floats_.data(), floats_.data(), 1, 0));
  refused(paceline_stream_copy(stream_, nullptr, floats_.data(), 1, 0));
  refused(paceline_stream_copy(stream_, floats_.data(), nullptr, 1, 0));
  refused(paceline_stream_fill(stream_, nullptr, 0, 1));
  refused(paceline_stream_synchronize(nullptr));
  refused(paceline_stream_begin_capture(nullptr));
  refused(paceline_stream_end_capture(nullptr, &graph));
  refused(paceline_stream_launch(stream_, nullptr));
  refused(paceline_graph_num_nodes(nullptr, &size));
  refused(paceline_event_create(nullptr, &event));
  refused(paceline_event_query(nullptr, &number));
  refused(paceline_event_synchronize(nullptr));
  refused(paceline_stream_record(stream_, nullptr));
  refused(paceline_stream_wait(stream_, nullptr));
  refused(paceline_timeline_create(nullptr, &timeline));
  refused(paceline_timeline_value(nullptr, &value));
  refused(paceline_timeline_wait(nullptr, 0));
  refused(paceline_stream_signal(stream_, nullptr, 1));
  refused(paceline_tensor_contiguous(data, 0, 1, nullptr, &tokens_));
  refused(paceline_tensor_contiguous(data, 0, 1, &bytes, nullptr));
  refused(paceline_kv_cache_shape_init(nullptr, sizeof shape_));
  refused(paceline_kv_cache_bytes(nullptr, &bytes, &bytes));
  refused(paceline_kv_cache_make(&shape_, nullptr, floats_.data(), &cache_));
  refused(paceline_attention_spec_init(nullptr, sizeof spec_));
  refused(paceline_attention_why_not(0, nullptr, &text));
  refused(paceline_attention_create(device_, nullptr, &limits_, &attention));
  refused(paceline_attention_create(device_, &spec_, nullptr, &attention));
  refused(paceline_attention_kernel_names(nullptr, &text));
  refused(paceline_attention_workspace_bytes(nullptr, &size));
  refused(paceline_attention_build(attention_, nullptr, &batch_, &metadata_));
  refused(paceline_attention_build(attention_, stream_, nullptr, &metadata_));
  refused(paceline_attention_build(attention_, stream_, &batch_, nullptr));
  refused(
      paceline_attention_update_kv_cache(attention_, stream_, nullptr, &tokens_, &slots_, &cache_));
  refused(paceline_attention_update_kv_cache(attention_, stream_, &tokens_, &tokens_, &slots_,
                                             nullptr));
  refused(paceline_attention_forward(attention_, stream_, &metadata_, nullptr, &tokens_, &tokens_,
                                     &tokens_, &tokens_, nullptr));
  EXPECT_C_OK(paceline_buffer_destroy(nullptr));
  EXPECT_C_OK(paceline_attention_destroy(nullptr));
}

TEST_F(CapiErrors, ConstantsSizesAndSpecs) {
  paceline_device* device = nullptr;
  EXPECT_C_ERROR(paceline_device_create("abacus", 0, &device), PACELINE_NOT_FOUND, "cpu");
  EXPECT_C_ERROR(paceline_device_create("cpu", -1, &device), PACELINE_INVALID_ARGUMENT, "-1");
  paceline_buffer* buffer = nullptr;
  EXPECT_C_ERROR(paceline_buffer_create(device_, 1, 9, &buffer), PACELINE_INVALID_ARGUMENT,
                 "memory_kind is 9; 0 to 1");
  EXPECT_C_ERROR(paceline_buffer_create(device_, SIZE_MAX / 2, 0, &buffer),
                 PACELINE_RESOURCE_EXHAUSTED, std::to_string(SIZE_MAX / 2));
  EXPECT_C_ERROR(paceline_stream_copy(stream_, floats_.data(), floats_.data(), 1, 3),
                 PACELINE_INVALID_ARGUMENT, "copy_kind");
  const char* reasons = nullptr;
  paceline_attention_spec spec{};
  EXPECT_C_ERROR(paceline_attention_why_not(0, &spec, &reasons), PACELINE_INVALID_ARGUMENT,
                 "paceline_attention_spec_init");
  EXPECT_C_ERROR(paceline_attention_spec_init(&spec, sizeof spec + 8), PACELINE_INVALID_ARGUMENT,
                 std::to_string(sizeof spec + 8));
  EXPECT_C_OK(paceline_attention_spec_init(&spec, sizeof spec));
  EXPECT_C_OK(paceline_attention_why_not(0, &spec, &reasons));
  EXPECT_NE(std::string(reasons).find("head_size is 0"), std::string::npos) << reasons;
  EXPECT_NE(std::string(reasons).find("; "), std::string::npos) << reasons;
  EXPECT_C_ERROR(paceline_attention_why_not(3, &spec, &reasons), PACELINE_INVALID_ARGUMENT,
                 "device_kind");
  paceline_attention* attention = nullptr;
  EXPECT_C_ERROR(paceline_attention_create(device_, &spec, &limits_, &attention),
                 PACELINE_INVALID_ARGUMENT, "num_heads is 0");
  spec = spec_;
  spec.kernel = "no such";
  EXPECT_C_ERROR(paceline_attention_create(device_, &spec, &limits_, &attention),
                 PACELINE_UNSUPPORTED, "no such");
  spec = spec_;
  spec.kv_cache_layout = 2;
  EXPECT_C_ERROR(paceline_attention_create(device_, &spec, &limits_, &attention),
                 PACELINE_INVALID_ARGUMENT, "kv_cache_layout is 2");
  EXPECT_EQ(attention, nullptr);
  EXPECT_STREQ(paceline_status_name(PACELINE_UNSUPPORTED), "unsupported");
  EXPECT_STREQ(paceline_status_name(-5), "unknown");
}

TEST_F(CapiErrors, WrongTensors) {
  paceline_tensor bad = tokens_;
  bad.rank = 7;
  EXPECT_C_OK(paceline_attention_build(attention_, stream_, &batch_, &metadata_));
  EXPECT_C_ERROR(forward(bad), PACELINE_INVALID_ARGUMENT, "rank 7");
  bad = tensor(floats_.data(), PACELINE_FLOAT32, {2, 2, 8});
  EXPECT_C_ERROR(forward(bad), PACELINE_INVALID_ARGUMENT, "q must be");
  bad = tensor(nullptr, PACELINE_FLOAT32, {2, 1, 8});
  EXPECT_C_ERROR(forward(bad), PACELINE_INVALID_ARGUMENT, "null");
  bad.dtype = 77;
  EXPECT_C_ERROR(forward(bad), PACELINE_INVALID_ARGUMENT, "dtype is 77");
  bad = tensor(nullptr, PACELINE_INT64, {2});
  EXPECT_C_ERROR(
      paceline_attention_update_kv_cache(attention_, stream_, &tokens_, &tokens_, &bad, &cache_),
      PACELINE_INVALID_ARGUMENT, "slot_mapping is null");
  cache_.key.data = nullptr;
  EXPECT_C_ERROR(forward(tokens_), PACELINE_INVALID_ARGUMENT, "key is null");
  layer_.cache = nullptr;
  EXPECT_C_ERROR(forward(tokens_), PACELINE_INVALID_ARGUMENT, "paceline_kv_cache");
  const std::array<int64_t, 3> huge{INT64_MAX, 2, 1};
  EXPECT_C_ERROR(paceline_tensor_contiguous(nullptr, 0, 3, huge.data(), &bad),
                 PACELINE_INVALID_ARGUMENT, "2^63");
  batch_.num_reqs = -1;
  EXPECT_C_ERROR(paceline_attention_build(attention_, stream_, &batch_, &metadata_),
                 PACELINE_INVALID_ARGUMENT, "num_reqs is -1");
  batch_.num_reqs = 3;
  EXPECT_C_ERROR(paceline_attention_build(attention_, stream_, &batch_, &metadata_),
                 PACELINE_RESOURCE_EXHAUSTED, "max_num_seqs 2");
  batch_.query_start_loc_cpu = nullptr;
  EXPECT_C_ERROR(paceline_attention_build(attention_, stream_, &batch_, &metadata_),
                 PACELINE_INVALID_ARGUMENT, "query_start_loc_cpu");
}

TEST_F(CapiErrors, MetadataOfAnotherBuildIsRefused) {
  EXPECT_C_ERROR(forward(tokens_), PACELINE_FAILED_PRECONDITION, "build 0");
  EXPECT_C_OK(paceline_attention_build(attention_, stream_, &batch_, &metadata_));
  EXPECT_C_OK(forward(tokens_));
  paceline_attention_metadata newer = metadata_;
  EXPECT_C_OK(paceline_attention_build(attention_, stream_, &batch_, &newer));
  EXPECT_C_ERROR(forward(tokens_), PACELINE_FAILED_PRECONDITION, "newest");
}

TEST_F(CapiErrors, OtherDevicesAndCalls) {
  paceline_device* other = nullptr;
  paceline_event* event = nullptr;
  paceline_timeline* timeline = nullptr;
  paceline_stream* stream = nullptr;
  EXPECT_C_OK(paceline_device_create("cpu", 1, &other));
  EXPECT_C_OK(paceline_event_create(other, &event));
  EXPECT_C_OK(paceline_timeline_create(device_, &timeline));
  EXPECT_C_OK(paceline_stream_create(other, &stream));
  EXPECT_C_ERROR(paceline_stream_record(stream_, event), PACELINE_INVALID_ARGUMENT, "device");
  EXPECT_C_ERROR(paceline_attention_build(attention_, stream, &batch_, &metadata_),
                 PACELINE_INVALID_ARGUMENT, "device");
  paceline_graph* graph = nullptr;
  EXPECT_C_ERROR(paceline_stream_end_capture(stream_, &graph), PACELINE_FAILED_PRECONDITION, "");
  int32_t reached = 0;
  EXPECT_C_OK(paceline_stream_record(stream, event));
  EXPECT_C_OK(paceline_stream_wait(stream, event));
  EXPECT_C_OK(paceline_event_synchronize(event));
  EXPECT_C_OK(paceline_event_query(event, &reached));
  EXPECT_EQ(reached, 1);
  EXPECT_C_OK(paceline_stream_signal(stream_, timeline, 7));
  EXPECT_C_OK(paceline_timeline_wait(timeline, 7));
  uint64_t value = 0;
  EXPECT_C_OK(paceline_timeline_value(timeline, &value));
  EXPECT_EQ(value, 7);
  EXPECT_C_OK(paceline_stream_destroy(stream));
  EXPECT_C_OK(paceline_event_destroy(event));
  EXPECT_C_OK(paceline_timeline_destroy(timeline));
  EXPECT_C_OK(paceline_device_destroy(other));
}

TEST_F(CapiErrors, MessagesAreTheThreadsOwn) {
  paceline_device* device = nullptr;
  EXPECT_EQ(paceline_device_create("abacus", 0, &device), PACELINE_NOT_FOUND);
  std::thread([] { EXPECT_STREQ(paceline_last_error(), ""); }).join();
  EXPECT_NE(std::string(paceline_last_error()).find("abacus"), std::string::npos);
}

}  // namespace
}  // namespace paceline
