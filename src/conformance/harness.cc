#include "conformance/harness.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "attention/batch_split.h"
#include "attention/dispatch.h"
#include "base/errors.h"
#include "base/float_rows.h"
#include "base/status_macros.h"
#include "conformance/oracle.h"
#include "conformance/transfer.h"

namespace paceline {
namespace {

void append_tokens(const std::vector<float>& source, int64_t begin, int64_t end, int64_t width,
                   std::vector<float>& out) {
  out.insert(out.end(), source.begin() + begin * width, source.begin() + end * width);
}

int value_size(const AttentionSpec& spec) { return cache_shape(spec, 1).value_size(); }

// A byte that repeats to NaN, or to the lowest code of a format without one.
uint8_t poison_byte(DType dtype) {
  return dtype == DType::kFloat8E4M3FNUZ || dtype == DType::kInt8 ? 0x80 : 0xFF;
}

}  // namespace

std::vector<std::byte> to_dtype(DType dtype, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * dtype_size(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    store_float(dtype, bytes.data(), static_cast<int64_t>(i), values[i]);
  }
  return bytes;
}

std::vector<float> from_dtype(DType dtype, const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / dtype_size(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = load_float(dtype, bytes.data(), static_cast<int64_t>(i));
  }
  return values;
}

Sequence random_sequence(const AttentionSpec& spec, int64_t length, uint32_t seed, float spread) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0F, spread);
  const auto fill = [&](int heads, int size) {
    std::vector<float> values(static_cast<size_t>(length * heads * size));
    for (float& value : values) {
      value = normal(rng);
    }
    return from_dtype(spec.dtype, to_dtype(spec.dtype, values));
  };
  Sequence sequence;
  sequence.length = length;
  sequence.q = fill(spec.num_heads, spec.head_size);
  sequence.k = fill(spec.num_kv_heads, spec.head_size);
  sequence.v = fill(spec.num_kv_heads, value_size(spec));
  return sequence;
}

std::vector<Row> in_order(const std::vector<Row>& rows, int reorder_batch_threshold) {
  std::vector<int32_t> scheduled;
  std::vector<int32_t> computed;
  for (const Row& row : rows) {
    scheduled.push_back(row.query_len);
    computed.push_back(row.seq_len - row.query_len);
  }
  std::vector<Row> ordered;
  for (const int index : reorder_batch(scheduled, computed, reorder_batch_threshold)) {
    ordered.push_back(rows[static_cast<size_t>(index)]);
  }
  return ordered;
}

std::vector<int64_t> random_tree(int32_t query_len, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<int64_t> masks;
  for (int32_t t = 0; t < query_len; ++t) {
    // A parent among the earlier tokens, or none: a second root.
    const auto parent = static_cast<int32_t>(rng() % static_cast<uint32_t>(t + 1)) - 1;
    const uint64_t above =
        parent < 0 ? 0 : static_cast<uint64_t>(masks[static_cast<size_t>(parent)]);
    masks.push_back(static_cast<int64_t>(above | (uint64_t{1} << t)));
  }
  return masks;
}

Result<std::unique_ptr<Harness>> Harness::create(Device& device, const AttentionSpec& spec,
                                                 const HarnessOptions& options) {
  std::unique_ptr<Harness> harness(new Harness(device, spec, options));
  PACELINE_RETURN_IF_ERROR(harness->allocate());
  return harness;
}

Status Harness::allocate() {
  AttentionLimits limits;
  limits.max_num_seqs = options_.max_num_seqs;
  limits.max_num_batched_tokens = options_.max_num_batched_tokens;
  limits.max_model_len = options_.max_model_len;
  PACELINE_ASSIGN_OR_RETURN(backend_, AttentionBackend::create(device_, spec_, limits));
  shape_ = cache_shape(spec_, options_.num_blocks);
  PACELINE_ASSIGN_OR_RETURN(stream_, device_.create_stream());
  PACELINE_ASSIGN_OR_RETURN(key_, device_.allocate(static_cast<size_t>(shape_.key_bytes())));
  PACELINE_ASSIGN_OR_RETURN(value_, device_.allocate(static_cast<size_t>(shape_.value_bytes())));
  std::vector<float> scales;
  for (int which = 0; which < 2; ++which) {
    for (int head = 0; head < spec_.num_kv_heads; ++head) {
      scales.push_back(given_scale(which, head));
    }
  }
  if (spec_.kv_scale == KVScaleKind::kPerTokenHead) {
    scales.assign(static_cast<size_t>(2 * shape_.token_head_scales()), NAN);
  }
  PACELINE_ASSIGN_OR_RETURN(scales_, to_device(*stream_, scales));
  std::vector<float> per_head = slopes();
  per_head.resize(static_cast<size_t>(spec_.num_heads));
  const std::vector<float> sink_values = sinks();
  per_head.insert(per_head.end(), sink_values.begin(), sink_values.end());
  PACELINE_ASSIGN_OR_RETURN(per_head_, to_device(*stream_, per_head));
  return {};
}

