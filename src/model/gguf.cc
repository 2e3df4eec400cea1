// Access to what GgufParser read.
#include "model/gguf.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace paceline {
namespace {

template <typename T>
T read(std::span<const uint8_t> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::string_view string_at(std::span<const uint8_t> bytes, size_t offset) {
  const auto length = read<uint64_t>(bytes, offset);
  return {reinterpret_cast<const char*>(bytes.data()) + offset + 8, static_cast<size_t>(length)};
}

bool is_integer(GgufType type) {
  return type != GgufType::kFloat32 && type != GgufType::kFloat64 && type != GgufType::kBool &&
         type != GgufType::kString && type != GgufType::kArray;
}

// An integer as a sign and a magnitude, so that every width fits.
struct Integer {
  bool negative;
  uint64_t magnitude;
};

template <typename T>
Integer integer_of(T value) {
  if (value < 0) {
    return {true, uint64_t{0} - static_cast<uint64_t>(value)};
  }
  return {false, static_cast<uint64_t>(value)};
}

Integer read_integer(GgufType type, std::span<const uint8_t> bytes, size_t offset) {
  switch (type) {
    case GgufType::kInt8:
      return integer_of(int64_t{read<int8_t>(bytes, offset)});
    case GgufType::kUint16:
      return {false, read<uint16_t>(bytes, offset)};
    case GgufType::kInt16:
      return integer_of(int64_t{read<int16_t>(bytes, offset)});
    case GgufType::kUint32:
      return {false, read<uint32_t>(bytes, offset)};
    case GgufType::kInt32:
      return integer_of(int64_t{read<int32_t>(bytes, offset)});
    case GgufType::kUint64:
      return {false, read<uint64_t>(bytes, offset)};
    case GgufType::kInt64:
      return integer_of(read<int64_t>(bytes, offset));
    default:
      return {false, read<uint8_t>(bytes, offset)};
  }
}

}  // namespace

const char* gguf_type_name(GgufType type) {
  static constexpr const char* kNames[] = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                           "int32",  "float32", "bool",   "string", "array",
                                           "uint64", "int64",   "float64"};
  const auto index = static_cast<size_t>(type);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

const GgufFile::Value* GgufFile::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

std::string GgufFile::type_of(const Value& value) const {
  if (value.type == GgufType::kArray) {
    return fmt::format("array of {} {}", value.count, gguf_type_name(value.element));
  }
  return gguf_type_name(value.type);
}

Result<const GgufFile::Value*> GgufFile::find_typed(std::string_view key, GgufType type,
                                                    const char* wanted) const {
  const Value* value = find(key);
  if (value == nullptr) {
    return not_found("{}: metadata key '{}' is missing ({} needed)", name_, key, wanted);
  }
  if (value->type != type) {
    return invalid_argument("{}: metadata key '{}' is {}; {} needed", name_, key, type_of(*value),
                            wanted);
  }
  return value;
}

Result<uint64_t> GgufFile::get_uint(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) {
    return not_found("{}: metadata key '{}' is missing (integer needed)", name_, key);
  }
  if (!is_integer(value->type)) {
    return invalid_argument("{}: metadata key '{}' is {}; integer needed", name_, key,
                            type_of(*value));
  }
  const Integer integer = read_integer(value->type, bytes_, value->offset);
  if (integer.negative) {
    return invalid_argument("{}: metadata key '{}' is -{}; it must not be negative", name_, key,
                            integer.magnitude);
  }
  return integer.magnitude;
}

Result<double> GgufFile::get_float(std::string_view key) const {
  const Value* value = find(key);
  if (value != nullptr && is_integer(value->type)) {
    const Integer integer = read_integer(value->type, bytes_, value->offset);
    const auto magnitude = static_cast<double>(integer.magnitude);
    return integer.negative ? -magnitude : magnitude;
  }
  if (value != nullptr && value->type == GgufType::kFloat64) {
    return read<double>(bytes_, value->offset);
  }
  PACELINE_ASSIGN_OR_RETURN(value, find_typed(key, GgufType::kFloat32, "number"));
  return double{read<float>(bytes_, value->offset)};
}

