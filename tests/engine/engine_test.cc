// The engine over a tiny model: no waits, the same text in any company, preemption, errors.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "support/test_model.h"

namespace paceline {
namespace {

struct Asked {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
};

class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    bytes_ = testing::make_tiny_gguf({});
    gguf_ =
        GgufFile::parse({reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size()}, "tiny")
            .value();
    device_ = create_device("cpu", {.num_threads = 2}).value();
  }

  static EngineOptions small_options() {
    EngineOptions options;
    options.max_num_seqs = 8;
    options.max_num_batched_tokens = 64;
    options.max_model_len = 256;
    options.num_blocks = 200;
    options.kv_cache_dtype = DType::kFloat32;
    return options;
  }

  std::unique_ptr<Engine> make_engine(const EngineOptions& options,
                                      std::vector<int32_t> end_tokens = {}) {
    auto engine = Engine::create(*device_, *gguf_, options, std::move(end_tokens));
    EXPECT_TRUE(engine.ok()) << engine.status().to_string();
    return std::move(engine).value();
  }

  // Runs all requests to their ends; every `stagger` steps one more is added.
  static std::vector<std::vector<int32_t>> run(Engine& engine, const std::vector<Asked>& asked,
                                               int stagger = 0) {
    std::map<uint64_t, size_t> index;
    std::vector<std::vector<int32_t>> tokens(asked.size());
    size_t added = 0;
    int steps = 0;
    while (added < asked.size() || engine.has_unfinished()) {
      while (added < asked.size() && (stagger == 0 || steps >= stagger * static_cast<int>(added))) {
        const auto id = engine.add_request(asked[added].prompt, asked[added].sampling);
        EXPECT_TRUE(id.ok()) << id.status().to_string();
        index[*id] = added++;
      }
      const auto events = engine.step();
      EXPECT_TRUE(events.ok()) << events.status().to_string();
      for (const TokenEvent& event : *events) {
        tokens[index.at(event.request_id)].push_back(event.token);
      }
      ++steps;
    }
    return tokens;
  }

  static std::vector<Asked> random_requests(size_t count, int64_t max_tokens, uint32_t seed = 1,
                                            int max_prompt = 120) {
    std::mt19937 rng(seed);
    std::vector<Asked> asked;
    for (size_t i = 0; i < count; ++i) {
      Asked request;
      const size_t length = 1 + rng() % static_cast<uint32_t>(max_prompt);
      for (size_t j = 0; j < length; ++j) {
        request.prompt.push_back(static_cast<int32_t>(rng() % 300));
      }
      request.sampling.max_tokens = max_tokens;
      request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
      request.sampling.top_p = 0.9F;
      request.sampling.seed = 1000 + i;
      asked.push_back(std::move(request));
    }
    return asked;
  }

  std::vector<std::vector<int32_t>> run_each_alone(const std::vector<Asked>& asked) {
    std::vector<std::vector<int32_t>> tokens;
    const auto engine = make_engine(small_options());
    for (const Asked& request : asked) {
      tokens.push_back(run(*engine, {request})[0]);
    }
    return tokens;
  }

  std::string bytes_;
  std::unique_ptr<GgufFile> gguf_;
  std::unique_ptr<Device> device_;
};

// Eight requests of staggered lengths and arrivals: prefill, mixed and decode steps launch without
// a wait, a copy from the device or an allocation. The host only ever blocks for the results of the
// step before the one in flight.
TEST_F(EngineTest, NoWaitInAnyStep) {
  for (const bool graphs : {true, false}) {
    EngineOptions options = small_options();
    options.use_graphs = graphs;
    const auto engine = make_engine(options);
    run(*engine, random_requests(8, 20), 3);  // warm-up
    const EngineStats warm = engine->stats();
    const DeviceCounters before = device_->counters();
    run(*engine, random_requests(8, 40, 2), 3);
    const DeviceCounters all = device_->counters() - before;
    EXPECT_EQ(all.waits, 0U);
    EXPECT_EQ(all.d2h_copies, 0U);
    EXPECT_EQ(all.allocations, 0U);
    for (size_t kind = 0; kind < kNumStepKinds; ++kind) {
      EXPECT_GT(engine->stats().steps[kind], warm.steps[kind]) << "no step of kind " << kind;
      const DeviceCounters launch = engine->stats().launch_path[kind] - warm.launch_path[kind];
      EXPECT_EQ(launch.waits, 0U);
      EXPECT_EQ(launch.result_waits, 0U);
      EXPECT_EQ(launch.d2h_copies, 0U);
      EXPECT_EQ(launch.allocations, 0U);
      EXPECT_GT(launch.h2d_copies, 0U);
    }
    EXPECT_EQ(all.graph_launches > 0, graphs);
  }
}

