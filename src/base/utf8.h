// UTF-8 that may be broken, and bytes made fit for a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace paceline {

enum class Utf8Kind {
  kValid,
  kInvalid,     // the first `length` bytes can never be part of a character
  kIncomplete,  // all that is left, `length` bytes, may be the start of a character
};

struct Utf8Step {
  Utf8Kind kind = Utf8Kind::kValid;
  size_t length = 0;
  uint32_t code_point = 0;  // only of kValid
};

// What `text`, which is not empty, begins with. An ill-formed part is maximal in Unicode's sense:
// the longest start of some character, or one byte.
Utf8Step utf8_step(std::string_view text);

// Appends `text` to `out` with U+FFFD for each ill-formed part, but for an incomplete character at
// the end; returns how many bytes that one has.
size_t append_repaired_utf8(std::string_view text, std::string& out);

// All of `text` with U+FFFD for each ill-formed part, an incomplete end included. This is what
// Python's bytes.decode(errors="replace") gives.
std::string repair_utf8(std::string_view text);

bool is_valid_utf8(std::string_view text);

// For messages: control characters and bytes that are not UTF-8 as \xNN; cut after max_length
// bytes, with a note of the whole length.
std::string printable(std::string_view text, size_t max_length = 80);

}  // namespace paceline
