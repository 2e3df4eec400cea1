// Any bytes: a message, or a file whose every part can be read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "model/gguf.h"
#include "model/gguf_tokenizer.h"
#include "model/model_config.h"

using paceline::GgufFile;
using paceline::GgufTensor;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parsed = GgufFile::parse({data, size}, "fuzz");
  if (!parsed.ok()) {
    if (parsed.status().message().empty()) {
      std::abort();
    }
    return 0;
  }
  const GgufFile& file = **parsed;
  for (const std::string& key : file.keys()) {
    (void)file.describe(key);
    (void)file.get_uint(key).ok();
    (void)file.get_float(key).ok();
    (void)file.get_bool(key).ok();
    (void)file.get_string(key).ok();
    (void)file.get_string_array(key).ok();
    (void)file.get_int_array(key).ok();
  }
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.format.has_value()) {
      std::vector<float> out(static_cast<size_t>(paceline::weight_block_elements(*tensor.format)));
      dequantize_row(*tensor.format, tensor.data, static_cast<int64_t>(out.size()), out.data());
    }
  }
  (void)read_model_config(file).ok();
  (void)paceline::load_tokenizer(file).ok();
  return 0;
}
