#include <gtest/gtest.h>

#include <set>

#include "kv/block_allocator.h"
#include "kv/layout.h"

namespace paceline {
namespace {

KVCacheShape shape_of(KVCacheLayout layout, DType dtype, int heads, int d, int bs, int64_t nb = 4) {
  return {layout, dtype, nb, bs, heads, d};
}

CacheParams params_of(const KVCacheShape& shape) {
  static char memory;  // only offsets are computed
  return make_cache_params(make_kv_cache_view(shape, &memory, &memory).value(), shape,
                           KVScaleKind::kPerTensor)
      .value();
}

// aiter_fa_spec.md section 6, golden vectors.
TEST(Layout, GoldenShuffleOffsets) {
  const CacheParams x8 = params_of(shape_of(KVCacheLayout::kShuffle, DType::kBFloat16, 2, 64, 16));
  EXPECT_EQ(key_offset(x8, {1, 1, 5, 9}), 3241);
  EXPECT_EQ(value_offset(x8, {1, 1, 5, 9}), 3149);
  const CacheParams x16 =
      params_of(shape_of(KVCacheLayout::kShuffle, DType::kFloat8E4M3, 2, 128, 16));
  EXPECT_EQ(key_offset(x16, {2, 1, 13, 37}), 10965);
  EXPECT_EQ(value_offset(x16, {2, 1, 13, 37}), 10845);
}

TEST(Layout, EveryLayoutIsABijectionOnTheCache) {
  for (const KVCacheLayout layout : {KVCacheLayout::kNHD, KVCacheLayout::kShuffle}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kFloat8E4M3}) {
      const KVCacheShape shape = shape_of(layout, dtype, 3, 48, 32, 2);
      const CacheParams params = params_of(shape);
      std::set<int64_t> keys;
      std::set<int64_t> values;
      for (int64_t b = 0; b < 2; ++b) {
        for (int32_t h = 0; h < 3; ++h) {
          for (int32_t t = 0; t < 32; ++t) {
            for (int32_t d = 0; d < 48; ++d) {
              keys.insert(key_offset(params, {b, h, t, d}));
              values.insert(value_offset(params, {b, h, t, d}));
            }
          }
        }
      }
      const int64_t count = 2 * 3 * 32 * 48;
      EXPECT_EQ(static_cast<int64_t>(keys.size()), count);
      EXPECT_EQ(static_cast<int64_t>(values.size()), count);
      EXPECT_EQ(*keys.begin(), 0);
      EXPECT_EQ(*keys.rbegin(), count - 1);
      EXPECT_EQ(*values.rbegin(), count - 1);
    }
  }
}

TEST(Layout, OffsetsAre64Bit) {
  const CacheParams params =
      params_of(shape_of(KVCacheLayout::kNHD, DType::kBFloat16, 8, 128, 16, 400000));
  EXPECT_EQ(key_offset(params, {399999, 7, 15, 127}), int64_t{400000} * 16 * 8 * 128 - 1);
}

TEST(Layout, RefusesWithEveryReason) {
  const Status status =
      validate_kv_cache_shape(shape_of(KVCacheLayout::kShuffle, DType::kFloat8E4M3, 0, 24, 8));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  for (const char* word : {"num_kv_heads is 0", "head_size to be a multiple of 16; it is 24",
                           "block_size to be a multiple of 16; it is 8"}) {
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  }
  EXPECT_FALSE(validate_kv_cache_shape(shape_of(KVCacheLayout::kNHD, DType::kInt32, 1, 8, 8)).ok());
  KVCacheShape huge{KVCacheLayout::kNHD, DType::kFloat32, INT64_MAX, 16, 1, 64};
  EXPECT_NE(validate_kv_cache_shape(huge).message().find("beyond 2^62 bytes"), std::string::npos);
  huge.num_blocks = (int64_t{1} << 62) / (4 * 16 * 64);  // exactly 2^62
  EXPECT_TRUE(validate_kv_cache_shape(huge).ok());
  EXPECT_EQ(huge.key_bytes(), int64_t{1} << 62);
  ++huge.num_blocks;
  EXPECT_FALSE(validate_kv_cache_shape(huge).ok());
}

TEST(Layout, ViewsAreChecked) {
  const KVCacheShape shape = shape_of(KVCacheLayout::kNHD, DType::kFloat32, 2, 16, 4);
  char memory = 0;
  KVCacheView view = make_kv_cache_view(shape, &memory, &memory).value();
  EXPECT_TRUE(make_cache_params(view, shape, KVScaleKind::kPerTensor).ok());
  KVCacheView wrong = view;
  wrong.key.shape[2] = 3;
  EXPECT_FALSE(make_cache_params(wrong, shape, KVScaleKind::kPerTensor).ok());
  wrong = view;
  wrong.value.strides[3] = 2;
  EXPECT_FALSE(make_cache_params(wrong, shape, KVScaleKind::kPerTensor).ok());
  wrong = view;
  wrong.key.data = nullptr;
  EXPECT_FALSE(make_cache_params(wrong, shape, KVScaleKind::kPerTensor).ok());
  wrong = view;
  wrong.layout = KVCacheLayout::kShuffle;
  EXPECT_FALSE(make_cache_params(wrong, shape, KVScaleKind::kPerTensor).ok());
  view.key.strides[0] *= 2;  // blocks-first caches interleave K and V
  EXPECT_EQ(make_cache_params(view, shape, KVScaleKind::kPerTensor).value().key_strides.block,
            2 * 4 * 2 * 16);
}

TEST(BlockAllocator, GivesEachBlockOnce) {
  BlockAllocator allocator(10);
  std::vector<int32_t> a;
  std::vector<int32_t> b;
  ASSERT_TRUE(allocator.allocate(4, a).ok());
  ASSERT_TRUE(allocator.allocate(6, b).ok());
  std::set<int32_t> all(a.begin(), a.end());
  all.insert(b.begin(), b.end());
  EXPECT_EQ(all.size(), 10U);
  std::vector<int32_t> c;
  EXPECT_EQ(allocator.allocate(1, c).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(c.empty());
  ASSERT_TRUE(allocator.free(a).ok());
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(allocator.num_free(), 4);
}

TEST(BlockAllocator, RefusesDoubleFrees) {
  BlockAllocator allocator(4);
  std::vector<int32_t> blocks;
  ASSERT_TRUE(allocator.allocate(2, blocks).ok());
  std::vector<int32_t> twice{blocks[0], blocks[0]};
  EXPECT_EQ(allocator.free(twice).code(), StatusCode::kInvalidArgument);
  std::vector<int32_t> foreign{7};
  EXPECT_FALSE(allocator.free(foreign).ok());
  EXPECT_EQ(allocator.num_free(), 2);
  EXPECT_TRUE(allocator.free(blocks).ok());
  EXPECT_EQ(allocator.num_free(), 4);
}

}  // namespace
}  // namespace paceline
