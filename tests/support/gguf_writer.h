// Writes GGUF v3 files for tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/weight_format.h"
#include "model/gguf.h"

namespace paceline::testing {

class GgufWriter {
 public:
  void add_uint32(std::string_view key, uint32_t value);
  void add_int32(std::string_view key, int32_t value);
  void add_uint64(std::string_view key, uint64_t value);
  void add_float32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_strings(std::string_view key, const std::vector<std::string>& values);
  void add_int32s(std::string_view key, const std::vector<int32_t>& values);
  // A value of any type, as raw bytes after the type.
  void add_raw(std::string_view key, GgufType type, std::string_view bytes);

  // `shape` outermost first; `data` of the format's size.
  void add_tensor(std::string_view name, WeightFormat format, const std::vector<int64_t>& shape,
                  std::string_view data);
  // float32 values, converted to F32, F16 or BF16.
  void add_tensor(std::string_view name, WeightFormat format, const std::vector<int64_t>& shape,
                  const std::vector<float>& values);

  std::string finish(uint32_t version = 3) const;

 private:
  void begin_value(std::string_view key, GgufType type);

  std::string metadata_;
  std::string infos_;
  std::string data_;
  uint64_t num_metadata_ = 0;
  uint64_t num_tensors_ = 0;
};

}  // namespace paceline::testing
