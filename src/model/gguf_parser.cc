// Turns the bytes of a GGUF file into a checked GgufFile.
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "model/gguf.h"

namespace paceline {
namespace {

constexpr uint64_t kMaxDims = 4;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
constexpr int kMaxArrayDepth = 4;

// ggml's type numbers, with their names; those that this project decodes have a format.
struct TensorType {
  uint32_t number;
  const char* name;
  std::optional<WeightFormat> format;
};
constexpr TensorType kTensorTypes[] = {
    {0, "F32", WeightFormat::kF32},    {1, "F16", WeightFormat::kF16},
    {2, "Q4_0", WeightFormat::kQ4_0},  {3, "Q4_1", WeightFormat::kQ4_1},
    {6, "Q5_0", std::nullopt},         {7, "Q5_1", std::nullopt},
    {8, "Q8_0", WeightFormat::kQ8_0},  {9, "Q8_1", std::nullopt},
    {10, "Q2_K", std::nullopt},        {11, "Q3_K", std::nullopt},
    {12, "Q4_K", std::nullopt},        {13, "Q5_K", std::nullopt},
    {14, "Q6_K", WeightFormat::kQ6_K}, {15, "Q8_K", std::nullopt},
    {16, "IQ2_XXS", std::nullopt},     {17, "IQ2_XS", std::nullopt},
    {18, "IQ3_XXS", std::nullopt},     {19, "IQ1_S", std::nullopt},
    {20, "IQ4_NL", std::nullopt},      {21, "IQ3_S", std::nullopt},
    {22, "IQ2_S", std::nullopt},       {23, "IQ4_XS", std::nullopt},
    {24, "I8", std::nullopt},          {25, "I16", std::nullopt},
    {26, "I32", std::nullopt},         {27, "I64", std::nullopt},
    {28, "F64", std::nullopt},         {29, "IQ1_M", std::nullopt},
    {30, "BF16", WeightFormat::kBF16},
};

bool is_known(GgufType type) { return static_cast<uint32_t>(type) <= 12; }

}  // namespace

size_t gguf_type_bytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    default:
      return 0;
  }
}

class GgufParser {
 public:
  explicit GgufParser(GgufFile& file) : file_(file), bytes_(file.bytes_) {}

  Status parse() {
    PACELINE_RETURN_IF_ERROR(read_header());
    for (uint64_t i = 0; i < num_metadata_; ++i) {
      PACELINE_RETURN_IF_ERROR(read_metadata(i));
    }
    PACELINE_RETURN_IF_ERROR(read_alignment());
    for (uint64_t i = 0; i < num_tensors_; ++i) {
      PACELINE_RETURN_IF_ERROR(read_tensor(i));
    }
    return place_tensors();
  }

 private:
  size_t left() const { return bytes_.size() - at_; }

  Status truncated(const char* what) const {
    return data_loss("{}: the file ends at byte {} inside {} that begins at byte {}", file_.name_,
                     bytes_.size(), what, at_);
  }

