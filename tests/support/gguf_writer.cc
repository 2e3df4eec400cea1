#include "support/gguf_writer.h"

#include "base/float_convert.h"

namespace paceline::testing {
namespace {

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_string(std::string& out, std::string_view text) {
  put(out, uint64_t{text.size()});
  out.append(text);
}

void align(std::string& out) { out.resize((out.size() + 31) / 32 * 32, '\0'); }

uint32_t type_number(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return 0;
    case WeightFormat::kF16:
      return 1;
    case WeightFormat::kQ4_0:
      return 2;
    case WeightFormat::kQ4_1:
      return 3;
    case WeightFormat::kQ8_0:
      return 8;
    case WeightFormat::kQ6_K:
      return 14;
    case WeightFormat::kBF16:
      return 30;
  }
  return 0;
}

}  // namespace

void GgufWriter::begin_value(std::string_view key, GgufType type) {
  put_string(metadata_, key);
  put(metadata_, static_cast<uint32_t>(type));
  ++num_metadata_;
}

void GgufWriter::add_uint32(std::string_view key, uint32_t value) {
  begin_value(key, GgufType::kUint32);
  put(metadata_, value);
}
void GgufWriter::add_int32(std::string_view key, int32_t value) {
  begin_value(key, GgufType::kInt32);
  put(metadata_, value);
}
void GgufWriter::add_uint64(std::string_view key, uint64_t value) {
  begin_value(key, GgufType::kUint64);
  put(metadata_, value);
}
void GgufWriter::add_float32(std::string_view key, float value) {
  begin_value(key, GgufType::kFloat32);
  put(metadata_, value);
}
void GgufWriter::add_bool(std::string_view key, bool value) {
  begin_value(key, GgufType::kBool);
  put(metadata_, static_cast<uint8_t>(value ? 1 : 0));
}
void GgufWriter::add_string(std::string_view key, std::string_view value) {
  begin_value(key, GgufType::kString);
  put_string(metadata_, value);
}
void GgufWriter::add_strings(std::string_view key, const std::vector<std::string>& values) {
  begin_value(key, GgufType::kArray);
  put(metadata_, static_cast<uint32_t>(GgufType::kString));
  put(metadata_, uint64_t{values.size()});
  for (const std::string& value : values) {
    put_string(metadata_, value);
  }
}
void GgufWriter::add_int32s(std::string_view key, const std::vector<int32_t>& values) {
  begin_value(key, GgufType::kArray);
  put(metadata_, static_cast<uint32_t>(GgufType::kInt32));
  put(metadata_, uint64_t{values.size()});
  for (const int32_t value : values) {
    put(metadata_, value);
  }
}
void GgufWriter::add_raw(std::string_view key, GgufType type, std::string_view bytes) {
  begin_value(key, type);
  metadata_.append(bytes);
}

void GgufWriter::add_tensor(std::string_view name, WeightFormat format,
                            const std::vector<int64_t>& shape, std::string_view data) {
  put_string(infos_, name);
  put(infos_, static_cast<uint32_t>(shape.size()));
  for (size_t i = shape.size(); i-- > 0;) {
    put(infos_, static_cast<uint64_t>(shape[i]));
  }
  put(infos_, type_number(format));
  align(data_);
  put(infos_, uint64_t{data_.size()});
  data_.append(data);
  ++num_tensors_;
}

void GgufWriter::add_tensor(std::string_view name, WeightFormat format,
                            const std::vector<int64_t>& shape, const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) {
    if (format == WeightFormat::kF16) {
      put(bytes, to_half(value).bits);
    } else if (format == WeightFormat::kBF16) {
      put(bytes, to_bfloat16(value).bits);
    } else {
      put(bytes, value);
    }
  }
  add_tensor(name, format, shape, bytes);
}

std::string GgufWriter::finish(uint32_t version) const {
  std::string file = "GGUF";
  put(file, version);
  put(file, num_tensors_);
  put(file, num_metadata_);
  file += metadata_ + infos_;
  align(file);
  return file + data_;
}

}  // namespace paceline::testing
