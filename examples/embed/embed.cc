// How an engine uses paceline: its own KV cache and block table, one prefill, then decode steps
// from a captured graph. q, k and v are random here; an engine computes them. docs/EMBEDDING.md
// walks through this file.
#include <paceline/attention.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

using namespace paceline;

constexpr int kHeads = 4, kKvHeads = 2, kSize = 64, kBlock = 16;
constexpr int kPrompt = 37, kSteps = 24, kLength = kPrompt + kSteps, kBlocks = 32;
constexpr int kQ = kHeads * kSize, kKv = kKvHeads * kSize;  // floats a token

void check(const Status& status) {
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.to_string().c_str());
    std::exit(1);
  }
}
template <typename T>
T check(Result<T> result) {
  check(result.status());
  return std::move(result).value();
}

// What attention should give for the token at `position`: a loop over all keys it sees.
void naive(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v,
           int position, float* out) {
  for (int head = 0; head < kHeads; ++head) {
    const int kv = head / (kHeads / kKvHeads);
    std::vector<double> weights;
    for (int j = 0; j <= position; ++j) {
      double score = 0;
      for (int d = 0; d < kSize; ++d) {
        score += double{q[position * kQ + head * kSize + d]} * k[j * kKv + kv * kSize + d];
      }
      weights.push_back(std::exp(score / std::sqrt(double{kSize})));
    }
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (int d = 0; d < kSize; ++d) {
      double value = 0;
      for (int j = 0; j <= position; ++j) {
        value += weights[j] / sum * v[j * kKv + kv * kSize + d];
      }
      out[head * kSize + d] = static_cast<float>(value);
    }
  }
}