// Alone, together, at other chunk budgets, with and without graphs, in both layouts, on more
// threads: the same tokens, greedy and sampled.
TEST_F(EngineTest, TheSameTextInAnyCompany) {
  const std::vector<Asked> asked = random_requests(8, 30);
  const auto alone = run_each_alone(asked);
  for (const int budget : {16, 40, 64, 512}) {
    EngineOptions options = small_options();
    options.max_num_batched_tokens = budget;
    EXPECT_EQ(run(*make_engine(options), asked, 2), alone) << "budget " << budget;
    options.use_graphs = false;
    options.kv_cache_layout = KVCacheLayout::kShuffle;
    EXPECT_EQ(run(*make_engine(options), asked), alone) << "budget " << budget << " SHUFFLE";
  }
  EngineOptions options = small_options();
  options.block_size = 8;
  options.num_blocks = 400;
  options.max_num_seqs = 3;
  EXPECT_EQ(run(*make_engine(options), asked), alone);
}

TEST_F(EngineTest, EveryCacheDtypeIsInvariantToo) {
  const std::vector<Asked> asked = random_requests(6, 20);
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3}) {
    EngineOptions options = small_options();
    options.kv_cache_dtype = dtype;
    const auto together = run(*make_engine(options), asked);
    options.max_num_batched_tokens = 24;
    options.max_num_seqs = 2;
    EXPECT_EQ(run(*make_engine(options), asked), together) << dtype_name(dtype);
  }
}

// Too few blocks for all: requests are preempted and recomputed, and still say what they say alone.
TEST_F(EngineTest, PreemptionChangesNothingAndLeaksNothing) {
  const std::vector<Asked> asked = random_requests(8, 60, 5, 40);
  const auto alone = run_each_alone(asked);
  for (const int64_t blocks : {7, 10, 16}) {
    EngineOptions options = small_options();
    options.num_blocks = blocks;
    options.max_model_len = blocks * options.block_size;
    const auto engine = make_engine(options);
    EXPECT_EQ(run(*engine, asked), alone) << blocks << " blocks";
    EXPECT_GT(engine->stats().num_preemptions, 0) << blocks << " blocks";
    EXPECT_EQ(engine->scheduler().num_free_blocks(), blocks);
    EXPECT_EQ(run(*engine, asked, 5), alone) << "a second round";
    EXPECT_EQ(engine->scheduler().num_free_blocks(), blocks);
  }
}

TEST_F(EngineTest, StopsAtEndTokensAndAtLength) {
  const std::vector<Asked> asked = random_requests(4, 50);
  const auto free_run = run_each_alone(asked);
  const int32_t end = free_run[0][10];
  for (const bool ignore : {false, true}) {
    const auto engine = make_engine(small_options(), {end});
    std::vector<Asked> again = asked;
    for (Asked& request : again) {
      request.sampling.ignore_eos = ignore;
    }
    const auto tokens = run(*engine, again);
    for (size_t i = 0; i < tokens.size(); ++i) {
      auto expected = free_run[i];
      const auto stop = std::find(expected.begin(), expected.end(), end);
      if (!ignore && stop != expected.end()) {
        expected.erase(stop + 1, expected.end());
      }
      EXPECT_EQ(tokens[i], expected);
    }
    EXPECT_EQ(engine->scheduler().num_free_blocks(), 200);
  }
}

TEST_F(EngineTest, ARequestFillsItsContextExactly) {
  EngineOptions options = small_options();
  options.max_model_len = 48;
  const auto engine = make_engine(options);
  Asked asked{std::vector<int32_t>(47, 5), {}};
  asked.sampling.max_tokens = 100;
  EXPECT_EQ(run(*engine, {asked})[0].size(), 1U);
  asked.prompt.resize(20);
  EXPECT_EQ(run(*engine, {asked})[0].size(), 28U);
  asked.prompt.resize(48);
  const auto refused = engine->add_request(asked.prompt, asked.sampling);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("48 tokens"), std::string::npos);
}

TEST_F(EngineTest, AbortFreesEverything) {
  const auto engine = make_engine(small_options());
  std::vector<uint64_t> ids;
  for (const Asked& asked : random_requests(12, 100)) {
    ids.push_back(engine->add_request(asked.prompt, asked.sampling).value());
  }
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(engine->step().ok());
  }
  for (const uint64_t id : ids) {
    EXPECT_TRUE(engine->abort(id));
    EXPECT_FALSE(engine->abort(id));
  }
  EXPECT_FALSE(engine->has_unfinished());
  EXPECT_TRUE(engine->step().value().empty());
  EXPECT_EQ(engine->scheduler().num_free_blocks(), 200);
  // And the engine goes on as if nothing had been.
  const std::vector<Asked> asked = random_requests(3, 10);
  EXPECT_EQ(run(*engine, asked), run_each_alone(asked));
}

