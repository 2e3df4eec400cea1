#include "model/tokenizer.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>

#include "base/utf8.h"
#include "model/byte_level.h"
#include "model/stream_decoder.h"

namespace paceline {
namespace {

using Ids = std::vector<int32_t>;

// Tokens 0..255 are the bytes; then the results of the merges; then `extra` with their types.
TokenizerSpec small_spec(const std::vector<std::string>& merges = {},
                         const std::vector<std::pair<std::string, int32_t>>& extra = {}) {
  TokenizerSpec spec;
  spec.pre_tokenizer = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.push_back(byte_level_char(static_cast<uint8_t>(byte)));
  }
  spec.merges = merges;
  for (std::string merge : merges) {
    merge.erase(merge.find(' '), 1);
    spec.tokens.push_back(merge);
  }
  spec.token_types.assign(spec.tokens.size(), 1);
  for (const auto& [token, type] : extra) {
    spec.tokens.push_back(token);
    spec.token_types.push_back(type);
  }
  return spec;
}

std::unique_ptr<Tokenizer> make(TokenizerSpec spec) {
  auto tokenizer = Tokenizer::create(std::move(spec));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  return std::move(tokenizer).value();
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status().to_string();
  return ids.ok() ? *ids : Ids{};
}

// The tokens' text with '|' between.
std::string pieces(const Tokenizer& tokenizer, std::string_view text) {
  std::string out;
  for (const int32_t id : encode(tokenizer, text)) {
    out += out.empty() ? "" : "|";
    out += tokenizer.token_bytes(id);
  }
  return out;
}

TEST(Tokenizer, UnknownPreTokenizersListTheKnown) {
  TokenizerSpec spec = small_spec();
  spec.pre_tokenizer = "tekken";
  const auto tokenizer = Tokenizer::create(spec);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(tokenizer.status().message().find("smollm, llama-bpe"), std::string::npos);
}

TEST(Tokenizer, MergesByRankThenFromTheLeft) {
  // "b c" ranks first, although "a b" is further left; then "a bc" is possible.
  EXPECT_EQ(pieces(*make(small_spec({"b c", "a b", "a bc"})), "abcab"), "abc|ab");
  EXPECT_EQ(pieces(*make(small_spec({"a b", "b c", "a bc"})), "abc"), "ab|c");
  EXPECT_EQ(pieces(*make(small_spec({"a a"})), "aaaaa"), "aa|aa|a");
  EXPECT_EQ(pieces(*make(small_spec({"a a", "aa a"})), "aaaaa"), "aa|aaa");
}

TEST(Tokenizer, MergesDoNotCrossWords) {
  const auto tokenizer = make(small_spec({"\u0120 b", "a \u0120"}));
  EXPECT_EQ(pieces(*tokenizer, "a b"), "a| b");
}

TEST(Tokenizer, MissingBytesAreDroppedBeforeMerging) {
  TokenizerSpec spec = small_spec({"( )"});
  spec.tokens[4] = "unused";  // byte 4 has no token any more
  const auto tokenizer = make(spec);
  EXPECT_EQ(encode(*tokenizer, "(\x04)"), Ids{256});
  EXPECT_EQ(encode(*tokenizer, "\x04"), Ids{});
}

TEST(Tokenizer, WholeWordsFirstOnlyForLlama3) {
  TokenizerSpec spec = small_spec({"a b"}, {{"abc", 1}});
  EXPECT_EQ(pieces(*make(spec), "abc"), "ab|c");
  spec.pre_tokenizer = "llama-bpe";
  EXPECT_EQ(pieces(*make(spec), "abc"), "abc");
}

TEST(Tokenizer, SpecialTokens) {
  TokenizerSpec spec =
      small_spec({}, {{"<|im_end|>", 3}, {"<|im_end|>!", 3}, {"<tool>", 4}, {"\u4e2d", 4}});
  spec.bos_id = 256;
  spec.eos_id = 257;
  spec.eot_id = 258;
  spec.add_bos = true;
  const auto tokenizer = make(spec);
  EXPECT_EQ(encode(*tokenizer, ""), Ids{256});
  EXPECT_EQ(encode(*tokenizer, "", {.add_special = false}), Ids{});
  EXPECT_EQ(encode(*tokenizer, "a<|im_end|>!<|im_end|><tool>\u4e2d<|im_", {.add_special = false}),
            (Ids{'a', 257, 256, 258, 259, '<', '|', 'i', 'm', '_'}));
  const Ids plain = encode(*tokenizer, "<|im_end|><tool>", {false, false});
  EXPECT_EQ(plain.size(), 11U);
  EXPECT_EQ(plain.back(), 258);

  EXPECT_EQ(tokenizer->decode(Ids{'a', 256, 258, 259}), "a<|im_end|><tool>\u4e2d");
  EXPECT_EQ(tokenizer->decode(Ids{'a', 256, 258, 259}, true), "a<tool>\u4e2d");
  EXPECT_TRUE(tokenizer->is_special(256));
  EXPECT_FALSE(tokenizer->is_special(258));
  EXPECT_FALSE(tokenizer->is_special(-1));
  EXPECT_TRUE(tokenizer->is_end_of_generation(256));  // by name
  EXPECT_TRUE(tokenizer->is_end_of_generation(257));
  EXPECT_TRUE(tokenizer->is_end_of_generation(258));
  EXPECT_FALSE(tokenizer->is_end_of_generation(259));
  EXPECT_FALSE(tokenizer->is_end_of_generation(260));
  EXPECT_EQ(tokenizer->bos_id(), 256);
  EXPECT_EQ(tokenizer->eos_id(), 257);
  EXPECT_EQ(tokenizer->vocab_size(), 260);
  EXPECT_EQ(tokenizer->pre_tokenizer_name(), "gpt-2");
}

TEST(Tokenizer, DecodeJoinsBytesAndIgnoresForeignIds) {
  const auto tokenizer = make(small_spec({}, {{"<0x41>", 6}, {"\u4e2d b", 1}}));
  EXPECT_EQ(tokenizer->decode(Ids{0xE4, -5, 0xB8, 9999, 0xAD}), "\u4e2d");
  EXPECT_EQ(tokenizer->decode(Ids{0xE4, 0xB8, 'x', 0xFF}), "\uFFFDx\uFFFD");
  EXPECT_EQ(tokenizer->decode(Ids{256, 257}), "A\u4e2d b");  // a byte; not of the byte alphabet
  EXPECT_EQ(tokenizer->token_bytes(0xE4), "\xE4");
  EXPECT_EQ(tokenizer->token_bytes(-1), "");
  EXPECT_EQ(tokenizer->token_bytes(258), "");
}

TEST(Tokenizer, InvalidInputIsRepaired) {
  const auto tokenizer = make(small_spec());
  for (const std::string text : {"\xE4\xB8", "a\xC0\x80z", "\xED\xA0\x80", "x \xFF y"}) {
    EXPECT_EQ(tokenizer->decode(encode(*tokenizer, text)), repair_utf8(text));
  }
  EXPECT_EQ(encode(*tokenizer, "\xFF"), (Ids{0xEF, 0xBF, 0xBD}));
}

TEST(Tokenizer, RefusesBadSpecs) {
  const auto refuses = [](const TokenizerSpec& spec, const char* part) {
    const auto tokenizer = Tokenizer::create(spec);
    ASSERT_FALSE(tokenizer.ok()) << part;
    EXPECT_EQ(tokenizer.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(tokenizer.status().message().find(part), std::string::npos)
        << tokenizer.status().message();
  };
  const auto changed = [](auto change) {
    TokenizerSpec spec = small_spec({"a b", "b c"}, {{"<x>", 3}});
    change(spec);
    return spec;
  };
  using Spec = TokenizerSpec;
  refuses(changed([](Spec& s) { s.tokens.clear(); }), "no tokens");
  refuses(changed([](Spec& s) { s.token_types.pop_back(); }), "258 token types for 259 tokens");
  refuses(changed([](Spec& s) { s.token_types[7] = 0; }), "token 7 has type 0");
  refuses(changed([](Spec& s) { s.token_types[7] = 7; }), "token 7 has type 7");
  refuses(changed([](Spec& s) { s.token_types[7] = 6; }), "token 7");
  refuses(changed([](Spec& s) { s.tokens[258] = "a"; }), "token 258 \"a\" is the same as token 97");
  refuses(changed([](Spec& s) { s.tokens[258] = ""; }), "token 258 is empty");
  refuses(changed([](Spec& s) { s.tokens[258] = "\xFF"; }), "token 258 is not valid UTF-8");
  for (const char* merge : {"ab", " ab", "ab ", "a b c", "a  b", " ", ""}) {
    refuses(changed([&](Spec& s) { s.merges[1] = merge; }), "merge 1");
  }
  refuses(changed([](Spec& s) { s.merges[1] = "a zz"; }), "\"zz\" is not a token");
  refuses(changed([](Spec& s) { s.merges[1] = "zz a"; }), "\"zz\" is not a token");
  refuses(changed([](Spec& s) { s.merges[1] = "c b"; }), "\"cb\" is not a token");
  refuses(changed([](Spec& s) { s.merges[1] = "a b"; }), "merge 1 \"a b\" was already listed");
  refuses(changed([](Spec& s) { s.bos_id = 259; }), "BOS id 259");
  refuses(changed([](Spec& s) { s.eos_id = -1; }), "EOS id -1");
  refuses(changed([](Spec& s) { s.eot_id = 1000; }), "EOT id 1000");
  refuses(changed([](Spec& s) { s.add_bos = true; }), "BOS");
  EXPECT_TRUE(Tokenizer::create(changed([](Spec& s) { s.token_types.clear(); })).ok());
}

TEST(Tokenizer, LongWordsAreNotQuadratic) {
  std::vector<std::string> merges;
  for (std::string run = "a"; run.size() <= 512; run += run) {
    merges.push_back(run + " " + run);
  }
  for (char c = 'b'; c <= 'z'; ++c) {
    merges.push_back(std::string("a ") + c);
    merges.push_back(std::string("e ") + c);
  }
  constexpr size_t kSize = 1'000'000;
  std::string random;
  for (uint32_t state = 1; random.size() < kSize;) {
    state = state * 1664525 + 1013904223;
    random.push_back(static_cast<char>('a' + (state >> 24) % 26));
  }
  for (const char* name : {"gpt-2", "smollm", "llama3", "qwen2"}) {
    TokenizerSpec spec = small_spec(merges);
    spec.pre_tokenizer = name;
    const auto tokenizer = make(spec);
    for (const std::string& text :
         {std::string(kSize, 'a'), random, std::string(kSize, ' '), std::string(kSize, '\n'),
          std::string(kSize, '7'), std::string(kSize, '!')}) {
      const auto start = std::chrono::steady_clock::now();
      const Ids ids = encode(*tokenizer, text);
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
      EXPECT_EQ(tokenizer->decode(ids), text);
    }
  }
}

TEST(Tokenizer, EncodesFromManyThreads) {
  const auto tokenizer = make(small_spec({"a b", "\u0120 ab"}));
  const std::string text = "ab ab 12  \u4e2d\n";
  const Ids expected = encode(*tokenizer, text);
  std::vector<std::thread> threads;
  std::array<int, 4> wrong{};
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        count += tokenizer->encode(text, {}).value() == expected ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, (std::array<int, 4>{}));
}

TEST(StreamDecoder, GivesWholeCharacters) {
  const auto tokenizer = make(small_spec({}, {{"<|end|>", 3}}));
  StreamDecoder decoder(*tokenizer);
  EXPECT_EQ(decoder.push('a'), "a");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.push(256), "");  // does not part the character
  EXPECT_EQ(decoder.push(0x98), "");
  EXPECT_EQ(decoder.push(0x80), "\U0001F600");
  EXPECT_EQ(decoder.flush(), "");
  EXPECT_EQ(decoder.push(0xE4), "");
  EXPECT_EQ(decoder.push('b'), "\uFFFDb");
  EXPECT_EQ(decoder.push(0xFF), "\uFFFD");
  EXPECT_EQ(decoder.push(0xC3), "");
  EXPECT_EQ(decoder.flush(), "\uFFFD");
  EXPECT_EQ(decoder.push(0xA9), "\uFFFD");  // afresh
}

TEST(StreamDecoder, ByteByByteEqualsDecode) {
  const auto tokenizer = make(small_spec());
  const std::string text = "\u00e9\u4e2d\U0001F600 \xE4\xB8 \xED\xA0\x80 \xF0\x9F\x98";
  for (size_t size = 0; size <= text.size(); ++size) {
    Ids ids;
    std::string streamed;
    StreamDecoder decoder(*tokenizer);
    for (const char c : text.substr(0, size)) {
      ids.push_back(static_cast<uint8_t>(c));
      const std::string piece = decoder.push(ids.back());
      EXPECT_TRUE(is_valid_utf8(piece));
      streamed += piece;
    }
    EXPECT_EQ(streamed + decoder.flush(), tokenizer->decode(ids));
  }
}

}  // namespace
}  // namespace paceline
