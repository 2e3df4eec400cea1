#include "base/utf8.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct LeadByte {
  size_t length = 0;  // of the character; 0: no character starts so
  // Of the second byte. Narrower than 80..BF where the rest would be overlong, a surrogate or
  // beyond U+10FFFF, so that the byte at which a sequence goes wrong is always the right one.
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

LeadByte lead_byte(uint8_t byte) {
  if (byte < 0x80) {
    return {1};
  }
  if (byte >= 0xC2 && byte <= 0xDF) {
    return {2};
  }
  if (byte >= 0xE0 && byte <= 0xEF) {
    return {3, static_cast<uint8_t>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<uint8_t>(byte == 0xED ? 0x9F : 0xBF)};
  }
  if (byte >= 0xF0 && byte <= 0xF4) {
    return {4, static_cast<uint8_t>(byte == 0xF0 ? 0x90 : 0x80),
            static_cast<uint8_t>(byte == 0xF4 ? 0x8F : 0xBF)};
  }
  return {};
}

// C0 and C1 controls and DEL, which terminals obey.
bool is_control(uint32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  const LeadByte lead = lead_byte(first);
  if (lead.length == 0) {
    return {Utf8Kind::kInvalid, 1};
  }
  if (lead.length == 1) {
    return {Utf8Kind::kValid, 1, first};
  }
  uint32_t code_point = first & (0x7FU >> lead.length);
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) {
      return {Utf8Kind::kIncomplete, i};
    }
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) {
      return {Utf8Kind::kInvalid, i};
    }
    code_point = (code_point << 6) | (byte & 0x3FU);
  }
  return {Utf8Kind::kValid, lead.length, code_point};
}

size_t append_repaired_utf8(std::string_view text, std::string& out) {
  out.reserve(out.size() + text.size());
  size_t position = 0;
  size_t copied = 0;  // valid text is copied in runs, not by the character
  while (position < text.size()) {
    const Utf8Step step = utf8_step(text.substr(position));
    if (step.kind != Utf8Kind::kValid) {
      out.append(text, copied, position - copied);
      if (step.kind == Utf8Kind::kIncomplete) {
        return step.length;
      }
      out.append(kReplacement);
      copied = position + step.length;
    }
    position += step.length;
  }
  out.append(text, copied);
  return 0;
}

std::string repair_utf8(std::string_view text) {
  std::string out;
  if (append_repaired_utf8(text, out) > 0) {
    out.append(kReplacement);
  }
  return out;
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.kind != Utf8Kind::kValid) {
      return false;
    }
    text.remove_prefix(step.length);
  }
  return true;
}

std::string printable(std::string_view text, size_t max_length) {
  std::string result;
  size_t at = 0;
  while (at < std::min(text.size(), max_length)) {
    const Utf8Step step = utf8_step(text.substr(at));
    const std::string_view bytes = text.substr(at, step.length);
    if (step.kind == Utf8Kind::kValid && !is_control(step.code_point)) {
      result += bytes;
    } else {
      for (const char c : bytes) {
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      }
    }
    at += step.length;
  }
  if (at < text.size()) {
    result += fmt::format("... ({} bytes)", text.size());
  }
  return result;
}

}  // namespace paceline
