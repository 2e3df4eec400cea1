// The byte alphabet of byte-level BPE vocabularies.
#pragma once

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

}  // namespace paceline
