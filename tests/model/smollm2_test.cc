// SmolLM2-135M against an independent computation of the same dequantised weights: Hugging Face
// transformers, float32 (tests/golden/make_smollm2_expected.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "engine/engine.h"
#include "support/device_array.h"
#include "support/test_model.h"

namespace paceline {
namespace {

using testing::DeviceArray;

nlohmann::json load_json(const std::string& name) {
  std::ifstream file(std::string(PACELINE_TEST_DATA_DIR) + "/smollm2/" + name);
  return nlohmann::json::parse(file);
}

std::vector<float> load_floats() {
  std::ifstream file(std::string(PACELINE_TEST_DATA_DIR) + "/smollm2/expected.f32",
                     std::ios::binary | std::ios::ate);
  std::vector<float> values(static_cast<size_t>(file.tellg()) / sizeof(float));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
  return values;
}

class SmolLM2Test : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = testing::smollm2_path();
    if (path.empty()) {
      GTEST_SKIP() << "the SmolLM2 model is not in the cache; scripts/get-model fetches it";
    }
    gguf_ = GgufFile::open(path).value();
    device_ = create_device("cpu").value();
    expected_ = load_json("expected.json");
  }

  std::unique_ptr<Engine> make_engine(EngineOptions options) {
    auto engine = Engine::create(*device_, *gguf_, options, {});
    EXPECT_TRUE(engine.ok()) << engine.status().to_string();
    return std::move(engine).value();
  }

  std::unique_ptr<GgufFile> gguf_;
  std::unique_ptr<Device> device_;
  nlohmann::json expected_;
};

// Runs a prompt through the model in one prefill and returns the logits after the asked positions.
class LogitsRunner {
 public:
  static constexpr int64_t kMaxTokens = 768;

  LogitsRunner(Device& device, const GgufFile& gguf) : device_(device) {
    model_ = LlamaModel::load(device, gguf, {kMaxTokens, 4, kMaxTokens}).value();
    stream_ = device.create_stream().value();
    const ModelConfig& c = model_->config();
    AttentionSpec spec;
    spec.num_heads = c.num_heads;
    spec.num_kv_heads = c.num_kv_heads;
    spec.head_size = c.head_size;
    attention_ = AttentionBackend::create(device, spec, {4, kMaxTokens, kMaxTokens}).value();
    const KVCacheShape shape{KVCacheLayout::kNHD, DType::kFloat32, kMaxTokens / 16, 16,
                             c.num_kv_heads,      c.head_size};
    for (int layer = 0; layer < c.num_layers; ++layer) {
      memory_.emplace_back(device, static_cast<size_t>(shape.key_bytes()));
      memory_.emplace_back(device, static_cast<size_t>(shape.value_bytes()));
      caches_.push_back(
          make_kv_cache_view(shape, memory_[memory_.size() - 2].data(), memory_.back().data())
              .value());
    }
  }

  std::vector<float> run(const std::vector<int32_t>& ids, const std::vector<int32_t>& positions) {
    const auto n = static_cast<int32_t>(ids.size());
    std::vector<int32_t> where(ids.size());
    std::vector<int64_t> slots(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      where[i] = static_cast<int32_t>(i);
      slots[i] = static_cast<int64_t>(i);
    }
    const std::vector<int32_t> starts{0, n};
    const std::vector<int32_t> lens{n};
    std::vector<int32_t> table(kMaxTokens / 16);
    for (size_t i = 0; i < table.size(); ++i) {
      table[i] = static_cast<int32_t>(i);
    }
    const DeviceArray ids_d(device_, *stream_, ids);
    const DeviceArray where_d(device_, *stream_, where);
    const DeviceArray slots_d(device_, *stream_, slots);
    const DeviceArray starts_d(device_, *stream_, starts);
    const DeviceArray lens_d(device_, *stream_, lens);
    const DeviceArray table_d(device_, *stream_, table);
    const DeviceArray wanted_d(device_, *stream_, positions);
    CommonAttentionMetadata batch;
    batch.num_reqs = 1;
    batch.num_actual_tokens = n;
    batch.max_query_len = n;
    batch.query_start_loc_cpu = starts;
    batch.seq_lens_cpu_upper_bound = lens;
    batch.query_start_loc = TensorView::contiguous(starts_d.data(), DType::kInt32, {2});
    batch.seq_lens = TensorView::contiguous(lens_d.data(), DType::kInt32, {1});
    batch.block_table = TensorView::contiguous(table_d.data(), DType::kInt32, {1, kMaxTokens / 16});
    const AttentionMetadata metadata = attention_->build(*stream_, batch).value();
    ModelInput input;
    input.ids = static_cast<const int32_t*>(ids_d.data());
    input.positions = static_cast<const int32_t*>(where_d.data());
    input.slot_mapping = TensorView::contiguous(slots_d.data(), DType::kInt64, {n});
    input.num_tokens = n;
    input.logits_indices = static_cast<const int32_t*>(wanted_d.data());
    input.num_logits = static_cast<int64_t>(positions.size());
    const Status status = model_->forward(*stream_, input, *attention_, metadata, caches_);
    EXPECT_TRUE(status.ok()) << status.to_string();
    const size_t count = positions.size() * static_cast<size_t>(model_->config().vocab_size);
    Buffer host = device_.allocate(count * sizeof(float), MemoryKind::kPinnedHost).value();
    EXPECT_TRUE(
        stream_->copy(host.data(), model_->logits(), count * sizeof(float), CopyKind::kDeviceToHost)
            .ok());
    EXPECT_TRUE(stream_->synchronize().ok());
    return {host.as<float>(), host.as<float>() + count};
  }

