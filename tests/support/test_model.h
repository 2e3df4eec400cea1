// The real model that tests use where it is there, and a tiny one made on the spot.
#pragma once

#include <string>

namespace paceline::testing {

// Path of SmolLM2-135M-Instruct (Q4_1): $PACELINE_TEST_MODEL, or what scripts/get-model leaves in
// the user's cache. Empty when it is not there; the test then skips and says so.
std::string smollm2_path();

struct TinyModel {
  int num_layers = 2;
  int hidden_size = 64;
  int intermediate_size = 96;
  int num_heads = 4;
  int num_kv_heads = 2;
  int vocab_size = 300;  // at least 259: three control tokens and all bytes
  int context_length = 512;
  bool tied = true;
  unsigned seed = 1;
};

// A Llama of random weights in GGUF, with a byte-level tokenizer without merges: tokens 0
// <|endoftext|>, 1 <s>, 2 </s>, then the 256 bytes, then fillers.
std::string make_tiny_gguf(const TinyModel& shape);

}  // namespace paceline::testing
