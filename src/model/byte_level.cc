#include "model/byte_level.h"

#include <array>

#include "base/utf8.h"

namespace paceline {
namespace {

// Latin-1 without controls, spaces and the soft hyphen.
constexpr bool is_spelled_as_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The alphabet ends at U+0143: 68 bytes are not spelled as themselves.
constexpr size_t kAlphabetEnd = 0x144;

struct ByteAlphabet {
  std::array<std::string, 256> chars;
  std::array<int16_t, kAlphabetEnd> bytes{};  // by code point; -1 for none

  ByteAlphabet() {
    bytes.fill(-1);
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t code_point = is_spelled_as_itself(byte) ? byte : next++;
      bytes[code_point] = static_cast<int16_t>(byte);
      if (code_point < 0x80) {
        chars[byte].push_back(static_cast<char>(code_point));
      } else {
        chars[byte].push_back(static_cast<char>(0xC0 | (code_point >> 6)));
        chars[byte].push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
      }
    }
  }
};

const ByteAlphabet& alphabet() {
  // Never destroyed, so that it outlives every static that may decode.
  static const auto* const instance = new ByteAlphabet();
  return *instance;
}

}  // namespace

const std::string& byte_level_char(uint8_t byte) { return alphabet().chars[byte]; }

std::optional<std::string> byte_level_decode(std::string_view token) {
  std::string out;
  while (!token.empty()) {
    const Utf8Step step = utf8_step(token);
    if (step.kind != Utf8Kind::kValid || step.code_point >= kAlphabetEnd ||
        alphabet().bytes[step.code_point] < 0) {
      return std::nullopt;
    }
    out.push_back(static_cast<char>(alphabet().bytes[step.code_point]));
    token.remove_prefix(step.length);
  }
  return out;
}

}  // namespace paceline
