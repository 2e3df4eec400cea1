// The tokenizer that a GGUF file carries.
#pragma once

#include <memory>

#include "model/gguf.h"
#include "model/tokenizer.h"

namespace paceline {

// tokenizer.ggml.*; kUnsupported for any other than byte-level BPE ("gpt2"). Messages name the
// file.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const GgufFile& gguf);

}  // namespace paceline
