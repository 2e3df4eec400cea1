// Host vectors to and from device memory, for tests: these block, the library does not.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "paceline/device.h"
#include "paceline/tensor.h"

namespace paceline::testing {

class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(Device& device, size_t bytes) : device_(&device) {
    buffer_ = device.allocate(bytes).value();
    staging_ = device.allocate(bytes, MemoryKind::kPinnedHost).value();
    bytes_ = bytes;
  }
  template <typename T>
  DeviceArray(Device& device, Stream& stream, const std::vector<T>& values)
      : DeviceArray(device, values.size() * sizeof(T)) {
    upload(stream, values);
  }

  template <typename T>
  void upload(Stream& stream, const std::vector<T>& values) {
    ASSERT_LE(values.size() * sizeof(T), bytes_);
    if (!values.empty()) {
      std::memcpy(staging_.data(), values.data(), values.size() * sizeof(T));
    }
    ASSERT_TRUE(stream
                    .copy(buffer_.data(), staging_.data(), values.size() * sizeof(T),
                          CopyKind::kHostToDevice)
                    .ok());
    ASSERT_TRUE(stream.synchronize().ok());
  }

  template <typename T>
  std::vector<T> download(Stream& stream) const {
    std::vector<T> values(bytes_ / sizeof(T));
    EXPECT_TRUE(stream.copy(staging_.data(), buffer_.data(), bytes_, CopyKind::kDeviceToHost).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    if (bytes_ > 0) {
      std::memcpy(values.data(), staging_.data(), bytes_);
    }
    return values;
  }

  // Every byte 0xFF: a NaN in every floating-point format.
  void poison(Stream& stream) { ASSERT_TRUE(stream.fill(buffer_.data(), 0xFF, bytes_).ok()); }

  void* data() const { return buffer_.data(); }
  size_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  Buffer buffer_;
  Buffer staging_;
  size_t bytes_ = 0;
};

}  // namespace paceline::testing