float Harness::given_scale(int which, int kv_head) const {
  if (spec_.kv_scale == KVScaleKind::kPerTokenHead) {
    return 1.0F;
  }
  const float first = which == 0 ? options_.k_scale : options_.v_scale;
  const auto growth = static_cast<float>(spec_.kv_scale == KVScaleKind::kPerHead ? kv_head : 0);
  return first * (1.0F + 0.25F * growth);
}

std::vector<float> Harness::slopes() const {
  std::vector<float> slopes;
  for (int head = 0; spec_.alibi && head < spec_.num_heads; ++head) {
    slopes.push_back(
        std::exp2(-8.0F * static_cast<float>(head + 1) / static_cast<float>(spec_.num_heads)));
  }
  return slopes;
}

std::vector<float> Harness::sinks() const {
  std::vector<float> sinks;
  for (int head = 0; spec_.sinks && head < spec_.num_heads; ++head) {
    sinks.push_back(static_cast<float>(head % 7) - 2.5F);
  }
  return sinks;
}

AttentionLayer Harness::layer() const {
  AttentionLayer layer;
  layer.cache = make_kv_cache_view(shape_, key_.data(), value_.data()).value();
  auto* scales = scales_.as<float>();
  switch (spec_.kv_scale) {
    case KVScaleKind::kPerTensor:
      layer.cache.k_scale = KVScale::per_tensor(scales);
      layer.cache.v_scale = KVScale::per_tensor(scales + spec_.num_kv_heads);
      break;
    case KVScaleKind::kPerHead:
      layer.cache.k_scale = KVScale::per_head(scales);
      layer.cache.v_scale = KVScale::per_head(scales + spec_.num_kv_heads);
      break;
    case KVScaleKind::kPerTokenHead:
      layer.cache.k_scale = KVScale::per_token_head(scales, shape_);
      layer.cache.v_scale = KVScale::per_token_head(scales + shape_.token_head_scales(), shape_);
      break;
  }
  if (options_.k_scale == 1.0F && spec_.kv_scale == KVScaleKind::kPerTensor) {
    layer.cache.k_scale = {};  // the usual case: no scale
  }
  if (options_.v_scale == 1.0F && spec_.kv_scale == KVScaleKind::kPerTensor) {
    layer.cache.v_scale = {};
  }
  const auto* per_head = per_head_.as<const float>();
  layer.alibi_slopes = spec_.alibi ? per_head : nullptr;
  layer.sinks = spec_.sinks ? per_head + spec_.num_heads : nullptr;
  layer.sliding_window = options_.layer_window;
  layer.kv_sharing = options_.kv_sharing;
  return layer;
}

Status Harness::poison() {
  const uint8_t byte = poison_byte(spec_.kv_cache_dtype);
  PACELINE_RETURN_IF_ERROR(stream_->fill(key_.data(), byte, key_.bytes()));
  PACELINE_RETURN_IF_ERROR(stream_->fill(value_.data(), byte, value_.bytes()));
  if (spec_.kv_scale == KVScaleKind::kPerTokenHead) {
    return stream_->fill(scales_.data(), 0xFF, scales_.bytes());
  }
  return {};
}

Result<std::vector<std::vector<int32_t>>> Harness::assign_blocks(const std::vector<Row>& rows,
                                                                 uint32_t seed) const {
  std::vector<int32_t> all(static_cast<size_t>(options_.num_blocks));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), std::mt19937(seed));
  const auto shared = static_cast<size_t>(options_.common_prefix_len / spec_.block_size);
  std::vector<std::vector<int32_t>> blocks;
  size_t next = 0;
  for (const Row& row : rows) {
    const auto count = static_cast<size_t>((row.seq_len + spec_.block_size - 1) / spec_.block_size);
    std::vector<int32_t>& own = blocks.emplace_back();
    while (own.size() < count) {
      if (blocks.size() > 1 && own.size() < std::min(shared, blocks[0].size())) {
        own.push_back(blocks[0][own.size()]);
      } else if (next == all.size()) {
        return invalid_argument("the harness has only {} blocks", all.size());
      } else {
        own.push_back(all[next++]);
      }
    }
  }
  return blocks;
}

