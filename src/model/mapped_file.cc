#include "model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/errors.h"

namespace paceline {

Result<MappedFile> MappedFile::open(const std::string& path) {
  // Non-blocking, so that a pipe without a writer is refused and not waited for.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      return not_found("'{}': no such file", path);
    }
    return invalid_argument("'{}': cannot open: {}", path, std::strerror(error));
  }
  struct stat info {};
  const bool known = fstat(file, &info) == 0;
  if (!known || !S_ISREG(info.st_mode) || info.st_size == 0) {
    close(file);
    if (known && S_ISDIR(info.st_mode)) {
      return invalid_argument("'{}' is a folder; a file is needed", path);
    }
    return invalid_argument("'{}' {}", path,
                            known && S_ISREG(info.st_mode) ? "is empty" : "is not a regular file");
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  close(file);
  if (data == MAP_FAILED) {
    return resource_exhausted("'{}': cannot map {} bytes: {}", path, size, std::strerror(error));
  }
  return MappedFile(static_cast<const uint8_t*>(data), size);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    munmap(const_cast<uint8_t*>(data_), size_);
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace paceline
