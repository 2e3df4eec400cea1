// Reader of GGUF model files, versions 2 and 3, little-endian.
//
//   "GGUF", u32 version, u64 tensor count, u64 metadata count
//   metadata: key string, u32 type, value
//   tensors:  name string, u32 dims, u64 sizes innermost first, u32 type, u64 offset of the data
//   padding to general.alignment (32), then the data section that tensor offsets count from
//
// A string is a u64 length and bytes; an array a u32 type, a u64 length and the elements.
//
// Nothing in a file is trusted: every length is checked against what is left before it is used.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/weight_format.h"
#include "model/mapped_file.h"
#include "paceline/status.h"

namespace paceline {

enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};
const char* gguf_type_name(GgufType type);
// Bytes of a value of fixed size; 0 for strings and arrays.
size_t gguf_type_bytes(GgufType type);

struct GgufTensor {
  std::string name;
  uint32_t ggml_type = 0;
  std::string type_name;               // "Q4_1", or "type 99" for one that is not known
  std::optional<WeightFormat> format;  // absent: known to GGUF, but not served here
  std::vector<int64_t> shape;          // outermost first: [rows, cols]
  const uint8_t* data = nullptr;
  size_t bytes = 0;  // 0 where the format is absent
};

class GgufFile {
 public:
  // Maps the file. Errors name the file and, where one is known, the offset.
  static Result<std::unique_ptr<GgufFile>> open(const std::string& path);
  // Reads from memory, which must outlive the result.
  static Result<std::unique_ptr<GgufFile>> parse(std::span<const uint8_t> bytes, std::string name);

  const std::string& name() const { return name_; }
  uint32_t version() const { return version_; }
  size_t file_bytes() const { return bytes_.size(); }

  bool has(std::string_view key) const { return find(key) != nullptr; }
  // Integers of any width are taken where they fit. kNotFound for an absent key, kInvalidArgument
  // for another type or a value out of range; messages name the key, what it is and what was
  // wanted.
  Result<uint64_t> get_uint(std::string_view key) const;
  Result<double> get_float(std::string_view key) const;  // also from integers
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string> get_string(std::string_view key) const;
  Result<std::vector<std::string>> get_string_array(std::string_view key) const;
  Result<std::vector<int64_t>> get_int_array(std::string_view key) const;

  // Keys in the order of the file, and a value for people to read: long arrays and strings cut.
  const std::vector<std::string>& keys() const { return keys_; }
  std::string describe(std::string_view key) const;

  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;  // null when absent

 private:
  friend class GgufParser;
  // Where a value lies; decoded when asked for.
  struct Value {
    GgufType type;
    GgufType element;  // of an array
    uint64_t count;    // elements of an array; 1 otherwise
    size_t offset;     // of the first byte, after type and length
  };

  const Value* find(std::string_view key) const;
  Result<const Value*> find_typed(std::string_view key, GgufType type, const char* wanted) const;
  Result<const Value*> find_array(std::string_view key, bool strings, const char* wanted) const;
  std::string describe_scalar(GgufType type, size_t offset) const;
  std::string describe_array(const Value& value) const;
  std::string type_of(const Value& value) const;

  MappedFile file_;  // empty when parsed from memory
  std::span<const uint8_t> bytes_;
  std::string name_;
  uint32_t version_ = 0;
  std::vector<std::string> keys_;
  std::map<std::string, Value, std::less<>> values_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string, size_t> tensor_index_;
};

}  // namespace paceline