Status Harness::write_contexts(const std::vector<Row>& rows,
                               const std::vector<std::vector<int32_t>>& blocks) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    std::vector<float> k;
    std::vector<float> v;
    std::vector<int64_t> slots;
    slots.reserve(static_cast<size_t>(row.seq_len));
    append_tokens(row.sequence->k, 0, row.seq_len, int64_t{spec_.num_kv_heads} * spec_.head_size,
                  k);
    append_tokens(row.sequence->v, 0, row.seq_len, int64_t{spec_.num_kv_heads} * value_size(spec_),
                  v);
    for (int32_t t = 0; t < row.seq_len; ++t) {
      slots.push_back(int64_t{blocks[i][static_cast<size_t>(t / spec_.block_size)]} *
                          spec_.block_size +
                      t % spec_.block_size);
    }
    PACELINE_ASSIGN_OR_RETURN(const Buffer k_buffer, to_device(*stream_, to_dtype(spec_.dtype, k)));
    PACELINE_ASSIGN_OR_RETURN(const Buffer v_buffer, to_device(*stream_, to_dtype(spec_.dtype, v)));
    PACELINE_ASSIGN_OR_RETURN(const Buffer slot_buffer, to_device(*stream_, slots));
    const auto tokens = static_cast<int64_t>(slots.size());
    PACELINE_RETURN_IF_ERROR(backend_->update_kv_cache(
        *stream_,
        TensorView::contiguous(k_buffer.data(), spec_.dtype,
                               {tokens, spec_.num_kv_heads, spec_.head_size}),
        TensorView::contiguous(v_buffer.data(), spec_.dtype,
                               {tokens, spec_.num_kv_heads, value_size(spec_)}),
        TensorView::contiguous(slot_buffer.data(), DType::kInt64, {tokens}), layer().cache));
    PACELINE_RETURN_IF_ERROR(stream_->synchronize());
  }
  return {};
}

namespace {

// A batch's host arrays, rows in order.
struct HostBatch {
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
  std::vector<int32_t> starts{0};
  std::vector<int32_t> seq_lens;
  std::vector<int32_t> bounds;  // of seq_lens, as the host knows them
  std::vector<int64_t> trees;
  std::vector<int32_t> table;
  int64_t columns = 1;
  int32_t longest_query = 0;
};

// Runs what is queued to its end when it goes out of scope.
struct Drain {
  Stream& stream;

  explicit Drain(Stream& s) : stream(s) {}
  ~Drain() {
    if (stream.capturing()) {
      (void)stream.end_capture().ok();
    }
    (void)stream.synchronize().ok();
  }
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;
};

HostBatch make_batch(const AttentionSpec& spec, const HarnessOptions& options,
                     const std::vector<Row>& rows,
                     const std::vector<std::vector<int32_t>>& blocks) {
  HostBatch b;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const int64_t begin = row.seq_len - row.query_len;
    append_tokens(row.sequence->q, begin, row.seq_len, int64_t{spec.num_heads} * spec.head_size,
                  b.q);
    append_tokens(row.sequence->k, begin, row.seq_len, int64_t{spec.num_kv_heads} * spec.head_size,
                  b.k);
    append_tokens(row.sequence->v, begin, row.seq_len,
                  int64_t{spec.num_kv_heads} * value_size(spec), b.v);
    b.starts.push_back(b.starts.back() + row.query_len);
    b.seq_lens.push_back(row.seq_len);
    const bool decode = row.query_len <= spec.reorder_batch_threshold && begin > 0;
    b.bounds.push_back(row.seq_len + (decode ? options.seq_len_slack : 0));
    b.trees.insert(b.trees.end(), row.tree_mask.begin(), row.tree_mask.end());
    b.trees.resize(static_cast<size_t>(b.starts.back()), -1);
    b.longest_query = std::max(b.longest_query, row.query_len);
    b.columns =
        std::max<int64_t>(b.columns, (b.bounds.back() + spec.block_size - 1) / spec.block_size);
  }
  const size_t reqs = rows.size() + static_cast<size_t>(options.padded_reqs);
  b.starts.resize(reqs + 1, b.starts.back());
  b.seq_lens.resize(reqs, 0);
  b.bounds.resize(reqs, 0);
  // Unused entries name a block far outside: reading them would crash.
  b.table.assign(reqs * static_cast<size_t>(b.columns), INT32_MAX / 2);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy(blocks[i].begin(), blocks[i].end(),
              b.table.begin() + static_cast<int64_t>(i) * b.columns);
  }
  return b;
}

}  // namespace

