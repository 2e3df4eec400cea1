// SIMD decoders of the weight formats; the same bits as the scalar dequantize_row.
#if defined(PACELINE_DEQUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_DEQUANTIZE_INL_H_
#undef PACELINE_DEQUANTIZE_INL_H_
#else
#define PACELINE_DEQUANTIZE_INL_H_
#endif

#include "base/weight_format.h"
#include "device/cpu/simd/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {

// A block in registers, one struct a format: kElements weights in kBytes bytes; part(i) gives
// weights [8i, 8i + 8).

// Eight floats, of which widen(i) gives those from i on.
template <typename Widen>
HWY_INLINE Vec8 make8(const Widen& widen) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = widen(i * kLanes);
  }
  return r;
}

template <typename T>
HWY_INLINE auto load_as_int32(const T* p) {
  const hn::Rebind<T, DF> narrow;
  const hn::Rebind<int32_t, DF> wide;
  return hn::PromoteTo(wide, hn::LoadU(narrow, p));
}

// The float16 values at the head of a block, by the hardware's own conversion: a block of 32
// weights is decoded in some ten cycles, of which the scalar conversion would take as many again.
// Reads up to eight halves: every block that has such a head is longer.
struct BlockScales {
  explicit BlockScales(const uint8_t* block) {
    uint16_t halves[kCount];
    std::memcpy(halves, block, sizeof(halves));
    for (size_t i = 0; i < kCount; i += kLanes) {
      hn::Store(widen_f16(halves + i), DF(), values + i);
    }
  }
  Vec8 at(size_t i) const { return set8(values[i]); }

  static constexpr size_t kCount = kLanes < 2 ? 2 : kLanes;
  HWY_ALIGN float values[kCount];
};

struct BlockQ80 {
  static constexpr int kElements = 32;
  static constexpr size_t kBytes = 34;

  explicit BlockQ80(const uint8_t* block)
      : codes(reinterpret_cast<const int8_t*>(block + 2)), d(BlockScales(block).at(0)) {}
  Vec8 part(int i) const {
    return d * make8([&](size_t lane) {
             return hn::ConvertTo(DF(), load_as_int32(codes + 8 * static_cast<size_t>(i) + lane));
           });
  }

  const int8_t* codes;
  Vec8 d;
};

// Nibbles 0..15 of 16 bytes, then 16..31: the low ones, then the high ones.
HWY_INLINE Vec8 nibbles(const uint8_t* packed, int part) {
  const hn::Rebind<int32_t, DF> d32;
  return make8([&](size_t lane) {
    const auto bytes = load_as_int32(packed + 8 * static_cast<size_t>(part % 2) + lane);
    return hn::ConvertTo(DF(),
                         part < 2 ? hn::And(bytes, hn::Set(d32, 0x0F)) : hn::ShiftRight<4>(bytes));
  });
}

struct BlockQ40 {
  static constexpr int kElements = 32;
  static constexpr size_t kBytes = 18;

  explicit BlockQ40(const uint8_t* block) : packed(block + 2), d(BlockScales(block).at(0)) {}
  Vec8 part(int i) const { return d * (nibbles(packed, i) - set8(8.0F)); }

  const uint8_t* packed;
  Vec8 d;
};

struct BlockQ41 {
  static constexpr int kElements = 32;
  static constexpr size_t kBytes = 20;

  explicit BlockQ41(const uint8_t* block) : packed(block + 4) {
    const BlockScales scales(block);
    d = scales.at(0);
    m = scales.at(1);
  }
  // Two roundings, as in the scalar decoder.
  Vec8 part(int i) const { return d * nibbles(packed, i) + m; }

  const uint8_t* packed;
  Vec8 d;
  Vec8 m;
};

struct BlockQ6K {
  static constexpr int kElements = 256;
  static constexpr size_t kBytes = 210;

