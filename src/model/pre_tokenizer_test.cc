#include "model/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "model/byte_level.h"

namespace paceline {
namespace {

// The words of a pre-tokenizer with '|' between.
std::string words(const char* name, std::string_view text) {
  const auto pre_tokenizer = PreTokenizer::create(name).value();
  auto splitter = pre_tokenizer->make_splitter();
  std::vector<std::string_view> parts;
  EXPECT_TRUE(splitter->split(text, parts).ok());
  std::string out;
  for (const std::string_view part : parts) {
    out += out.empty() ? "" : "|";
    out += part;
  }
  return out;
}

TEST(ByteLevel, AlphabetIsABijection) {
  EXPECT_EQ(byte_level_char('a'), "a");
  EXPECT_EQ(byte_level_char(' '), "\u0120");
  EXPECT_EQ(byte_level_char('\n'), "\u010A");
  EXPECT_EQ(byte_level_char(0xAD), "\u0143");
  EXPECT_EQ(byte_level_char(0xFF), "\u00FF");
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(byte_level_decode(byte_level_char(static_cast<uint8_t>(byte))),
              std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(byte_level_decode("a b"), std::nullopt);
  EXPECT_EQ(byte_level_decode("\u0144"), std::nullopt);
}

TEST(Utf8, RepairsAsPythonDoes) {
  const std::string r = "\uFFFD";
  EXPECT_EQ(repair_utf8("ok \u00e9 \u4e2d \U0001F600"), "ok \u00e9 \u4e2d \U0001F600");
  EXPECT_EQ(repair_utf8("\x80"), r);
  EXPECT_EQ(repair_utf8("a\xC0\x80z"), "a" + r + r + "z");    // overlong
  EXPECT_EQ(repair_utf8("\xE0\x80\x80"), r + r + r);          // overlong
  EXPECT_EQ(repair_utf8("\xED\xA0\x80"), r + r + r);          // surrogate
  EXPECT_EQ(repair_utf8("\xF4\x90\x80\x80"), r + r + r + r);  // above U+10FFFF
  EXPECT_EQ(repair_utf8("\xF5"), r);                          // starts nothing
  EXPECT_EQ(repair_utf8("\xE4\xB8"
                        "A"),
            r + "A");                                                // one maximal part
  EXPECT_EQ(repair_utf8("\xF0\x9F\x98\xE4\xB8\xAD"), r + "\u4e2d");  // cut by another
  EXPECT_EQ(repair_utf8("\xF0\x9F\x98"), r);                         // cut by the end
  EXPECT_EQ(repair_utf8("\xE4\xF0\x9F"), r + r);
}

TEST(PreTokenizer, Gpt2) {
  EXPECT_EQ(words("gpt-2", "I'll say  hi 123!?\n\n x"), "I|'ll| say| | hi| 123|!?|\n\n| x");
  EXPECT_EQ(words("default", "a   "), "a|   ");
  EXPECT_EQ(words("gpt-2", "A'LL"), "A|'|LL");
}

TEST(PreTokenizer, SmollmSplitsNumbersFirst) {
  EXPECT_EQ(words("smollm", "a 12b"), "a| |1|2|b");
  // Each piece has an end of its own: all three spaces stay together before a digit ...
  EXPECT_EQ(words("smollm", "a   1"), "a|   |1");
  EXPECT_EQ(words("smollm", "a   b"), "a|  | b");
  // ... and any \p{N} is one, not only 0-9.
  EXPECT_EQ(words("smollm", "x\u00b2\u2163"), "x|\u00b2|\u2163");
}

TEST(PreTokenizer, Llama3AndQwen2) {
  for (const char* name : {"llama-bpe", "llama3", "llama-v3"}) {
    EXPECT_EQ(words(name, "I'LL 12345 (x)!\n\n y"), "I|'LL| |123|45| (|x|)!\n\n| y");
  }
  EXPECT_EQ(words("qwen2", "I'LL 123 (x) \n y"), "I|'LL| |1|2|3| (|x|)| \n| y");
}

TEST(PreTokenizer, MongolianVowelSeparatorIsNoSpace) {
  EXPECT_EQ(words("gpt-2", "!\u180E\u3000a"), "!\u180E|\u3000|a");
}

}  // namespace
}  // namespace paceline