Result<HarnessOutput> Harness::run(const std::vector<Row>& rows, uint32_t block_seed) {
  PACELINE_ASSIGN_OR_RETURN(const auto blocks, assign_blocks(rows, block_seed));
  PACELINE_RETURN_IF_ERROR(poison());
  PACELINE_RETURN_IF_ERROR(write_contexts(rows, blocks));
  const HostBatch host = make_batch(spec_, options_, rows, blocks);
  PACELINE_ASSIGN_OR_RETURN(const Buffer q, to_device(*stream_, to_dtype(spec_.dtype, host.q)));
  PACELINE_ASSIGN_OR_RETURN(const Buffer k, to_device(*stream_, to_dtype(spec_.dtype, host.k)));
  PACELINE_ASSIGN_OR_RETURN(const Buffer v, to_device(*stream_, to_dtype(spec_.dtype, host.v)));
  PACELINE_ASSIGN_OR_RETURN(const Buffer starts, to_device(*stream_, host.starts));
  PACELINE_ASSIGN_OR_RETURN(const Buffer seq_lens, to_device(*stream_, host.seq_lens));
  PACELINE_ASSIGN_OR_RETURN(const Buffer trees, to_device(*stream_, host.trees));
  PACELINE_ASSIGN_OR_RETURN(const Buffer table, to_device(*stream_, host.table));
  const int64_t tokens = host.starts.back();
  const auto reqs = static_cast<int64_t>(host.seq_lens.size());
  const auto rows_of = [&](int64_t heads) { return static_cast<size_t>(tokens * heads); };
  PACELINE_ASSIGN_OR_RETURN(
      const Buffer out,
      device_.allocate(rows_of(spec_.num_heads) * static_cast<size_t>(value_size(spec_)) *
                       dtype_size(spec_.dtype)));
  PACELINE_ASSIGN_OR_RETURN(const Buffer lse,
                            device_.allocate(rows_of(spec_.num_heads) * sizeof(float)));
  const Drain drain(*stream_);  // whatever happens: queued work uses the buffers above
  PACELINE_RETURN_IF_ERROR(stream_->fill(out.data(), 0xFF, out.bytes()));
  PACELINE_RETURN_IF_ERROR(stream_->fill(lse.data(), 0xFF, lse.bytes()));

  CommonAttentionMetadata batch;
  batch.num_reqs = static_cast<int>(reqs);
  batch.num_actual_tokens = static_cast<int>(tokens);
  batch.max_query_len = options_.max_query_len < 0 ? host.longest_query : options_.max_query_len;
  batch.common_prefix_len = options_.common_prefix_len;
  batch.query_start_loc_cpu = host.starts;
  batch.seq_lens_cpu_upper_bound = host.bounds;
  batch.query_start_loc = TensorView::contiguous(starts.data(), DType::kInt32, {reqs + 1});
  batch.seq_lens = TensorView::contiguous(seq_lens.data(), DType::kInt32, {reqs});
  batch.block_table = TensorView::contiguous(table.data(), DType::kInt32, {reqs, host.columns});
  if (spec_.tree_mask) {
    batch.tree_mask = TensorView::contiguous(trees.data(), DType::kInt64, {tokens});
  }
  const auto view = [&](const Buffer& buffer, int64_t heads, int64_t size) {
    return TensorView::contiguous(buffer.data(), spec_.dtype, {tokens, heads, size});
  };
  const int64_t kv_heads = spec_.num_kv_heads;
  const bool shares = options_.kv_sharing;
  if (options_.captured) {
    PACELINE_RETURN_IF_ERROR(stream_->begin_capture());
  }
  PACELINE_ASSIGN_OR_RETURN(const AttentionMetadata metadata, backend_->build(*stream_, batch));
  PACELINE_RETURN_IF_ERROR(backend_->forward(
      *stream_, metadata, layer(), view(q, spec_.num_heads, spec_.head_size),
      shares ? TensorView() : view(k, kv_heads, spec_.head_size),
      shares ? TensorView() : view(v, kv_heads, value_size(spec_)),
      view(out, spec_.num_heads, value_size(spec_)),
      TensorView::contiguous(lse.data(), DType::kFloat32, {tokens, spec_.num_heads})));
  if (options_.captured) {
    PACELINE_ASSIGN_OR_RETURN(const std::shared_ptr<Graph> graph, stream_->end_capture());
    PACELINE_RETURN_IF_ERROR(stream_->launch(graph));
  }
  PACELINE_RETURN_IF_ERROR(stream_->synchronize());
  HarnessOutput output;
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, download<std::byte>(*stream_, out));
  output.out = from_dtype(spec_.dtype, bytes);
  PACELINE_ASSIGN_OR_RETURN(output.lse, download<float>(*stream_, lse));
  return output;
}

