// Bytes and text: the byte alphabet of byte-level BPE vocabularies, and UTF-8 that may be broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

// Byte-level vocabularies spell each byte as one printable character: the printable ones of
// Latin-1 as themselves, the other bytes, in order, as U+0100, U+0101, ...
// The character's UTF-8 for a byte:
const std::string& byte_level_char(uint8_t byte);

// The bytes that a token spells; nullopt where a character of it is not of the byte alphabet.
std::optional<std::string> byte_level_decode(std::string_view token);

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

}  // namespace paceline