int main() {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  std::vector<float> q(kLength * kQ), k(kLength * kKv), v(kLength * kKv);
  for (std::vector<float>* values : {&q, &k, &v}) {
    for (float& value : *values) value = normal(rng);
  }

  // 1. Once: a device, a stream, attention. The cache is the engine's own memory.
  const auto device = check(create_device("cpu"));
  AttentionSpec spec;
  spec.num_heads = kHeads;
  spec.num_kv_heads = kKvHeads;
  spec.head_size = kSize;
  spec.block_size = kBlock;
  for (const std::string& reason : AttentionBackend::why_not(device->kind(), spec)) {
    std::fprintf(stderr, "not served: %s\n", reason.c_str());
  }
  const auto attention = check(AttentionBackend::create(
      *device, spec,
      {.max_num_seqs = 1, .max_num_batched_tokens = kPrompt, .max_model_len = kLength}));
  std::printf("%s: %s\n", device->info().name.c_str(), attention->kernel_names().c_str());
  const KVCacheShape shape{
      spec.kv_cache_layout, spec.kv_cache_dtype, kBlocks, kBlock, kKvHeads, kSize};
  const Buffer keys = check(device->allocate(static_cast<size_t>(shape.key_bytes())));
  const Buffer values = check(device->allocate(static_cast<size_t>(shape.value_bytes())));
  AttentionLayer layer;
  layer.cache = check(make_kv_cache_view(shape, keys.data(), values.data()));

  // 2. The step's inputs live at fixed places on the device, one pinned copy of each step ahead:
  // [query_start_loc 2][seq_len 1][pad 1][slots int64][q][k][v].
  constexpr size_t kInts = 4 * sizeof(int32_t), kSlots = kPrompt * sizeof(int64_t);
  constexpr size_t kStepBytes = kInts + kSlots + kPrompt * (kQ + 2 * kKv) * sizeof(float);
  const Buffer input = check(device->allocate(kStepBytes));
  const Buffer pinned = check(device->allocate((kSteps + 1) * kStepBytes, MemoryKind::kPinnedHost));
  const Buffer table = check(device->allocate(kBlocks * sizeof(int32_t)));
  const Buffer pinned_table = check(device->allocate(table.bytes(), MemoryKind::kPinnedHost));
  const Buffer out = check(device->allocate(kLength * kQ * sizeof(float)));
  const Buffer pinned_out = check(device->allocate(out.bytes(), MemoryKind::kPinnedHost));
  std::vector<int32_t> blocks(kBlocks);  // the request's blocks, in no order
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), rng);
  std::memcpy(pinned_table.data(), blocks.data(), table.bytes());
  const auto stream = check(device->create_stream());  // destroyed first: nothing is in use then
  check(stream->copy(table.data(), pinned_table.data(), table.bytes(), CopyKind::kHostToDevice));

  const auto upload = [&](int step, int begin, int tokens) {
    char* at = pinned.as<char>() + step * kStepBytes;
    const int32_t ints[4] = {0, tokens, begin + tokens, 0};
    std::memcpy(at, ints, kInts);
    for (int t = 0; t < tokens; ++t) {
      const int position = begin + t;
      const int64_t slot = int64_t{blocks[position / kBlock]} * kBlock + position % kBlock;
      std::memcpy(at + kInts + t * sizeof slot, &slot, sizeof slot);
    }
    float* rows = reinterpret_cast<float*>(at + kInts + kSlots);
    std::copy_n(&q[begin * kQ], tokens * kQ, rows);
    std::copy_n(&k[begin * kKv], tokens * kKv, rows + kPrompt * kQ);
    std::copy_n(&v[begin * kKv], tokens * kKv, rows + kPrompt * (kQ + kKv));
    check(stream->copy(input.data(), at, kStepBytes, CopyKind::kHostToDevice));
  };

  // 3. A step: plan, write the new keys and values, attend. Only enqueues.
  const auto enqueue = [&](int tokens, int max_seq_len, float* to) {
    const int32_t starts[2] = {0, tokens}, bound[1] = {max_seq_len};
    auto* ints = input.as<int32_t>();
    float* rows = reinterpret_cast<float*>(input.as<char>() + kInts + kSlots);
    const auto view = [&](float* data, int heads) {
      return TensorView::contiguous(data, DType::kFloat32, {tokens, heads, kSize});
    };
    CommonAttentionMetadata batch;
    batch.num_reqs = 1;
    batch.num_actual_tokens = batch.max_query_len = tokens;
    batch.query_start_loc_cpu = starts;
    batch.seq_lens_cpu_upper_bound = bound;
    batch.query_start_loc = TensorView::contiguous(ints, DType::kInt32, {2});
    batch.seq_lens = TensorView::contiguous(ints + 2, DType::kInt32, {1});
    batch.block_table = TensorView::contiguous(table.data(), DType::kInt32, {1, kBlocks});
    const AttentionMetadata metadata = check(attention->build(*stream, batch));
    const TensorView new_k = view(rows + kPrompt * kQ, kKvHeads);
    const TensorView new_v = view(rows + kPrompt * (kQ + kKv), kKvHeads);
    check(attention->update_kv_cache(
        *stream, new_k, new_v,
        TensorView::contiguous(input.as<char>() + kInts, DType::kInt64, {tokens}), layer.cache));
    check(attention->forward(*stream, metadata, layer, view(rows, kHeads), new_k, new_v,
                             view(to, kHeads)));
  };

  // 4. Prefill, then decodes from one graph. All decodes of the graph have kLength as their bound;
  // the true length lies on the device. The graph writes to one place; a copy keeps each result.
  const DeviceCounters before = device->counters();
  upload(0, 0, kPrompt);
  enqueue(kPrompt, kPrompt, out.as<float>());
  float* const decoded = out.as<float>() + kPrompt * kQ;
  check(stream->copy(pinned_out.data(), out.data(), kPrompt * kQ * sizeof(float),
                     CopyKind::kDeviceToHost));
  check(stream->begin_capture());
  enqueue(1, kLength, decoded);
  const auto graph = check(stream->end_capture());
  for (int step = 0; step < kSteps; ++step) {
    upload(step + 1, kPrompt + step, 1);
    check(stream->launch(graph));
    check(stream->copy(pinned_out.as<float>() + (kPrompt + step) * kQ, decoded, kQ * sizeof(float),
                       CopyKind::kDeviceToHost));
  }
  const DeviceCounters used = device->counters() - before;
  check(stream->synchronize());  // the only wait; an engine uses a Timeline

  // 5. Check.
  float largest = 0;
  for (int position = 0; position < kLength; ++position) {
    float expected[kQ];
    naive(q, k, v, position, expected);
    for (int i = 0; i < kQ; ++i) {
      const float difference = std::abs(expected[i] - pinned_out.as<float>()[position * kQ + i]);
      largest = difference <= largest ? largest : difference;  // keeps NaN
    }
  }
  std::printf("launched %d steps: %llu waits, %llu allocations, %llu graphs\n", kSteps + 1,
              static_cast<unsigned long long>(used.waits),
              static_cast<unsigned long long>(used.allocations),
              static_cast<unsigned long long>(used.graph_launches));
  std::printf("largest difference from the naive loop: %g\n", largest);
  return largest < 1e-5F && used.waits == 0 ? 0 : 1;
}
