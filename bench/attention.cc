// Attention on the CPU device, through the public API, beside a kernel that only reads the same
// bytes. Prints a table: decode in GB/s and as a share of the reading, prefill in GFLOP/s.
//
//   build/release/bin/bench_attention [THREADS] [all|decode|tiles] [DTYPE]
#include "paceline/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "attention/dispatch.h"
#include "conformance/harness.h"
#include "conformance/transfer.h"
#include "device/cpu/cpu_device.h"

namespace paceline {
namespace {

constexpr int kHeads = 32;
constexpr int kKvHeads = 8;
constexpr int kHeadSize = 128;
constexpr int kBlock = 16;

double median_seconds(Stream& stream, int runs, const std::function<Status()>& run) {
  std::vector<double> seconds;
  for (int i = 0; i < runs + 1; ++i) {  // the first warms up
    const auto start = std::chrono::steady_clock::now();
    const Status status = run();
    if (!status.ok() || !stream.synchronize().ok()) {
      fmt::print(stderr, "bench_attention: {}\n", status.message());
      std::exit(1);
    }
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  seconds.erase(seconds.begin());
  std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
  return seconds[static_cast<size_t>(runs) / 2];
}

// Reads `bytes` in pieces that tasks share, and does next to nothing with them.
struct ReadParams {
  const uint64_t* data;
  size_t words;
  uint64_t* sums;
};
void read_kernel(const ReadParams& p, const cpu::TaskContext& context) {
  const size_t share = p.words / static_cast<size_t>(context.num_tasks);
  const uint64_t* begin = p.data + static_cast<size_t>(context.task) * share;
  uint64_t sums[16] = {};
  for (size_t i = 0; i + 16 <= share; i += 16) {
    for (size_t j = 0; j < 16; ++j) {
      sums[j] ^= begin[i + j];
    }
  }
  uint64_t sum = 0;
  for (const uint64_t s : sums) {
    sum ^= s;
  }
  p.sums[context.task] = sum;
}

// A cache of random values and a batch of requests of equal lengths over it.
class Workload {
 public:
  Workload(Device& device, const AttentionSpec& spec, int requests, int query_len, int seq_len)
      : device_(device), spec_(spec) {
    stream_ = device.create_stream().value();
    const int blocks = (seq_len + kBlock - 1) / kBlock;
    const KVCacheShape shape = cache_shape(spec, int64_t{requests} * blocks);
    kv_bytes_ = static_cast<size_t>(shape.key_bytes() + shape.value_bytes());
    key_ = device.allocate(static_cast<size_t>(shape.key_bytes())).value();
    value_ = device.allocate(static_cast<size_t>(shape.value_bytes())).value();
    scale_ = to_device(*stream_, std::vector<float>{0.03F}).value();
    layer_.cache = make_kv_cache_view(shape, key_.data(), value_.data()).value();
    if (dtype_size(spec.kv_cache_dtype) == 1) {
      layer_.cache.k_scale = layer_.cache.v_scale = KVScale::per_tensor(scale_.as<float>());
    }
    const AttentionLimits limits{requests, requests * query_len, seq_len};
    backend_ = AttentionBackend::create(device, spec, limits).value();
    fill_cache(shape);
    make_batch(requests, query_len, seq_len, blocks);
  }

  // A step: metadata, and one layer.
  Status step() {
    PACELINE_ASSIGN_OR_RETURN(const AttentionMetadata metadata, backend_->build(*stream_, batch_));
    return backend_->forward(*stream_, metadata, layer_, q_view_, k_view_, v_view_, out_view_);
  }
  Status read_only() {
    const int64_t tasks = device_.info().compute_units * 8;
    PACELINE_RETURN_IF_ERROR(cpu::as_cpu(*stream_).launch(
        tasks, read_kernel,
        ReadParams{key_.as<uint64_t>(), key_.bytes() / 8, sums_.as<uint64_t>()}));
    return cpu::as_cpu(*stream_).launch(
        tasks, read_kernel,
        ReadParams{value_.as<uint64_t>(), value_.bytes() / 8, sums_.as<uint64_t>()});
  }
  Stream& stream() { return *stream_; }
  size_t kv_bytes() const { return kv_bytes_; }

 private:
  Buffer random(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) {
      value = normal_(rng_);
    }
    return to_device(*stream_, to_dtype(spec_.dtype, values)).value();
  }

  void fill_cache(const KVCacheShape& shape) {
    const int64_t tokens = std::min<int64_t>(4096, shape.num_blocks * kBlock);
    const Buffer k = random(tokens * kKvHeads * kHeadSize);
    const Buffer v = random(tokens * kKvHeads * kHeadSize);
    const auto view = [&](const Buffer& buffer) {
      return TensorView::contiguous(buffer.data(), spec_.dtype, {tokens, kKvHeads, kHeadSize});
    };
    for (int64_t first = 0; first < shape.num_blocks * kBlock; first += tokens) {
      std::vector<int64_t> slots(static_cast<size_t>(tokens));
      for (size_t i = 0; i < slots.size(); ++i) {
        slots[i] = first + static_cast<int64_t>(i);
      }
      const Buffer buffer = to_device(*stream_, slots).value();
      const Status status = backend_->update_kv_cache(
          *stream_, view(k), view(v),
          TensorView::contiguous(buffer.data(), DType::kInt64, {tokens}), layer_.cache);
      if (!status.ok() || !stream_->synchronize().ok()) {
        fmt::print(stderr, "bench_attention: {}\n", status.message());
        std::exit(1);
      }
    }
  }

  void make_batch(int requests, int query_len, int seq_len, int blocks) {
    std::vector<int32_t> table(static_cast<size_t>(requests * blocks));
    for (size_t i = 0; i < table.size(); ++i) {
      table[i] = static_cast<int32_t>(i);
    }
    std::shuffle(table.begin(), table.end(), rng_);  // blocks lie anywhere
    for (int i = 0; i <= requests; ++i) {
      starts_host_.push_back(i * query_len);
    }
    lens_host_.assign(static_cast<size_t>(requests), seq_len);
    starts_ = to_device(*stream_, starts_host_).value();
    lens_ = to_device(*stream_, lens_host_).value();
    table_ = to_device(*stream_, table).value();
    sums_ = device_.allocate(size_t{8} * 1024 * 8).value();
    const int64_t tokens = int64_t{requests} * query_len;
    q_ = random(tokens * kHeads * kHeadSize);
    k_ = random(tokens * kKvHeads * kHeadSize);
    v_ = random(tokens * kKvHeads * kHeadSize);
    out_ = device_.allocate(q_.bytes()).value();
    const auto view = [&](const Buffer& buffer, int64_t heads) {
      return TensorView::contiguous(buffer.data(), spec_.dtype, {tokens, heads, kHeadSize});
    };
    q_view_ = view(q_, kHeads);
    k_view_ = view(k_, kKvHeads);
    v_view_ = view(v_, kKvHeads);
    out_view_ = view(out_, kHeads);
    batch_.num_reqs = requests;
    batch_.num_actual_tokens = static_cast<int>(tokens);
    batch_.max_query_len = query_len;
    batch_.query_start_loc_cpu = starts_host_;
    batch_.seq_lens_cpu_upper_bound = lens_host_;
    batch_.query_start_loc = TensorView::contiguous(starts_.data(), DType::kInt32, {requests + 1});
    batch_.seq_lens = TensorView::contiguous(lens_.data(), DType::kInt32, {requests});
    batch_.block_table = TensorView::contiguous(table_.data(), DType::kInt32, {requests, blocks});
  }

  Device& device_;
  AttentionSpec spec_;
  std::mt19937 rng_{1};
  std::normal_distribution<float> normal_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<AttentionBackend> backend_;
  size_t kv_bytes_ = 0;
  Buffer key_, value_, scale_, sums_, starts_, lens_, table_, q_, k_, v_, out_;
  std::vector<int32_t> starts_host_;
  std::vector<int32_t> lens_host_;
  AttentionLayer layer_;
  CommonAttentionMetadata batch_;
  TensorView q_view_, k_view_, v_view_, out_view_;
};

AttentionSpec make_spec(DType dtype, DType kv, KVCacheLayout layout) {
  AttentionSpec spec;
  spec.num_heads = kHeads;
  spec.num_kv_heads = kKvHeads;
  spec.head_size = kHeadSize;
  spec.dtype = dtype;
  spec.kv_cache_dtype = kv;
  spec.kv_cache_layout = layout;
  spec.block_size = kBlock;
  return spec;
}

void bench_decode(Device& device, DType kv, KVCacheLayout layout, int requests, int seq_len) {
  Workload w(device, make_spec(DType::kBFloat16, kv, layout), requests, 1, seq_len);
  // Read, attend, read, attend: the machine's speed drifts.
  double read = 0.0;
  double attend = 0.0;
  for (int round = 0; round < 2; ++round) {
    read += median_seconds(w.stream(), 5, [&] { return w.read_only(); }) / 2;
    attend += median_seconds(w.stream(), 5, [&] { return w.step(); }) / 2;
  }
  const double gigabytes = static_cast<double>(w.kv_bytes()) * 1e-9;
  fmt::print(
      "decode  {:<12} {:<7} B={} S={:<6} {:8.2f} ms {:7.2f} GB/s, reading {:6.2f} GB/s: {:.3f}\n",
      dtype_name(kv), kv_cache_layout_name(layout), requests, seq_len, attend * 1e3,
      gigabytes / attend, gigabytes / read, read / attend);
}

void bench_tiles(Device& device, DType dtype, int query_len, int seq_len) {
  Workload w(device, make_spec(dtype, dtype, KVCacheLayout::kNHD), 1, query_len, seq_len);
  const double seconds = median_seconds(w.stream(), 3, [&] { return w.step(); });
  const double context = seq_len - query_len;
  const double pairs = query_len * (context + 0.5 * query_len);
  const double flops = 4.0 * kHeads * kHeadSize * pairs;
  fmt::print("{} {:<12} Q={} S={:<6} {:8.2f} ms {:7.2f} GFLOP/s\n",
             context > 0 ? "extend " : "prefill", dtype_name(dtype), query_len, seq_len,
             seconds * 1e3, flops / seconds * 1e-9);
}

struct Options {
  int threads;
  std::string part;   // all, decode or tiles
  std::string dtype;  // of the cache, or all
  bool has(DType d) const { return dtype == "all" || dtype == dtype_name(d); }
};

void bench_decodes(Device& device, const Options& options) {
  for (const auto& [requests, seq_len] : {std::pair{8, 8192}, std::pair{1, 65536}}) {
    for (const auto layout : {KVCacheLayout::kNHD, KVCacheLayout::kShuffle}) {
      for (const DType kv :
           {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3, DType::kInt8}) {
        if (options.has(kv)) {
          bench_decode(device, kv, layout, requests, seq_len);
        }
      }
    }
  }
}

int run(const Options& options) {
  const auto device = create_device("cpu", {.num_threads = options.threads}).value();
  fmt::print("{}; {} query heads, {} KV heads, head size {}, blocks of {}\n", device->info().name,
             kHeads, kKvHeads, kHeadSize, kBlock);
  if (options.part != "tiles") {
    bench_decodes(*device, options);
  }
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    if (options.part != "decode" && options.has(dtype)) {
      bench_tiles(*device, dtype, 2048, 2048);
      bench_tiles(*device, dtype, 512, 8192);
    }
  }
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  const paceline::Options options{argc > 1 ? std::atoi(argv[1]) : 0, argc > 2 ? argv[2] : "all",
                                  argc > 3 ? argv[3] : "all"};
  if (options.part != "all" && options.part != "decode" && options.part != "tiles") {
    fmt::print(stderr, "bench_attention: '{}' is none of all, decode, tiles\n", options.part);
    return 2;
  }
  return paceline::run(options);
}
