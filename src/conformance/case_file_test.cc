#include "conformance/case_file.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(CaseFile, BracesGiveEveryCombination) {
  const auto cases = parse_cases(
      "# a comment\n\nwindows heads=8/2 window={1,128} kv={float16,int8}  layout=SHUFFLE # more\n"
      "one rows=2*1@37+40@256 scale=0.5 causal=0\n",
      "f");
  ASSERT_TRUE(cases.ok()) << cases.status().to_string();
  ASSERT_EQ(cases->size(), 5U);
  EXPECT_EQ((*cases)[1].name, "windows window=1 kv=int8");
  EXPECT_EQ((*cases)[1].spec.sliding_window, 1);
  EXPECT_EQ((*cases)[1].spec.kv_cache_dtype, DType::kInt8);
  EXPECT_EQ((*cases)[3].spec.sliding_window, 128);
  EXPECT_EQ((*cases)[3].spec.num_heads, 8);
  EXPECT_EQ((*cases)[3].spec.kv_cache_layout, KVCacheLayout::kShuffle);
  ASSERT_EQ((*cases)[4].rows.size(), 3U);
  EXPECT_EQ((*cases)[4].rows[1].seq_len, 37);
  EXPECT_EQ((*cases)[4].rows[2].query_len, 40);
  EXPECT_EQ((*cases)[4].spec.scale, 0.5F);
  EXPECT_FALSE((*cases)[4].spec.causal);
}

TEST(CaseFile, ErrorsNameFileAndLine) {
  const auto message = [](const char* text) {
    const auto cases = parse_cases(text, "cases.txt");
    EXPECT_EQ(cases.status().code(), StatusCode::kInvalidArgument) << text;
    return cases.status().message();
  };
  EXPECT_NE(message("a\nb heads=8").find("cases.txt, line 2: heads: '8'"), std::string::npos);
  for (const char* text : {"a bogus=1",
                           "a heads",
                           "a heads=8/x",
                           "a head_size=",
                           "a head_size=1x",
                           "a kv=float3",
                           "a layout=HND",
                           "a causal=2",
                           "a rows=5",
                           "a rows=5@4",
                           "a rows=0@4",
                           "a rows=0*1@4",
                           "a rows=1*1*1@4",
                           "a window={1,x}",
                           "a window={",
                           "a seed=-1",
                           "a scale=1.0.0",
                           "a prefix=16",
                           "a prefix=8 rows=1@100",
                           "a heads=2000000000/1",
                           "a head_size=2000000000",
                           "a blocks=-1",
                           "a block=2000000000",
                           "a rows=60000*1@60000"}) {
    EXPECT_NE(message(text).find("cases.txt, line 1: "), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace paceline
