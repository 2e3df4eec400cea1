#include "attention/harness.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "attention/oracle.h"
#include "base/float_rows.h"

namespace paceline::testing {
namespace {

void append_tokens(const std::vector<float>& source, int64_t begin, int64_t end, int64_t width,
                   std::vector<float>& out) {
  out.insert(out.end(), source.begin() + begin * width, source.begin() + end * width);
}

}  // namespace

std::vector<uint8_t> to_dtype(DType dtype, const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * dtype_size(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    store_float(dtype, bytes.data(), static_cast<int64_t>(i), values[i]);
  }
  return bytes;
}

std::vector<float> from_dtype(DType dtype, const std::vector<uint8_t>& bytes) {
  std::vector<float> values(bytes.size() / dtype_size(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = load_float(dtype, bytes.data(), static_cast<int64_t>(i));
  }
  return values;
}

Sequence random_sequence(const AttentionSpec& spec, int64_t length, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  const auto fill = [&](int heads) {
    std::vector<float> values(static_cast<size_t>(length * heads * spec.head_size));
    for (float& value : values) {
      value = normal(rng);
    }
    return from_dtype(spec.dtype, to_dtype(spec.dtype, values));
  };
  Sequence sequence;
  sequence.length = length;
  sequence.q = fill(spec.num_heads);
  sequence.k = fill(spec.num_kv_heads);
  sequence.v = fill(spec.num_kv_heads);
  return sequence;
}

Harness::Harness(const AttentionSpec& spec, const HarnessOptions& options)
    : spec_(spec), options_(options) {
  device_ = create_device("cpu", {.num_threads = options.num_threads}).value();
  stream_ = device_->create_stream().value();
  AttentionLimits limits;
  limits.max_num_seqs = options.max_num_seqs;
  limits.max_num_batched_tokens = options.max_num_batched_tokens;
  limits.max_model_len = options.max_model_len;
  limits.max_kv_tokens = options.num_blocks * spec.block_size;
  auto backend = AttentionBackend::create(*device_, spec, limits);
  EXPECT_TRUE(backend.ok()) << backend.status().to_string();
  backend_ = std::move(backend).value();
  const KVCacheShape shape{spec.kv_cache_layout, spec.kv_cache_dtype, options.num_blocks,
                           spec.block_size,      spec.num_kv_heads,   spec.head_size};
  key_ = DeviceArray(*device_, static_cast<size_t>(shape.bytes()));
  value_ = DeviceArray(*device_, static_cast<size_t>(shape.bytes()));
  scales_ = DeviceArray(*device_, *stream_, std::vector<float>{options.k_scale, options.v_scale});
}

Harness::~Harness() = default;

KVCacheView Harness::cache() {
  const KVCacheShape shape{spec_.kv_cache_layout, spec_.kv_cache_dtype, options_.num_blocks,
                           spec_.block_size,      spec_.num_kv_heads,   spec_.head_size};
  KVCacheView view = make_kv_cache_view(shape, key_.data(), value_.data()).value();
  view.k_scale = static_cast<const float*>(scales_.data());
  view.v_scale = view.k_scale + 1;
  return view;
}

std::vector<std::vector<int32_t>> Harness::assign_blocks(const std::vector<Row>& rows,
                                                         uint32_t seed) const {
  std::vector<int32_t> all(static_cast<size_t>(options_.num_blocks));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), std::mt19937(seed));
  std::vector<std::vector<int32_t>> blocks;
  size_t next = 0;
  for (const Row& row : rows) {
    const auto count = static_cast<size_t>((row.seq_len + spec_.block_size - 1) / spec_.block_size);
    EXPECT_LE(next + count, all.size()) << "the harness has too few blocks";
    blocks.emplace_back(all.begin() + static_cast<int64_t>(next),
                        all.begin() + static_cast<int64_t>(next + count));
    next += count;
  }
  return blocks;
}

void Harness::write_tokens(const std::vector<float>& k, const std::vector<float>& v,
                           const std::vector<int64_t>& slots) {
  const auto tokens = static_cast<int64_t>(slots.size());
  const DeviceArray k_array(*device_, *stream_, to_dtype(spec_.dtype, k));
  const DeviceArray v_array(*device_, *stream_, to_dtype(spec_.dtype, v));
  const DeviceArray slot_array(*device_, *stream_, slots);
  const auto view = [&](const DeviceArray& array) {
    return TensorView::contiguous(array.data(), spec_.dtype,
                                  {tokens, spec_.num_kv_heads, spec_.head_size});
  };
  const Status status = backend_->update_kv_cache(
      *stream_, view(k_array), view(v_array),
      TensorView::contiguous(slot_array.data(), DType::kInt64, {tokens}), cache());
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_TRUE(stream_->synchronize().ok());
}

void Harness::write_contexts(const std::vector<Row>& rows,
                             const std::vector<std::vector<int32_t>>& blocks) {
  const int64_t width = int64_t{spec_.num_kv_heads} * spec_.head_size;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<float> k;
    std::vector<float> v;
    std::vector<int64_t> slots;
    append_tokens(rows[i].sequence->k, 0, rows[i].seq_len, width, k);
    append_tokens(rows[i].sequence->v, 0, rows[i].seq_len, width, v);
    for (int32_t t = 0; t < rows[i].seq_len; ++t) {
      slots.push_back(int64_t{blocks[i][static_cast<size_t>(t / spec_.block_size)]} *
                          spec_.block_size +
                      t % spec_.block_size);
    }
    write_tokens(k, v, slots);
  }
}

