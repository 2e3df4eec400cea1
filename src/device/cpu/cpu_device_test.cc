#include "device/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <vector>

namespace paceline {
namespace {

using cpu::as_cpu;
using cpu::TaskContext;

class CpuDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = create_device("cpu", {.num_threads = 3}).value();
    stream_ = device_->create_stream().value();
  }
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

// Holds a stream up until the test opens it, so that asynchrony can be seen.
struct Latch {
  std::atomic<bool> open{false};
};
struct LatchParams {
  Latch* latch;
};
void wait_for_latch(const LatchParams& p, const TaskContext&) { p.latch->open.wait(false); }
void open(Latch& latch) {
  latch.open.store(true);
  latch.open.notify_all();
}

struct CountParams {
  std::atomic<int>* hits;
};
void count_task(const CountParams& p, const TaskContext& context) { p.hits[context.task]++; }

TEST_F(CpuDeviceTest, EveryTaskRunsExactlyOnce) {
  for (const int64_t tasks : {int64_t{1}, int64_t{2}, int64_t{7}, int64_t{1000}}) {
    std::vector<std::atomic<int>> hits(static_cast<size_t>(tasks));
    for (int launch = 0; launch < 50; ++launch) {
      ASSERT_TRUE(as_cpu(*stream_).launch(tasks, count_task, CountParams{hits.data()}).ok());
    }
    ASSERT_TRUE(stream_->synchronize().ok());
    for (const auto& hit : hits) {
      EXPECT_EQ(hit.load(), 50);
    }
  }
}

struct AppendParams {
  std::vector<int>* log;
  int value;
};
void append(const AppendParams& p, const TaskContext&) { p.log->push_back(p.value); }

TEST_F(CpuDeviceTest, WorkIsAsynchronousAndInOrder) {
  Latch latch;
  std::vector<int> log;
  auto event = device_->create_event().value();
  EXPECT_TRUE(event->query());  // nothing recorded yet
  ASSERT_TRUE(as_cpu(*stream_).launch(1, wait_for_latch, LatchParams{&latch}).ok());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(as_cpu(*stream_).launch(1, append, AppendParams{&log, i}).ok());
  }
  ASSERT_TRUE(stream_->record(*event).ok());
  EXPECT_FALSE(event->query());  // the host is ahead of the device
  const DeviceCounters before = device_->counters();
  open(latch);
  ASSERT_TRUE(event->synchronize().ok());
  EXPECT_EQ((device_->counters() - before).waits, 1U);
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(log, expected);
}

TEST_F(CpuDeviceTest, EventOrdersTwoStreams) {
  auto other = device_->create_stream().value();
  auto event = device_->create_event().value();
  Latch latch;
  std::vector<int> log;
  ASSERT_TRUE(as_cpu(*stream_).launch(1, wait_for_latch, LatchParams{&latch}).ok());
  ASSERT_TRUE(as_cpu(*stream_).launch(1, append, AppendParams{&log, 1}).ok());
  ASSERT_TRUE(stream_->record(*event).ok());
  ASSERT_TRUE(other->wait(*event).ok());
  ASSERT_TRUE(as_cpu(*other).launch(1, append, AppendParams{&log, 2}).ok());
  open(latch);
  ASSERT_TRUE(other->synchronize().ok());
  EXPECT_EQ(log, (std::vector<int>{1, 2}));
}

TEST_F(CpuDeviceTest, TimelineBlocksOnlyWhenBehind) {
  auto timeline = device_->create_timeline().value();
  ASSERT_TRUE(stream_->signal(*timeline, 1).ok());
  ASSERT_TRUE(stream_->synchronize().ok());
  const DeviceCounters before = device_->counters();
  timeline->wait(1);
  EXPECT_EQ((device_->counters() - before).result_waits, 0U);
  Latch latch;
  ASSERT_TRUE(as_cpu(*stream_).launch(1, wait_for_latch, LatchParams{&latch}).ok());
  ASSERT_TRUE(stream_->signal(*timeline, 2).ok());
  EXPECT_EQ(timeline->value(), 1U);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    open(latch);
  });
  timeline->wait(2);
  opener.join();
  EXPECT_EQ(timeline->value(), 2U);
  EXPECT_EQ((device_->counters() - before).result_waits, 1U);
  EXPECT_EQ((device_->counters() - before).waits, 0U);
}

struct AddParams {
  const int* amount;
  int* total;
};
void add(const AddParams& p, const TaskContext&) { *p.total += *p.amount; }

