#include "model/gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "support/gguf_writer.h"

namespace paceline {
namespace {

using testing::GgufWriter;

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

Status status_of(const std::string& file) {
  auto result = GgufFile::parse(bytes_of(file), "test.gguf");
  return result.ok() ? Status() : result.status();
}

GgufWriter small_writer() {
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_uint32("llama.block_count", 2);
  writer.add_int32("negative", -5);
  writer.add_uint64("wide", uint64_t{1} << 40);
  writer.add_float32("llama.rope.freq_base", 10000.0F);
  writer.add_bool("flag", true);
  writer.add_strings("tokens", {"a", "bc", ""});
  writer.add_int32s("types", {1, -2, 3});
  writer.add_tensor("x", WeightFormat::kF32, {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  writer.add_tensor("y", WeightFormat::kF16, {4}, std::vector<float>{1, 2, 3, 4});
  return writer;
}

void expect_refused(const std::string& file, StatusCode code, const std::string& words) {
  const Status status = status_of(file);
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_NE(status.message().find(words), std::string::npos) << status.to_string();
  EXPECT_NE(status.message().find("test.gguf"), std::string::npos) << status.to_string();
}

TEST(Gguf, ReadsWhatWasWritten) {
  for (const uint32_t version : {2U, 3U}) {
    const std::string file = small_writer().finish(version);
    auto gguf = GgufFile::parse(bytes_of(file), "test.gguf").value();
    EXPECT_EQ(gguf->version(), version);
    EXPECT_EQ(gguf->get_string("general.architecture").value(), "llama");
    EXPECT_EQ(gguf->get_uint("llama.block_count").value(), 2U);
    EXPECT_EQ(gguf->get_uint("wide").value(), uint64_t{1} << 40);
    EXPECT_EQ(gguf->get_float("llama.rope.freq_base").value(), 10000.0);
    EXPECT_EQ(gguf->get_float("negative").value(), -5.0);
    EXPECT_TRUE(gguf->get_bool("flag").value());
    EXPECT_EQ(gguf->get_string_array("tokens").value(), (std::vector<std::string>{"a", "bc", ""}));
    EXPECT_EQ(gguf->get_int_array("types").value(), (std::vector<int64_t>{1, -2, 3}));
    EXPECT_EQ(gguf->keys().front(), "general.architecture");
    EXPECT_EQ(gguf->describe("tokens"), "[\"a\", \"bc\", \"\"]");
    EXPECT_EQ(gguf->describe("negative"), "-5");
    ASSERT_EQ(gguf->tensors().size(), 2U);
    const GgufTensor* x = gguf->find_tensor("x");
    ASSERT_NE(x, nullptr);
    EXPECT_EQ(x->shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(x->bytes, 24U);
    float last = 0;
    std::memcpy(&last, x->data + 20, 4);
    EXPECT_EQ(last, 6.0F);
    EXPECT_EQ(gguf->find_tensor("z"), nullptr);
  }
}

TEST(Gguf, WrongTypesAndAbsentKeysAreNamed) {
  const std::string file = small_writer().finish();
  auto gguf = GgufFile::parse(bytes_of(file), "test.gguf").value();
  EXPECT_EQ(gguf->get_uint("nothing").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(gguf->get_uint("tokens").status().message(),
            "test.gguf: metadata key 'tokens' is array of 3 string; integer needed");
  EXPECT_NE(gguf->get_uint("negative").status().message().find("-5"), std::string::npos);
  EXPECT_FALSE(gguf->get_string("flag").ok());
  EXPECT_FALSE(gguf->get_int_array("tokens").ok());
  EXPECT_FALSE(gguf->get_string_array("types").ok());
}

TEST(Gguf, WhatIsNotGgufIsRecognised) {
  expect_refused("PK\x03\x04zip", StatusCode::kInvalidArgument, "zip archive");
  expect_refused(std::string("\x10\0\0\0\0\0\0\0{\"a\"", 12), StatusCode::kInvalidArgument,
                 "safetensors");
  expect_refused("version https://git-lfs", StatusCode::kInvalidArgument, "Git LFS pointer");
  expect_refused("lmggxxxx", StatusCode::kInvalidArgument, "older than GGUF");
  expect_refused("\x01", StatusCode::kInvalidArgument, "\\x01");
  expect_refused(small_writer().finish(1), StatusCode::kUnsupported, "version 1");
  expect_refused(small_writer().finish(0x03000000), StatusCode::kUnsupported, "big-endian");
}

std::string with_count(size_t offset, uint64_t count) {
  std::string file = small_writer().finish();
  std::memcpy(file.data() + offset, &count, sizeof(count));
  return file;
}

TEST(Gguf, HugeHeaderCountsAreRefusedWithoutAllocating) {
  for (const uint64_t count : {uint64_t{1} << 63, UINT64_MAX, uint64_t{1} << 32}) {
    expect_refused(with_count(8, count), StatusCode::kDataLoss, "tensors");
    expect_refused(with_count(16, count), StatusCode::kDataLoss, "metadata entries");
    expect_refused(with_count(24, count), StatusCode::kDataLoss, "a metadata key");
  }
}

std::string raw_value(GgufType type, const std::string& bytes) {
  GgufWriter writer;
  writer.add_raw("k", type, bytes);
  return writer.finish();
}

std::string u32(uint32_t value) { return {reinterpret_cast<const char*>(&value), 4}; }
std::string u64(uint64_t value) { return {reinterpret_cast<const char*>(&value), 8}; }

TEST(Gguf, BadMetadata) {
  expect_refused(raw_value(GgufType::kString, u64(UINT64_MAX)), StatusCode::kDataLoss, "claims");
  expect_refused(raw_value(GgufType::kArray, u32(4) + u64(uint64_t{1} << 62)),
                 StatusCode::kDataLoss, "claims");
  expect_refused(raw_value(GgufType::kArray, u32(8) + u64(uint64_t{1} << 62)),
                 StatusCode::kDataLoss, "metadata string");
  expect_refused(raw_value(static_cast<GgufType>(99), ""), StatusCode::kDataLoss, "type 99");
  std::string nested;
  for (int i = 0; i < 10; ++i) {
    nested += u32(9) + u64(1);
  }
  expect_refused(raw_value(GgufType::kArray, nested), StatusCode::kUnsupported, "nests arrays");
  GgufWriter twice;
  twice.add_bool("k", true);
  twice.add_bool("k", true);
  expect_refused(twice.finish(), StatusCode::kDataLoss, "occurs twice");
  for (const uint32_t alignment : {0U, 48U, 0x80000000U}) {
    GgufWriter writer;
    writer.add_uint32("general.alignment", alignment);
    expect_refused(writer.finish(), StatusCode::kDataLoss, "general.alignment");
  }
}

TEST(Gguf, BadTensors) {
  const auto file_with = [](WeightFormat format, const std::vector<int64_t>& shape, size_t bytes) {
    GgufWriter writer;
    writer.add_tensor("w", format, shape, std::string_view(std::string(bytes, 'x')));
    return writer.finish();
  };
  expect_refused(file_with(WeightFormat::kF32, {}, 4), StatusCode::kDataLoss, "0 dimensions");
  expect_refused(file_with(WeightFormat::kF32, {1, 1, 1, 1, 1}, 4), StatusCode::kDataLoss,
                 "5 dimensions");
  expect_refused(file_with(WeightFormat::kF32, {4, 0}, 4), StatusCode::kDataLoss, "of 0");
  expect_refused(file_with(WeightFormat::kF32, {int64_t{1} << 40, int64_t{1} << 40}, 4),
                 StatusCode::kDataLoss, "do not make a tensor");
  expect_refused(file_with(WeightFormat::kQ4_1, {2, 33}, 40), StatusCode::kDataLoss,
                 "multiple of 32");
  expect_refused(file_with(WeightFormat::kF32, {100}, 399), StatusCode::kDataLoss, "truncated");
  GgufWriter twice;
  twice.add_tensor("w", WeightFormat::kF32, {1}, std::vector<float>{1});
  twice.add_tensor("w", WeightFormat::kF32, {1}, std::vector<float>{1});
  expect_refused(twice.finish(), StatusCode::kDataLoss, "occurs twice");
  GgufWriter overlap;
  overlap.add_tensor("a", WeightFormat::kF32, {16}, std::string_view(std::string(32, 'x')));
  overlap.add_tensor("b", WeightFormat::kF32, {8}, std::string_view(std::string(32, 'x')));
  expect_refused(overlap.finish(), StatusCode::kDataLoss, "overlap");
}

TEST(Gguf, AnUnservedTypeIsListedWithoutAFormat) {
  GgufWriter writer;
  writer.add_tensor("w", WeightFormat::kF32, {4}, std::vector<float>{1, 2, 3, 4});
  std::string file = writer.finish();
  const size_t type_at = 24 + 8 + 1 + 4 + 8;
  for (const auto& [number, name] :
       std::vector<std::pair<uint32_t, std::string>>{{12, "Q4_K"}, {99, "type 99"}}) {
    std::memcpy(file.data() + type_at, &number, 4);
    auto gguf = GgufFile::parse(bytes_of(file), "test.gguf").value();
    EXPECT_EQ(gguf->find_tensor("w")->type_name, name);
    EXPECT_FALSE(gguf->find_tensor("w")->format.has_value());
  }
}

TEST(Gguf, TruncatedAnywhere) {
  const std::string file = small_writer().finish();
  for (size_t length = 0; length < file.size(); ++length) {
    const std::string part = file.substr(0, length);
    const Status status = status_of(part);
    ASSERT_FALSE(status.ok()) << length;
    EXPECT_FALSE(status.message().empty());
  }
}

// Whatever the bytes, the answer is a file that can be walked, or a message.
void walk(const std::string& file) {
  auto gguf = GgufFile::parse(bytes_of(file), "test.gguf");
  if (!gguf.ok()) {
    EXPECT_FALSE(gguf.status().message().empty());
    return;
  }
  for (const std::string& key : (*gguf)->keys()) {
    EXPECT_FALSE((*gguf)->describe(key).empty());
    (void)(*gguf)->get_uint(key).ok();
    (void)(*gguf)->get_float(key).ok();
    (void)(*gguf)->get_string_array(key).ok();
    (void)(*gguf)->get_int_array(key).ok();
  }
  for (const GgufTensor& tensor : (*gguf)->tensors()) {
    if (tensor.format.has_value()) {
      std::vector<float> out(static_cast<size_t>(weight_block_elements(*tensor.format)));
      dequantize_row(*tensor.format, tensor.data, static_cast<int64_t>(out.size()), out.data());
    }
  }
}

TEST(Gguf, EveryBitFlippedAndRandomMutations) {
  const std::string file = small_writer().finish();
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::string mutated = file;
    mutated[bit / 8] = static_cast<char>(mutated[bit / 8] ^ (1 << (bit % 8)));
    walk(mutated);
  }
  std::mt19937 rng(3);
  for (int round = 0; round < 20000; ++round) {
    std::string mutated = file.substr(0, rng() % 4 == 0 ? rng() % file.size() : file.size());
    for (int edits = 1 + static_cast<int>(rng() % 8); edits > 0 && !mutated.empty(); --edits) {
      mutated[rng() % mutated.size()] = static_cast<char>(rng());
    }
    walk(mutated);
  }
}

TEST(Gguf, OpenSaysWhatIsWrongWithThePath) {
  EXPECT_EQ(GgufFile::open("/nonexistent/model.gguf").status().code(), StatusCode::kNotFound);
  const Status folder = GgufFile::open("/tmp").status();
  EXPECT_EQ(folder.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(folder.message().find("folder"), std::string::npos);
  const std::string path = ::testing::TempDir() + "/empty.gguf";
  std::ofstream(path).close();
  EXPECT_NE(GgufFile::open(path).status().message().find("empty"), std::string::npos);
  EXPECT_FALSE(GgufFile::open("/dev/null").ok());
}

}  // namespace
}  // namespace paceline