TEST_F(EngineTest, RequestsThatCannotRunAreRefused) {
  const auto engine = make_engine(small_options());
  const auto message = [&](std::vector<int32_t> prompt, SamplingParams sampling) {
    const auto id = engine->add_request(std::move(prompt), sampling);
    EXPECT_EQ(id.status().code(), StatusCode::kInvalidArgument);
    return id.status().message();
  };
  EXPECT_NE(message({}, {}).find("empty"), std::string::npos);
  EXPECT_NE(message({300}, {}).find("vocabulary has 300"), std::string::npos);
  EXPECT_NE(message({-1}, {}).find("token 0 is -1"), std::string::npos);
  EXPECT_NE(message({1}, {.temperature = -1.0F}).find("temperature"), std::string::npos);
  EXPECT_NE(message({1}, {.temperature = NAN}).find("temperature"), std::string::npos);
  EXPECT_NE(message({1}, {.top_p = 0.0F}).find("top_p"), std::string::npos);
  EXPECT_NE(message({1}, {.max_tokens = 0}).find("max_tokens"), std::string::npos);
  const auto request = std::make_shared<Request>();
  request->prompt.resize(40, 1);
  request->sampling.max_tokens = 100;
  Scheduler scheduler({.num_blocks = 3});
  EXPECT_NE(scheduler.add(request).message().find("cache blocks"), std::string::npos);
}

TEST_F(EngineTest, OptionsThatMakeNoSenseAreRefused) {
  const auto message = [&](auto change) {
    EngineOptions options = small_options();
    change(options);
    const auto engine = Engine::create(*device_, *gguf_, options, {});
    EXPECT_FALSE(engine.ok());
    return engine.status().message();
  };
  EXPECT_NE(message([](EngineOptions& o) { o.max_num_seqs = 0; }).find("max_num_seqs"),
            std::string::npos);
  EXPECT_NE(message([](EngineOptions& o) { o.max_model_len = 513; }).find("2 to 512"),
            std::string::npos);
  EXPECT_NE(message([](EngineOptions& o) { o.block_size = -16; }).find("block_size"),
            std::string::npos);
  EXPECT_NE(message([](EngineOptions& o) {
              o.block_size = 6;
              o.kv_cache_layout = KVCacheLayout::kShuffle;
            }).find("block_size to be a multiple of 4"),
            std::string::npos);
  EXPECT_NE(message([](EngineOptions& o) { o.attention_kernel = "magic"; }).find("cpu_simd, ref"),
            std::string::npos);
  EXPECT_NE(message([](EngineOptions& o) {
              o.num_blocks = 0;
              o.kv_cache_memory_bytes = 1000;
            }).find("too small: one request of 256 tokens needs 16 blocks"),
            std::string::npos);
  EXPECT_NE(message([](EngineOptions& o) { o.num_blocks = 15; }).find("too small"),
            std::string::npos);
  // Refused before anything is allocated, on the device or on the host.
  EXPECT_NE(message([](EngineOptions& o) { o.num_blocks = INT32_MAX; }).find("too large"),
            std::string::npos);
  EXPECT_NE(message([](EngineOptions& o) {
              o.num_blocks = 0;
              o.kv_cache_memory_bytes = -1;
            }).find("must be positive"),
            std::string::npos);
}

// Weights that are not numbers end the requests that meet them, and no others.
TEST_F(EngineTest, LogitsThatAreNotNumbersEndTheRequest) {
  constexpr int32_t kCorrupt = 77;
  std::string bytes = testing::make_tiny_gguf({.tied = false});
  const auto gguf =
      GgufFile::parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "t").value();
  const GgufTensor& embedding = *gguf->find_tensor("token_embd.weight");
  const size_t row_bytes = embedding.bytes / static_cast<size_t>(embedding.shape[0]);
  const auto at = static_cast<size_t>(embedding.data - reinterpret_cast<uint8_t*>(bytes.data()));
  std::memset(bytes.data() + at + kCorrupt * row_bytes, 0xFF, row_bytes);
  const auto run_with = [&](int32_t token, float temperature) {
    const auto engine = Engine::create(*device_, *gguf, small_options(), {}).value();
    std::map<uint64_t, std::vector<TokenEvent>> events;
    for (const int32_t first : {5, token, 9}) {
      (void)engine->add_request({first, 8, 8}, {.temperature = temperature, .max_tokens = 9})
          .value();
    }
    while (engine->has_unfinished()) {
      const std::vector<TokenEvent> step = engine->step().value();
      for (const TokenEvent& event : step) {
        events[event.request_id].push_back(event);
      }
    }
    EXPECT_EQ(engine->scheduler().num_free_blocks(), 200);
    return events;
  };
  for (const float temperature : {0.0F, 1.0F}) {
    const auto sound = run_with(6, temperature);
    const auto corrupt = run_with(kCorrupt, temperature);
    ASSERT_EQ(corrupt.at(2).size(), 1U);
    EXPECT_EQ(corrupt.at(2)[0].finish_reason, FinishReason::kError);
    EXPECT_LT(corrupt.at(2)[0].token, 0);
    for (const uint64_t other : {1, 3}) {
      ASSERT_EQ(corrupt.at(other).size(), 9U);
      for (size_t i = 0; i < 9; ++i) {
        EXPECT_EQ(corrupt.at(other)[i].token, sound.at(other)[i].token);
      }
    }
  }
}

TEST_F(EngineTest, TheReferenceKernelAgrees) {
  const std::vector<Asked> asked = random_requests(4, 12);
  EngineOptions options = small_options();
  options.attention_kernel = "ref";
  const auto reference = run(*make_engine(options), asked);
  EXPECT_EQ(run(*make_engine(small_options()), asked), reference);
}

}  // namespace
}  // namespace paceline
