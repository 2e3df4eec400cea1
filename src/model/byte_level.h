// GPT-2's byte-level alphabet: every byte has a printable character that stands for it in vocabularies; and UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

// One decoded character: its code point, or nothing for an ill-formed sequence, and how many bytes it takes. Ill-formed
// bytes are cut as the Unicode standard recommends (maximal subparts), like Python's errors="replace".
struct Utf8Char {
  std::optional<uint32_t> code_point;
  size_t length;
  bool truncated;  // ill-formed only because the text ends here
};
Utf8Char decode_utf8(std::string_view text);
void append_utf8(uint32_t code_point, std::string& out);

// The text with every ill-formed sequence replaced by U+FFFD.
std::string repair_utf8(std::string_view text);

// The character that stands for a byte, and the byte that a character stands for.
uint32_t byte_to_code_point(uint8_t byte);
std::optional<uint8_t> code_point_to_byte(uint32_t code_point);

// Bytes to their stand-ins, and back: a token's bytes. Characters that stand for no byte are kept as they are.
std::string to_byte_level(std::string_view bytes);
std::string from_byte_level(std::string_view token);

}  // namespace paceline