  int64_t vocab() const { return model_->config().vocab_size; }

 private:
  Device& device_;
  std::unique_ptr<LlamaModel> model_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<AttentionBackend> attention_;
  std::vector<DeviceArray> memory_;
  std::vector<KVCacheView> caches_;
};

TEST_F(SmolLM2Test, LogitsAreWithin1e3OfTransformers) {
  const std::vector<float> values = load_floats();
  LogitsRunner runner(*device_, *gguf_);
  ASSERT_EQ(expected_["prompts"].size(), 20U);
  double worst = 0.0;
  size_t compared = 0;
  for (const auto& prompt : expected_["prompts"]) {
    std::vector<int32_t> positions;
    for (const auto& slice : prompt["logits"]) {
      positions.push_back(slice["position"]);
    }
    const std::vector<float> logits = runner.run(prompt["ids"], positions);
    for (size_t row = 0; row < positions.size(); ++row) {
      const auto& slice = prompt["logits"][row];
      const float* mine = logits.data() + row * static_cast<size_t>(runner.vocab());
      for (size_t k = 0; k < slice["count"].get<size_t>(); ++k) {
        const size_t id = slice["id_offset"].get<size_t>() + k * slice["id_stride"].get<size_t>();
        const float expected = values[slice["offset"].get<size_t>() + k];
        worst = std::max(worst, std::abs(double{mine[id]} - double{expected}));
        ++compared;
      }
      for (size_t k = 0; k < slice["top_ids"].size(); ++k) {
        EXPECT_NEAR(mine[slice["top_ids"][k].get<size_t>()], slice["top_logits"][k].get<float>(),
                    1e-3);
      }
    }
  }
  EXPECT_GT(compared, 200000U);
  EXPECT_LE(worst, 1e-3);
  RecordProperty("worst_logit_difference", std::to_string(worst));
  std::printf("worst logit difference over %zu logits: %.2e\n", compared, worst);
}

// All twenty prompts at once, in chunks: greedy tokens equal those of transformers, one prompt at a
// time.
TEST_F(SmolLM2Test, GreedyTokensEqualTransformers) {
  for (const KVCacheLayout layout : {KVCacheLayout::kNHD, KVCacheLayout::kShuffle}) {
    EngineOptions options;
    options.max_num_seqs = 20;
    options.max_num_batched_tokens = 300;
    options.max_model_len = 1024;
    options.kv_cache_dtype = DType::kFloat32;
    options.kv_cache_layout = layout;
    options.num_blocks = 400;
    const auto engine = make_engine(options);
    std::vector<std::vector<int32_t>> texts(21);
    for (const auto& prompt : expected_["prompts"]) {
      SamplingParams sampling;
      sampling.max_tokens = 64;
      ASSERT_TRUE(engine->add_request(prompt["ids"], sampling).ok());
    }
    while (engine->has_unfinished()) {
      for (const TokenEvent& event : engine->step().value()) {
        texts[event.request_id].push_back(event.token);
      }
    }
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(texts[i + 1], expected_["prompts"][i]["greedy_ids"].get<std::vector<int32_t>>())
          << expected_["prompts"][i]["name"];
    }
  }
}

}  // namespace
}  // namespace paceline
