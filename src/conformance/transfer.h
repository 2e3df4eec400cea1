// Host vectors to and from device memory. These block: for checks, not for serving.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "base/status_macros.h"
#include "paceline/device.h"

namespace paceline {

template <typename T>
Status upload(Stream& stream, const std::vector<T>& values, const Buffer& to) {
  const size_t bytes = values.size() * sizeof(T);
  if (bytes == 0) {
    return {};
  }
  PACELINE_ASSIGN_OR_RETURN(const Buffer staging,
                            stream.device().allocate(bytes, MemoryKind::kPinnedHost));
  std::memcpy(staging.data(), values.data(), bytes);
  PACELINE_RETURN_IF_ERROR(stream.copy(to.data(), staging.data(), bytes, CopyKind::kHostToDevice));
  return stream.synchronize();
}

template <typename T>
Result<Buffer> to_device(Stream& stream, const std::vector<T>& values) {
  PACELINE_ASSIGN_OR_RETURN(Buffer buffer, stream.device().allocate(values.size() * sizeof(T)));
  PACELINE_RETURN_IF_ERROR(upload(stream, values, buffer));
  return buffer;
}

template <typename T>
Result<std::vector<T>> download(Stream& stream, const Buffer& from) {
  PACELINE_ASSIGN_OR_RETURN(const Buffer staging,
                            stream.device().allocate(from.bytes(), MemoryKind::kPinnedHost));
  PACELINE_RETURN_IF_ERROR(
      stream.copy(staging.data(), from.data(), from.bytes(), CopyKind::kDeviceToHost));
  PACELINE_RETURN_IF_ERROR(stream.synchronize());
  std::vector<T> values(from.bytes() / sizeof(T));
  if (!values.empty()) {
    std::memcpy(values.data(), staging.data(), values.size() * sizeof(T));
  }
  return values;
}

}  // namespace paceline
