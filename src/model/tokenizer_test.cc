#include "model/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "model/byte_level.h"
#include "support/test_model.h"

namespace paceline {
namespace {

using Ids = std::vector<int32_t>;

// All 256 bytes as tokens 0..255, then the given ones.
TokenizerSpec byte_spec(const std::vector<std::string>& more, const std::vector<std::string>& merges) {
  TokenizerSpec spec;
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.push_back(to_byte_level(std::string(1, static_cast<char>(byte))));
    spec.token_types.push_back(1);
  }
  for (const std::string& token : more) {
    spec.tokens.push_back(token);
    spec.token_types.push_back(token.starts_with("<|") ? 3 : (token.starts_with("[[") ? 4 : 1));
  }
  spec.merges = merges;
  spec.pre_tokenizer = "gpt-2";
  return spec;
}

TEST(ByteLevel, IsABijection) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
  }
  EXPECT_EQ(from_byte_level(to_byte_level(all)), all);
  EXPECT_EQ(to_byte_level(" a"), "\xC4\xA0" "a");  // the well-known Ġ
}

TEST(Utf8, RepairsLikePython) {
  EXPECT_EQ(repair_utf8("a\xC3\xA9\xF0\x9F\x98\x80"), "a\xC3\xA9\xF0\x9F\x98\x80");
  const std::string fffd = "\xEF\xBF\xBD";
  EXPECT_EQ(repair_utf8("\xC3("), fffd + "(");
  EXPECT_EQ(repair_utf8("\xF0\x9F\x98"), fffd);             // one maximal subpart
  EXPECT_EQ(repair_utf8("\xED\xA0\x80"), fffd + fffd + fffd);  // a surrogate
  EXPECT_EQ(repair_utf8("\xC0\xAF"), fffd + fffd);             // overlong
  EXPECT_EQ(repair_utf8("\xF5x"), fffd + "x");
}

TEST(Tokenizer, MergesInOrderOfRankLeftmostFirst) {
  const auto t = Tokenizer::create(byte_spec({"ab", "bc", "aa", "abc"}, {"b c", "a b", "a a", "ab c"}));
  ASSERT_TRUE(t.ok()) << t.status().to_string();
  EXPECT_EQ((*t)->encode("abc").value(), (Ids{'a', 257}));
  EXPECT_EQ((*t)->encode("aaa").value(), (Ids{258, 'a'}));
  EXPECT_EQ((*t)->encode("aab").value(), (Ids{'a', 256}));
}

TEST(Tokenizer, ControlTokensInText) {
  const auto t = Tokenizer::create(byte_spec({"<|x|>", "<|x|>y", "[[u]]"}, {})).value();
  EXPECT_EQ(t->encode("a<|x|>").value(), (Ids{'a', 256}));
  EXPECT_EQ(t->encode("<|x|>y<|x|>").value(), (Ids{257, 256}));  // the longest wins
  EXPECT_EQ(t->encode("[[u]]", {.parse_special = false}).value(), (Ids{258}));
  EXPECT_EQ(t->encode("<|x|>", {.parse_special = false}).value().size(), 5U);
  EXPECT_TRUE(t->is_special(256));
  EXPECT_FALSE(t->is_special(258));
  EXPECT_EQ(t->decode(Ids{'a', 256, 'b'}), "a<|x|>b");
  EXPECT_EQ(t->decode(Ids{'a', 256, 'b'}, true), "ab");
}

TEST(Tokenizer, BosAndEnds) {
  TokenizerSpec spec = byte_spec({"<|s|>", "<|im_end|>", "<|e|>"}, {});
  spec.bos_id = 256;
  spec.eos_id = 258;
  spec.add_bos = true;
  const auto t = Tokenizer::create(spec).value();
  EXPECT_EQ(t->encode("a").value(), (Ids{256, 'a'}));
  EXPECT_EQ(t->encode("a", {.add_special = false}).value(), (Ids{'a'}));
  EXPECT_EQ(t->end_tokens(), (Ids{257, 258}));
}

TEST(Tokenizer, BytesWithoutATokenAreDroppedBeforeMerging) {
  TokenizerSpec spec = byte_spec({"()"}, {"( )"});
  spec.tokens[4] = "unused";
  const auto t = Tokenizer::create(spec).value();
  EXPECT_EQ(t->encode("(\x04)").value(), (Ids{256}));
  EXPECT_EQ(t->encode("\x04").value(), Ids{});
}

