// A file mapped read-only into memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "paceline/status.h"

namespace paceline {

class MappedFile {
 public:
  // kNotFound when there is no such file; kInvalidArgument for a folder or another thing that is no
  // regular file, for an empty file, and when it cannot be read.
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace paceline
