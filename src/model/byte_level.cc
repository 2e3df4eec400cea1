#include "model/byte_level.h"

#include <array>

namespace paceline {
namespace {

constexpr uint32_t kReplacement = 0xFFFD;
constexpr uint32_t kFirstStandIn = 256;

constexpr bool stands_for_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

// Bytes without a printable form of their own take U+0100 and on, in order.
constexpr std::array<uint16_t, 256> make_stand_ins() {
  std::array<uint16_t, 256> map{};
  uint16_t next = kFirstStandIn;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    map[byte] = stands_for_itself(byte) ? static_cast<uint16_t>(byte) : next++;
  }
  return map;
}
constexpr std::array<uint16_t, 256> kStandIns = make_stand_ins();

uint8_t at(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

}  // namespace

Utf8Char decode_utf8(std::string_view text) {
  const uint8_t lead = at(text, 0);
  if (lead < 0x80) {
    return {lead, 1, false};
  }
  if (lead < 0xC2 || lead > 0xF4) {
    return {std::nullopt, 1, false};
  }
  const size_t length = lead < 0xE0 ? 2 : (lead < 0xF0 ? 3 : 4);
  // The second byte's range is narrower after some leads: no overlong forms, surrogates or beyond U+10FFFF.
  const uint8_t low = lead == 0xE0 ? 0xA0 : (lead == 0xF0 ? 0x90 : 0x80);
  const uint8_t high = lead == 0xED ? 0x9F : (lead == 0xF4 ? 0x8F : 0xBF);
  uint32_t code_point = lead & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if (i >= text.size()) {
      return {std::nullopt, i, true};
    }
    const uint8_t byte = at(text, i);
    if (byte < (i == 1 ? low : 0x80) || byte > (i == 1 ? high : 0xBF)) {
      return {std::nullopt, i, false};
    }
    code_point = (code_point << 6) | (byte & 0x3FU);
  }
  return {code_point, length, false};
}

void append_utf8(uint32_t code_point, std::string& out) {
  const auto put = [&out](uint32_t byte) { out += static_cast<char>(static_cast<uint8_t>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

std::string repair_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    if (c.code_point.has_value()) {
      out.append(text.substr(0, c.length));
    } else {
      append_utf8(kReplacement, out);
    }
    text.remove_prefix(c.length);
  }
  return out;
}

uint32_t byte_to_code_point(uint8_t byte) { return kStandIns[byte]; }

std::optional<uint8_t> code_point_to_byte(uint32_t code_point) {
  if (code_point < 256) {
    return stands_for_itself(code_point) ? std::optional(static_cast<uint8_t>(code_point))
                                         : std::nullopt;
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (kStandIns[byte] == code_point) {
      return static_cast<uint8_t>(byte);
    }
  }
  return std::nullopt;
}

std::string to_byte_level(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    append_utf8(byte_to_code_point(static_cast<uint8_t>(byte)), out);
  }
  return out;
}

std::string from_byte_level(std::string_view token) {
  std::string out;
  while (!token.empty()) {
    const Utf8Char c = decode_utf8(token);
    const std::optional<uint8_t> byte =
        c.code_point.has_value() ? code_point_to_byte(*c.code_point) : std::nullopt;
    if (byte.has_value()) {
      out += static_cast<char>(*byte);
    } else {
      out.append(token.substr(0, c.length));
    }
    token.remove_prefix(c.length);
  }
  return out;
}

}  // namespace paceline