TEST(Tokenizer, EachDigitAloneInSmollm) {
  TokenizerSpec spec = byte_spec({"12", "\xC4\xA0\xC4\xA0"}, {"1 2", "\xC4\xA0 \xC4\xA0"});
  EXPECT_EQ(Tokenizer::create(spec).value()->encode("12").value(), (Ids{256}));
  EXPECT_EQ(Tokenizer::create(spec).value()->encode("  42").value(), (Ids{' ', ' ', '4', '2'}));
  spec.pre_tokenizer = "smollm";
  const auto t = Tokenizer::create(spec).value();
  EXPECT_EQ(t->encode("12").value(), (Ids{'1', '2'}));
  EXPECT_EQ(t->encode("  42").value(), (Ids{257, '4', '2'}));
}

TEST(Tokenizer, ContradictionsAreNamed) {
  const auto message = [](const TokenizerSpec& spec) {
    const auto t = Tokenizer::create(spec);
    return t.ok() ? std::string() : t.status().message();
  };
  EXPECT_NE(message(byte_spec({"a"}, {})).find("token 256 'a'"), std::string::npos);
  EXPECT_NE(message(byte_spec({}, {"a b"})).find("merge 0 'a b' needs the token 'ab'"),
            std::string::npos);
  EXPECT_NE(message(byte_spec({}, {"ab"})).find("not two tokens"), std::string::npos);
  TokenizerSpec spec = byte_spec({}, {});
  spec.token_types.pop_back();
  EXPECT_NE(message(spec).find("255 token types"), std::string::npos);
  spec = byte_spec({}, {});
  spec.eos_id = 256;
  EXPECT_NE(message(spec).find("EOS token is 256"), std::string::npos);
  spec = byte_spec({}, {});
  spec.add_bos = true;
  EXPECT_NE(message(spec).find("BOS"), std::string::npos);
  spec.pre_tokenizer = "klingon";
  EXPECT_NE(message(spec).find("possible are gpt-2"), std::string::npos);
  EXPECT_FALSE(message(TokenizerSpec{}).empty());
}

TEST(StreamDecoder, NeverCutsACharacter) {
  const auto t = Tokenizer::create(byte_spec({"<|x|>"}, {})).value();
  const std::string text = "h\xC3\xA9\xF0\x9F\x98\x80\xE2\x82\xAC!";
  StreamDecoder decoder(*t);
  std::string out;
  for (const char byte : text) {
    const std::string piece = decoder.push(static_cast<uint8_t>(byte));
    EXPECT_EQ(piece, repair_utf8(piece));
    out += piece;
    EXPECT_EQ(decoder.push(256), "");
  }
  EXPECT_EQ(out, text);
  EXPECT_EQ(decoder.push(0xE2), "");
  EXPECT_EQ(decoder.push('x'), "\xEF\xBF\xBDx");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.flush(), "");
}

TEST(Tokenizer, AMegabyteWithoutSpacesTakesSeconds) {
  const auto t = Tokenizer::create(byte_spec({"aa", "aaaa", "ab", "ba"}, {"a a", "aa aa", "a b", "b a"})).value();
  std::mt19937 rng(1);
  std::string random(1000000, ' ');
  for (char& c : random) {
    c = static_cast<char>('a' + rng() % 3);
  }
  for (const std::string& text : {std::string(1000000, 'a'), random, std::string(1000000, ' ')}) {
    const auto start = std::chrono::steady_clock::now();
    const Ids ids = t->encode(text).value();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
    EXPECT_EQ(t->decode(ids), text);
  }
}

// The vocabulary of the real model, against Hugging Face tokenizers (tests/golden/make_smollm2_expected.py).
TEST(Tokenizer, GoldenSmolLM2) {
  const std::string path = testing::smollm2_path();
  if (path.empty()) {
    GTEST_SKIP() << "the SmolLM2 model is not in the cache; scripts/get-model fetches it";
  }
  const auto gguf = GgufFile::open(path).value();
  const auto t = Tokenizer::from_gguf(*gguf).value();
  std::ifstream file(std::string(PACELINE_TEST_DATA_DIR) + "/smollm2/tokenizer_expected.json");
  const auto cases = nlohmann::json::parse(file);
  ASSERT_GT(cases.size(), 100U);
  for (const auto& c : cases) {
    const Ids ids = t->encode(c["text"].get<std::string>()).value();
    EXPECT_EQ(ids, c["ids"].get<Ids>()) << c["text"];
    EXPECT_EQ(t->decode(ids), c["decoded"].get<std::string>());
  }
}

}  // namespace
}  // namespace paceline