Result<bool> GgufFile::get_bool(std::string_view key) const {
  PACELINE_ASSIGN_OR_RETURN(const Value* value, find_typed(key, GgufType::kBool, "bool"));
  return read<uint8_t>(bytes_, value->offset) != 0;
}

Result<std::string> GgufFile::get_string(std::string_view key) const {
  PACELINE_ASSIGN_OR_RETURN(const Value* value, find_typed(key, GgufType::kString, "string"));
  return std::string(string_at(bytes_, value->offset));
}

Result<const GgufFile::Value*> GgufFile::find_array(std::string_view key, bool strings,
                                                    const char* wanted) const {
  PACELINE_ASSIGN_OR_RETURN(const Value* value, find_typed(key, GgufType::kArray, wanted));
  const bool matches = strings ? value->element == GgufType::kString : is_integer(value->element);
  if (!matches) {
    return invalid_argument("{}: metadata key '{}' is {}; {} needed", name_, key, type_of(*value),
                            wanted);
  }
  return value;
}

Result<std::vector<std::string>> GgufFile::get_string_array(std::string_view key) const {
  PACELINE_ASSIGN_OR_RETURN(const Value* value, find_array(key, true, "array of strings"));
  std::vector<std::string> strings;
  strings.reserve(static_cast<size_t>(value->count));
  size_t offset = value->offset;
  for (uint64_t i = 0; i < value->count; ++i) {
    const std::string_view text = string_at(bytes_, offset);
    strings.emplace_back(text);
    offset += 8 + text.size();
  }
  return strings;
}

Result<std::vector<int64_t>> GgufFile::get_int_array(std::string_view key) const {
  PACELINE_ASSIGN_OR_RETURN(const Value* value, find_array(key, false, "array of integers"));
  std::vector<int64_t> integers;
  integers.reserve(static_cast<size_t>(value->count));
  for (size_t i = 0; i < value->count; ++i) {
    const Integer integer =
        read_integer(value->element, bytes_, value->offset + i * gguf_type_bytes(value->element));
    if (integer.magnitude > static_cast<uint64_t>(INT64_MAX)) {
      return invalid_argument("{}: metadata key '{}', entry {} is beyond 64 signed bits", name_,
                              key, i);
    }
    const auto magnitude = static_cast<int64_t>(integer.magnitude);
    integers.push_back(integer.negative ? -magnitude : magnitude);
  }
  return integers;
}

std::string GgufFile::describe_scalar(GgufType type, size_t offset) const {
  switch (type) {
    case GgufType::kFloat32:
      return fmt::format("{:g}", read<float>(bytes_, offset));
    case GgufType::kFloat64:
      return fmt::format("{:g}", read<double>(bytes_, offset));
    case GgufType::kBool:
      return read<uint8_t>(bytes_, offset) != 0 ? "true" : "false";
    case GgufType::kString:
      return fmt::format("\"{}\"", printable(string_at(bytes_, offset)));
    default: {
      const Integer integer = read_integer(type, bytes_, offset);
      return fmt::format("{}{}", integer.negative ? "-" : "", integer.magnitude);
    }
  }
}

std::string GgufFile::describe_array(const Value& value) const {
  constexpr uint64_t kShown = 6;
  std::string text = "[";
  size_t offset = value.offset;
  for (uint64_t i = 0; i < std::min(value.count, kShown); ++i) {
    text += (i == 0 ? "" : ", ") + describe_scalar(value.element, offset);
    offset += value.element == GgufType::kString ? 8 + string_at(bytes_, offset).size()
                                                 : gguf_type_bytes(value.element);
  }
  return text + (value.count > kShown ? fmt::format(", ... {} in all]", value.count) : "]");
}

std::string GgufFile::describe(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) {
    return "(missing)";
  }
  if (value->type != GgufType::kArray) {
    return describe_scalar(value->type, value->offset);
  }
  return value->element == GgufType::kArray ? type_of(*value) : describe_array(*value);
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto it = tensor_index_.find(std::string(name));
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

}  // namespace paceline