  template <typename T>
  Status read(T& value, const char* what) {
    if (left() < sizeof(T)) {
      return truncated(what);
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return {};
  }

  Status read_string(std::string_view& text, const char* what) {
    uint64_t length = 0;
    PACELINE_RETURN_IF_ERROR(read(length, what));
    if (length > left()) {
      return data_loss("{}: {} at byte {} claims {} bytes; {} are left", file_.name_, what, at_ - 8,
                       length, left());
    }
    text = {reinterpret_cast<const char*>(bytes_.data()) + at_, static_cast<size_t>(length)};
    at_ += text.size();
    return {};
  }

  Status check_magic() const {
    const std::string_view start(reinterpret_cast<const char*>(bytes_.data()),
                                 std::min<size_t>(bytes_.size(), 9));
    if (start.starts_with("GGUF")) {
      return {};
    }
    std::string guess;
    if (start.starts_with("PK\x03\x04")) {
      guess = "; it looks like a zip archive (a PyTorch checkpoint or a wheel)";
    } else if (start.size() == 9 && start[8] == '{') {
      guess = "; it looks like a safetensors file";
    } else if (start.starts_with("ggml") || start.starts_with("tjgg") ||
               start.starts_with("lmgg")) {
      guess = "; it is of a format older than GGUF";
    } else if (start.starts_with("version h")) {
      guess = "; it is a Git LFS pointer, not the file itself";
    }
    return invalid_argument("{}: not a GGUF file: it begins with '{}'{}", file_.name_,
                            printable(start.substr(0, 4)), guess);
  }

  Status read_header() {
    PACELINE_RETURN_IF_ERROR(check_magic());
    at_ = 4;
    PACELINE_RETURN_IF_ERROR(read(file_.version_, "the header"));
    const uint32_t version = file_.version_;
    if (version != 2 && version != 3) {
      const bool swapped = version == 0x02000000U || version == 0x03000000U;
      return unsupported("{}: GGUF version {}{}; possible are 2 and 3, little-endian", file_.name_,
                         version, swapped ? " (a big-endian file)" : "");
    }
    PACELINE_RETURN_IF_ERROR(read(num_tensors_, "the header"));
    PACELINE_RETURN_IF_ERROR(read(num_metadata_, "the header"));
    // The least that an entry takes: a key or name, a type, a value.
    PACELINE_RETURN_IF_ERROR(check_count("metadata entries", num_metadata_, 13));
    return check_count("tensors", num_tensors_, 32);
  }

  Status check_count(const char* what, uint64_t count, uint64_t least_bytes) const {
    if (count > left() / least_bytes) {
      return data_loss("{}: the header claims {} {}; the {} bytes after it hold at most {}",
                       file_.name_, count, what, left(), left() / least_bytes);
    }
    return {};
  }

  Status read_type(GgufType& type, std::string_view key) {
    uint32_t number = 0;
    PACELINE_RETURN_IF_ERROR(read(number, "a metadata type"));
    type = static_cast<GgufType>(number);
    if (!is_known(type)) {
      return data_loss("{}: metadata key '{}' has type {} at byte {}; types go to 12", file_.name_,
                       printable(key), number, at_ - 4);
    }
    return {};
  }

  // Moves past `count` values of `type`, checking that they are there.
  Status skip(GgufType type, uint64_t count, std::string_view key, int depth) {
    if (const size_t size = gguf_type_bytes(type); size > 0) {
      if (count > left() / size) {
        return data_loss(
            "{}: metadata key '{}' at byte {} claims {} values of {}; {} bytes are left",
            file_.name_, printable(key), at_, count, gguf_type_name(type), left());
      }
      at_ += static_cast<size_t>(count) * size;
      return {};
    }
    for (uint64_t i = 0; i < count; ++i) {
      std::string_view text;
      PACELINE_RETURN_IF_ERROR(type == GgufType::kString ? read_string(text, "a metadata string")
                                                         : skip_array(key, depth + 1, nullptr));
    }
    return {};
  }

  Status skip_array(std::string_view key, int depth, GgufFile::Value* value) {
    if (depth > kMaxArrayDepth) {
      return unsupported("{}: metadata key '{}' nests arrays deeper than {}", file_.name_,
                         printable(key), kMaxArrayDepth);
    }
    GgufType element{};
    uint64_t count = 0;
    PACELINE_RETURN_IF_ERROR(read_type(element, key));
    PACELINE_RETURN_IF_ERROR(read(count, "an array's length"));
    if (value != nullptr) {
      *value = {GgufType::kArray, element, count, at_};
    }
    return skip(element, count, key, depth);
  }

  Status read_metadata(uint64_t index) {
    std::string_view key;
    PACELINE_RETURN_IF_ERROR(read_string(key, "a metadata key"));
    if (key.empty()) {
      return data_loss("{}: metadata entry {} has an empty key", file_.name_, index);
    }
    GgufFile::Value value{};
    PACELINE_RETURN_IF_ERROR(read_type(value.type, key));
    if (value.type == GgufType::kArray) {
      PACELINE_RETURN_IF_ERROR(skip_array(key, 1, &value));
    } else {
      value = {value.type, value.type, 1, at_};
      PACELINE_RETURN_IF_ERROR(skip(value.type, 1, key, 0));
    }
    if (!file_.values_.emplace(std::string(key), value).second) {
      return data_loss("{}: metadata key '{}' occurs twice", file_.name_, printable(key));
    }
    file_.keys_.emplace_back(key);
    return {};
  }

  Status read_alignment() {
    if (!file_.has("general.alignment")) {
      return {};
    }
    PACELINE_ASSIGN_OR_RETURN(alignment_, file_.get_uint("general.alignment"));
    if (!std::has_single_bit(alignment_) || alignment_ > kMaxAlignment) {
      return data_loss("{}: general.alignment is {}; a power of two up to {} is possible",
                       file_.name_, alignment_, kMaxAlignment);
    }
    return {};
  }

  Status read_shape(GgufTensor& tensor, uint64_t& elements) {
    uint32_t dims = 0;
    PACELINE_RETURN_IF_ERROR(read(dims, "a tensor's dimensions"));
    if (dims == 0 || dims > kMaxDims) {
      return data_loss("{}: tensor '{}' has {} dimensions; 1 to {} are possible", file_.name_,
                       printable(tensor.name), dims, kMaxDims);
    }
    elements = 1;
    for (uint32_t i = 0; i < dims; ++i) {
      uint64_t size = 0;
      PACELINE_RETURN_IF_ERROR(read(size, "a tensor's dimensions"));
      // 2^48 elements are beyond any file; products below stay in 64 bits.
      if (size == 0 || size > (uint64_t{1} << 48) / elements) {
        return data_loss("{}: tensor '{}' has dimension {} of {}; the sizes do not make a tensor",
                         file_.name_, printable(tensor.name), i, size);
      }
      elements *= size;
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
    }
    return {};
  }

  Status read_tensor(uint64_t index) {
    std::string_view name;
    PACELINE_RETURN_IF_ERROR(read_string(name, "a tensor's name"));
    GgufTensor tensor;
    tensor.name = name;
    uint64_t elements = 0;
    PACELINE_RETURN_IF_ERROR(read_shape(tensor, elements));
    PACELINE_RETURN_IF_ERROR(read(tensor.ggml_type, "a tensor's type"));
    tensor.type_name = fmt::format("type {}", tensor.ggml_type);
    for (const TensorType& type : kTensorTypes) {
      if (type.number == tensor.ggml_type) {
        tensor.type_name = type.name;
        tensor.format = type.format;
      }
    }
    if (tensor.format.has_value()) {
      const int64_t block = weight_block_elements(*tensor.format);
      if (tensor.shape.back() % block != 0) {
        return data_loss("{}: tensor '{}' has rows of {} elements; {} needs a multiple of {}",
                         file_.name_, printable(tensor.name), tensor.shape.back(), tensor.type_name,
                         block);
      }
      tensor.bytes = weight_row_bytes(*tensor.format, static_cast<int64_t>(elements));
    }
    uint64_t offset = 0;
    PACELINE_RETURN_IF_ERROR(read(offset, "a tensor's offset"));
    offsets_.push_back(offset);
    if (!file_.tensor_index_.emplace(tensor.name, index).second) {
      return data_loss("{}: tensor '{}' occurs twice", file_.name_, printable(tensor.name));
    }
    file_.tensors_.push_back(std::move(tensor));
    return {};
  }

  // Offsets count from the data section, which begins at the next multiple of the alignment.
  Status place_tensors() {
    const size_t data = (at_ + alignment_ - 1) / alignment_ * alignment_;
    struct Extent {
      uint64_t begin;
      uint64_t end;
      const std::string* name;
    };
    std::vector<Extent> extents;
    for (size_t i = 0; i < file_.tensors_.size(); ++i) {
      GgufTensor& tensor = file_.tensors_[i];
      const uint64_t offset = offsets_[i];
      if (offset % alignment_ != 0) {
        return data_loss("{}: tensor '{}' lies at offset {}; a multiple of {} is needed",
                         file_.name_, printable(tensor.name), offset, alignment_);
      }
      const uint64_t room = data > bytes_.size() ? 0 : bytes_.size() - data;
      if (offset > room || tensor.bytes > room - offset) {
        return data_loss(
            "{}: tensor '{}' takes bytes {} to {} of the data section, which ends at {}: the file "
            "is "
            "truncated or corrupt",
            file_.name_, printable(tensor.name), offset, offset + tensor.bytes, room);
      }
      tensor.data = bytes_.data() + data + offset;
      extents.push_back({offset, offset + tensor.bytes, &tensor.name});
    }
    std::sort(extents.begin(), extents.end(),
              [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    for (size_t i = 1; i < extents.size(); ++i) {
      if (extents[i].begin < extents[i - 1].end) {
        return data_loss("{}: tensors '{}' and '{}' overlap at offset {} of the data section",
                         file_.name_, printable(*extents[i - 1].name), printable(*extents[i].name),
                         extents[i].begin);
      }
    }
    return {};
  }

  GgufFile& file_;
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  uint64_t num_tensors_ = 0;
  uint64_t num_metadata_ = 0;
  uint64_t alignment_ = 32;
  std::vector<uint64_t> offsets_;
};

Result<std::unique_ptr<GgufFile>> GgufFile::parse(std::span<const uint8_t> bytes,
                                                  std::string name) {
  auto file = std::make_unique<GgufFile>();
  file->bytes_ = bytes;
  file->name_ = std::move(name);
  PACELINE_RETURN_IF_ERROR(GgufParser(*file).parse());
  return file;
}

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(path));
  PACELINE_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> file, parse(mapped.bytes(), path));
  file->file_ = std::move(mapped);
  return file;
}

}  // namespace paceline
