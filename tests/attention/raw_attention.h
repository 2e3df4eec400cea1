// A backend and a cache that a test drives step by step, over memory that is touched only where it
// is used: so a cache may be far larger than what is resident.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "attention/dispatch.h"
#include "conformance/harness.h"
#include "conformance/transfer.h"

namespace paceline::testing {

inline AttentionSpec make_spec(int heads, int kv_heads, int head_size, DType kv = DType::kFloat32) {
  AttentionSpec spec;
  spec.num_heads = heads;
  spec.num_kv_heads = kv_heads;
  spec.head_size = head_size;
  spec.kv_cache_dtype = kv;
  return spec;
}

inline std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(rng);
  }
  return values;
}

class RawAttention {
 public:
  RawAttention(const AttentionSpec& spec, const AttentionLimits& limits, int64_t num_blocks,
               int threads = 2)
      : spec_(spec) {
    device_ = create_device("cpu", {.num_threads = threads}).value();
    stream_ = device_->create_stream().value();
    auto backend = AttentionBackend::create(*device_, spec, limits);
    EXPECT_TRUE(backend.ok()) << backend.status().to_string();
    backend_ = std::move(backend).value();
    shape_ = cache_shape(spec, num_blocks);
    key_ = device_->allocate(static_cast<size_t>(shape_.key_bytes())).value();
    value_ = device_->allocate(static_cast<size_t>(shape_.value_bytes())).value();
    layer_.cache = make_kv_cache_view(shape_, key_.data(), value_.data()).value();
    layer_.kv_sharing = true;  // attend() reads what write() wrote
  }

  // k: [slots, num_kv_heads, head_size], v likewise; float32 specs only.
  void write(const std::vector<float>& k, const std::vector<float>& v,
             const std::vector<int64_t>& slots) {
    const Buffer k_buffer = to_device(*stream_, k).value();
    const Buffer v_buffer = to_device(*stream_, v).value();
    const Buffer slot_buffer = to_device(*stream_, slots).value();
    const auto n = static_cast<int64_t>(slots.size());
    const Status status = backend_->update_kv_cache(
        *stream_, view(k_buffer, n, spec_.num_kv_heads, shape_.head_size),
        view(v_buffer, n, spec_.num_kv_heads, shape_.value_size()),
        TensorView::contiguous(slot_buffer.data(), DType::kInt64, {n}), layer_.cache);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(stream_->synchronize().ok());
  }

  // A batch on the device.
  struct Step {
    std::vector<int32_t> starts_host;
    std::vector<int32_t> lens_host;
    Buffer starts, lens, table, q, out;
    CommonAttentionMetadata batch;
    TensorView q_view, out_view;
  };
  Step make_step(const std::vector<float>& q, const std::vector<int32_t>& starts,
                 const std::vector<int32_t>& lens, const std::vector<int32_t>& table) {
    Step s;
    s.starts_host = starts;
    s.lens_host = lens;
    s.starts = to_device(*stream_, starts).value();
    s.lens = to_device(*stream_, lens).value();
    s.table = to_device(*stream_, table).value();
    s.q = to_device(*stream_, q).value();
    const int64_t tokens = starts.back();
    const auto reqs = static_cast<int64_t>(lens.size());
    s.out = device_
                ->allocate(static_cast<size_t>(tokens * spec_.num_heads * shape_.value_size()) *
                           sizeof(float))
                .value();
    s.q_view = view(s.q, tokens, spec_.num_heads, shape_.head_size);
    s.out_view = view(s.out, tokens, spec_.num_heads, shape_.value_size());
    s.batch.num_reqs = static_cast<int>(reqs);
    s.batch.num_actual_tokens = static_cast<int>(tokens);
    for (size_t i = 0; i < lens.size(); ++i) {
      s.batch.max_query_len = std::max(s.batch.max_query_len, starts[i + 1] - starts[i]);
    }
    s.batch.query_start_loc = TensorView::contiguous(s.starts.data(), DType::kInt32, {reqs + 1});
    s.batch.seq_lens = TensorView::contiguous(s.lens.data(), DType::kInt32, {reqs});
    s.batch.block_table = TensorView::contiguous(
        s.table.data(), DType::kInt32,
        {reqs, static_cast<int64_t>(table.size()) / std::max<int64_t>(1, reqs)});
    return s;
  }
  // The spans of a Step refer to it, so they are set where it lies.
  Status enqueue(Step& s) {
    s.batch.query_start_loc_cpu = s.starts_host;
    s.batch.seq_lens_cpu_upper_bound = s.lens_host;
    const auto metadata = backend_->build(*stream_, s.batch);
    if (!metadata.ok()) {
      return metadata.status();
    }
    const Status status =
        backend_->forward(*stream_, *metadata, layer_, s.q_view, {}, {}, s.out_view);
    if (!status.ok()) {  // the planning is queued, and a test may give up its step now
      EXPECT_TRUE(stream_->synchronize().ok());
    }
    return status;
  }
  std::vector<float> result(const Step& s) { return download<float>(*stream_, s.out).value(); }
  std::vector<float> attend(const std::vector<float>& q, const std::vector<int32_t>& starts,
                            const std::vector<int32_t>& lens, const std::vector<int32_t>& table) {
    Step s = make_step(q, starts, lens, table);
    EXPECT_TRUE(stream_->fill(s.out.data(), 0xFF, s.out.bytes()).ok());
    const Status status = enqueue(s);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return result(s);
  }

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  AttentionBackend& backend() { return *backend_; }
  AttentionLayer& layer() { return layer_; }
  const KVCacheShape& shape() const { return shape_; }

 private:
  TensorView view(const Buffer& buffer, int64_t tokens, int64_t heads, int64_t size) const {
    return TensorView::contiguous(buffer.data(), spec_.dtype, {tokens, heads, size});
  }

  AttentionSpec spec_;
  KVCacheShape shape_;
  std::unique_ptr<Device> device_;
  Buffer key_;
  Buffer value_;
  AttentionLayer layer_;
  std::unique_ptr<AttentionBackend> backend_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace paceline::testing