namespace {

// K or V of a sequence as the cache returns them.
std::vector<float> through_cache(const Harness& harness, const AttentionSpec& spec, int which,
                                 std::vector<float> values) {
  const int size = which == 0 ? spec.head_size : value_size(spec);
  for (size_t row = 0; row * static_cast<size_t>(size) < values.size(); ++row) {
    float* data = values.data() + row * static_cast<size_t>(size);
    const int head = static_cast<int>(row % static_cast<size_t>(spec.num_kv_heads));
    const float scale = spec.kv_scale == KVScaleKind::kPerTokenHead
                            ? dynamic_scale_of_row(spec.kv_cache_dtype, data, size)
                            : harness.given_scale(which, head);
    for (int d = 0; d < size; ++d) {
      data[d] = round_through(spec.kv_cache_dtype, scale, data[d]);
    }
  }
  return values;
}

// Keeps NaN; equal infinities differ by 0.
void take_difference(double expected, double got, double& largest) {
  const double difference = expected == got ? 0.0 : std::abs(expected - got);
  if (std::isnan(difference) || difference > largest) {
    largest = difference;
  }
}

}  // namespace

Errors errors(const Harness& harness, const AttentionSpec& spec, const HarnessOptions& options,
              const std::vector<Row>& rows, const HarnessOutput& output) {
  OracleProblem p;
  p.num_heads = spec.num_heads;
  p.num_kv_heads = spec.num_kv_heads;
  p.head_size = spec.head_size;
  p.head_size_v = value_size(spec);
  p.scale = double{spec.scale.value_or(1.0F / std::sqrt(static_cast<float>(spec.head_size)))};
  p.causal = spec.causal;
  p.sliding_window = options.layer_window.value_or(spec.sliding_window);
  p.chunk_size = spec.attention_chunk_size;
  p.soft_cap = double{spec.logits_soft_cap};
  const std::vector<float> slopes = harness.slopes();
  const std::vector<float> sinks = harness.sinks();
  p.slopes = slopes;
  p.sinks = sinks;
  const auto q_width = static_cast<size_t>(spec.num_heads) * static_cast<size_t>(spec.head_size);
  Errors worst;
  size_t at = 0;
  size_t lse_at = 0;
  for (const Row& row : rows) {
    const std::vector<float> k = through_cache(harness, spec, 0, row.sequence->k);
    const std::vector<float> v = through_cache(harness, spec, 1, row.sequence->v);
    p.query_len = row.query_len;
    p.seq_len = row.seq_len;
    const bool decode =
        row.query_len <= spec.reorder_batch_threshold && row.seq_len > row.query_len;
    p.tree_mask = decode ? std::span<const int64_t>(row.tree_mask) : std::span<const int64_t>();
    p.q = std::span(row.sequence->q)
              .subspan(static_cast<size_t>(row.seq_len - row.query_len) * q_width,
                       static_cast<size_t>(row.query_len) * q_width);
    p.k = k;
    p.v = v;
    const OracleResult expected = oracle_attention(p);
    for (const double value : expected.out) {
      take_difference(value, double{output.out[at++]}, worst.out);
    }
    for (const double value : expected.lse) {
      take_difference(value, double{output.lse[lse_at++]}, worst.lse);
    }
  }
  return worst;
}

}  // namespace paceline