  explicit BlockQ6K(const uint8_t* block) : scales(reinterpret_cast<const int8_t*>(block + 192)) {
    uint16_t bits;
    std::memcpy(&bits, block + 208, sizeof(bits));
    d = to_float(Half{bits});
    for (int half = 0; half < 2; ++half) {
      const uint8_t* low = block + ptrdiff_t{64} * half;
      const uint8_t* high = block + 128 + ptrdiff_t{32} * half;
      int8_t* out = codes + ptrdiff_t{128} * half;
      for (int l = 0; l < 32; ++l) {  // the compiler vectorises it
        out[l] = static_cast<int8_t>(((low[l] & 15) | ((high[l] & 3) << 4)) - 32);
        out[l + 32] = static_cast<int8_t>(((low[l + 32] & 15) | (((high[l] >> 2) & 3) << 4)) - 32);
        out[l + 64] = static_cast<int8_t>(((low[l] >> 4) | (((high[l] >> 4) & 3) << 4)) - 32);
        out[l + 96] = static_cast<int8_t>(((low[l + 32] >> 4) | ((high[l] >> 6) << 4)) - 32);
      }
    }
  }
  Vec8 part(int i) const {
    const size_t group = static_cast<size_t>(i) / 2;  // a scale serves 16 weights
    return set8(d * static_cast<float>(scales[group])) * make8([&](size_t lane) {
             return hn::ConvertTo(DF(), load_as_int32(codes + 8 * static_cast<size_t>(i) + lane));
           });
  }

  const int8_t* scales;
  float d;
  HWY_ALIGN int8_t codes[256];
};

// Plain floats, eight at a time.
struct BlockF32 {
  static constexpr int kElements = 8;
  static constexpr size_t kBytes = 32;
  explicit BlockF32(const uint8_t* block) : p(reinterpret_cast<const float*>(block)) {}
  Vec8 part(int /*i*/) const { return load8(p); }
  const float* p;
};
struct BlockF16 {
  static constexpr int kElements = 8;
  static constexpr size_t kBytes = 16;
  explicit BlockF16(const uint8_t* block) : p(reinterpret_cast<const uint16_t*>(block)) {}
  Vec8 part(int /*i*/) const {
    return make8([&](size_t lane) { return widen_f16(p + lane); });
  }
  const uint16_t* p;
};
struct BlockBF16 {
  static constexpr int kElements = 8;
  static constexpr size_t kBytes = 16;
  explicit BlockBF16(const uint8_t* block) : p(reinterpret_cast<const uint16_t*>(block)) {}
  Vec8 part(int /*i*/) const {
    return make8([&](size_t lane) { return widen_bf16(p + lane); });
  }
  const uint16_t* p;
};

// Calls visit(tag) with the struct of the format as tag.type.
template <typename T>
struct BlockTag {
  using Block = T;
};
template <typename Visit>
HWY_INLINE void with_block(WeightFormat format, const Visit& visit) {
  switch (format) {
    case WeightFormat::kF32:
      return visit(BlockTag<BlockF32>());
    case WeightFormat::kF16:
      return visit(BlockTag<BlockF16>());
    case WeightFormat::kBF16:
      return visit(BlockTag<BlockBF16>());
    case WeightFormat::kQ8_0:
      return visit(BlockTag<BlockQ80>());
    case WeightFormat::kQ4_0:
      return visit(BlockTag<BlockQ40>());
    case WeightFormat::kQ4_1:
      return visit(BlockTag<BlockQ41>());
    case WeightFormat::kQ6_K:
      return visit(BlockTag<BlockQ6K>());
  }
}

// n weights, a multiple of the block and of 8.
HWY_INLINE void dequantize_simd(WeightFormat format, const uint8_t* src, int64_t n, float* dst) {
  with_block(format, [&](auto tag) {
    using Block = typename decltype(tag)::Block;
    for (int64_t i = 0; i < n; i += Block::kElements, src += Block::kBytes) {
      const Block block(src);
      for (int part = 0; part < Block::kElements / 8; ++part) {
        store8(block.part(part), dst + i + int64_t{8} * part);
      }
    }
  });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