std::vector<float> Harness::run(const std::vector<Row>& rows, uint32_t block_seed) {
  const std::vector<std::vector<int32_t>> blocks = assign_blocks(rows, block_seed);
  key_.poison(*stream_);
  value_.poison(*stream_);
  write_contexts(rows, blocks);

  // The batch.
  const size_t reqs = rows.size() + static_cast<size_t>(options_.padded_reqs);
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
  std::vector<int32_t> starts{0};
  std::vector<int32_t> seq_lens;
  size_t columns = 1;
  int32_t longest = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const int64_t begin = row.seq_len - row.query_len;
    const int64_t kv_width = int64_t{spec_.num_kv_heads} * spec_.head_size;
    append_tokens(row.sequence->q, begin, row.seq_len, int64_t{spec_.num_heads} * spec_.head_size,
                  q);
    append_tokens(row.sequence->k, begin, row.seq_len, kv_width, k);
    append_tokens(row.sequence->v, begin, row.seq_len, kv_width, v);
    starts.push_back(starts.back() + row.query_len);
    seq_lens.push_back(row.seq_len);
    columns = std::max(columns, blocks[i].size());
    longest = std::max(longest, row.query_len);
  }
  starts.resize(reqs + 1, starts.back());
  seq_lens.resize(reqs, 0);
  // Unused entries name a block far outside: reading them would crash.
  std::vector<int32_t> table(reqs * columns, INT32_MAX / 2);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy(blocks[i].begin(), blocks[i].end(),
              table.begin() + static_cast<int64_t>(i * columns));
  }
  const DeviceArray q_array(*device_, *stream_, to_dtype(spec_.dtype, q));
  const DeviceArray k_array(*device_, *stream_, to_dtype(spec_.dtype, k));
  const DeviceArray v_array(*device_, *stream_, to_dtype(spec_.dtype, v));
  const DeviceArray starts_array(*device_, *stream_, starts);
  const DeviceArray lens_array(*device_, *stream_, seq_lens);
  const DeviceArray table_array(*device_, *stream_, table);
  DeviceArray out(*device_, q_array.bytes());
  out.poison(*stream_);

  const int tokens = starts.back();
  const auto view = [&](const DeviceArray& array, int heads) {
    return TensorView::contiguous(array.data(), spec_.dtype, {tokens, heads, spec_.head_size});
  };
  CommonAttentionMetadata batch;
  batch.num_reqs = static_cast<int>(reqs);
  batch.num_actual_tokens = tokens;
  batch.max_query_len = options_.max_query_len < 0 ? longest : options_.max_query_len;
  batch.query_start_loc_cpu = starts;
  batch.seq_lens_cpu_upper_bound = seq_lens;
  const auto num_reqs = static_cast<int64_t>(reqs);
  batch.query_start_loc =
      TensorView::contiguous(starts_array.data(), DType::kInt32, {num_reqs + 1});
  batch.seq_lens = TensorView::contiguous(lens_array.data(), DType::kInt32, {num_reqs});
  batch.block_table = TensorView::contiguous(table_array.data(), DType::kInt32,
                                             {num_reqs, static_cast<int64_t>(columns)});
  if (options_.captured) {
    EXPECT_TRUE(stream_->begin_capture().ok());
  }
  const auto metadata = backend_->build(*stream_, batch);
  EXPECT_TRUE(metadata.ok()) << metadata.status().to_string();
  const Status status = backend_->forward(
      *stream_, *metadata, view(q_array, spec_.num_heads), view(k_array, spec_.num_kv_heads),
      view(v_array, spec_.num_kv_heads), cache(), view(out, spec_.num_heads));
  EXPECT_TRUE(status.ok()) << status.to_string();
  if (options_.captured) {
    EXPECT_TRUE(stream_->launch(stream_->end_capture().value()).ok());
  }
  EXPECT_TRUE(stream_->synchronize().ok());
  return from_dtype(spec_.dtype, out.download<uint8_t>(*stream_));
}

double max_error(const AttentionSpec& spec, const HarnessOptions& options,
                 const std::vector<Row>& rows, const std::vector<float>& out) {
  const auto through_cache = [&](const std::vector<float>& values, float scale) {
    std::vector<float> rounded(values.size());
    std::transform(values.begin(), values.end(), rounded.begin(),
                   [&](float value) { return round_through(spec.kv_cache_dtype, scale, value); });
    return rounded;
  };
  const OracleShape shape{
      spec.num_heads, spec.num_kv_heads, spec.head_size,
      double{spec.scale.value_or(1.0F / std::sqrt(static_cast<float>(spec.head_size)))}};
  const int64_t width = int64_t{spec.num_heads} * spec.head_size;
  double error = 0.0;
  size_t at = 0;
  for (const Row& row : rows) {
    const auto begin = static_cast<size_t>((row.seq_len - row.query_len) * width);
    const std::vector<double> expected = oracle_attention(
        shape,
        std::span(row.sequence->q).subspan(begin, static_cast<size_t>(row.query_len * width)),
        through_cache(row.sequence->k, options.k_scale),
        through_cache(row.sequence->v, options.v_scale), row.query_len, row.seq_len);
    for (const double value : expected) {
      const double difference = std::abs(value - double{out[at++]});
      error = std::isnan(difference) ? difference : std::max(error, difference);
      if (std::isnan(difference)) {
        return difference;
      }
    }
  }
  return error;
}

}  // namespace paceline::testing