TEST_F(CpuDeviceTest, GraphReadsMemoryAtReplay) {
  int amount = 1;
  int total = 0;
  ASSERT_TRUE(stream_->begin_capture().ok());
  ASSERT_TRUE(as_cpu(*stream_).launch(1, add, AddParams{&amount, &total}).ok());
  ASSERT_TRUE(as_cpu(*stream_).launch(1, add, AddParams{&amount, &total}).ok());
  auto event = device_->create_event().value();
  EXPECT_EQ(stream_->record(*event).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(stream_->synchronize().code(), StatusCode::kFailedPrecondition);
  auto graph = stream_->end_capture().value();
  EXPECT_EQ(graph->num_nodes(), 2U);
  ASSERT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(total, 0);  // captured, not run
  for (amount = 1; amount <= 3; ++amount) {
    ASSERT_TRUE(stream_->launch(graph).ok());
    ASSERT_TRUE(stream_->synchronize().ok());
  }
  EXPECT_EQ(total, 2 * (1 + 2 + 3));
  graph.reset();
  EXPECT_EQ(stream_->end_capture().status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(CpuDeviceTest, CountsCopiesAndAllocations) {
  const DeviceCounters before = device_->counters();
  Buffer device_memory = device_->allocate(1024).value();
  Buffer host = device_->allocate(1024, MemoryKind::kPinnedHost).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(device_memory.data()) % 64, 0U);
  std::fill_n(host.as<uint8_t>(), 1024, uint8_t{7});
  ASSERT_TRUE(stream_->copy(device_memory.data(), host.data(), 1024, CopyKind::kHostToDevice).ok());
  ASSERT_TRUE(stream_->fill(host.data(), 0, 1024).ok());
  ASSERT_TRUE(stream_->copy(host.data(), device_memory.data(), 1024, CopyKind::kDeviceToHost).ok());
  ASSERT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(host.as<uint8_t>()[1023], 7);
  const DeviceCounters used = device_->counters() - before;
  EXPECT_EQ(used.allocations, 2U);
  EXPECT_EQ(used.allocated_bytes, 2048U);
  EXPECT_EQ(used.h2d_copies, 1U);
  EXPECT_EQ(used.d2h_copies, 1U);
  EXPECT_EQ(used.waits, 1U);
}

TEST_F(CpuDeviceTest, AFullQueueBlocksTheHostAndIsCounted) {
  Latch latch;
  std::atomic<int> hits{0};
  ASSERT_TRUE(as_cpu(*stream_).launch(1, wait_for_latch, LatchParams{&latch}).ok());
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    open(latch);
  });
  const DeviceCounters before = device_->counters();
  for (int i = 0; i < 10000; ++i) {
    ASSERT_TRUE(as_cpu(*stream_).launch(1, count_task, CountParams{&hits}).ok());
  }
  ASSERT_TRUE(stream_->synchronize().ok());
  opener.join();
  EXPECT_EQ(hits.load(), 10000);
  EXPECT_GE((device_->counters() - before).waits, 2U);
}

TEST(CreateDevice, RefusesWithWhatIsPossible) {
  EXPECT_EQ(create_device("tpu").status().code(), StatusCode::kNotFound);
  EXPECT_NE(create_device("tpu").status().message().find("cpu"), std::string::npos);
  EXPECT_EQ(create_device("cpu", {.num_threads = -1}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_FALSE(create_device("cpu").value()->allocate(size_t{1} << 62).ok());
}

TEST(CpuStream, NullIsRefusedUnlessThereAreNoBytes) {
  const auto device = create_device("cpu", {.num_threads = 1}).value();
  const auto stream = device->create_stream().value();
  const Buffer buffer = device->allocate(64).value();
  EXPECT_FALSE(stream->copy(buffer.data(), nullptr, 1, CopyKind::kHostToDevice).ok());
  EXPECT_FALSE(stream->copy(nullptr, buffer.data(), 1, CopyKind::kDeviceToHost).ok());
  EXPECT_FALSE(stream->fill(nullptr, 0, 1).ok());
  EXPECT_TRUE(stream->copy(nullptr, nullptr, 0, CopyKind::kDeviceToDevice).ok());
  EXPECT_TRUE(stream->fill(nullptr, 0, 0).ok());
  EXPECT_TRUE(stream->synchronize().ok());
}

}  // namespace
}  // namespace paceline
