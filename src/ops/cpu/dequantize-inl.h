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
  VF at(size_t i) const { return hn::Set(DF(), values[i]); }

  static constexpr size_t kCount = kLanes < 2 ? 2 : kLanes;
  HWY_ALIGN float values[kCount];
};

HWY_INLINE float half_at(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return to_float(Half{bits});
}

// kLanes bytes as floats.
HWY_INLINE VF floats_of_bytes(const uint8_t* p) {
  const hn::Rebind<uint8_t, DF> d8;
  const hn::Rebind<int32_t, DF> d32;
  return hn::ConvertTo(DF(), hn::PromoteTo(d32, hn::LoadU(d8, p)));
}
HWY_INLINE VF floats_of_signed_bytes(const int8_t* p) {
  const hn::Rebind<int8_t, DF> d8;
  const hn::Rebind<int32_t, DF> d32;
  return hn::ConvertTo(DF(), hn::PromoteTo(d32, hn::LoadU(d8, p)));
}

// 16 bytes of nibbles to 32 bytes: the low ones, then the high ones. Written out: left to itself,
// gcc 12 makes a scalar mess of it that takes ten times as long.
HWY_INLINE void split_nibbles(const uint8_t* packed, uint8_t* bytes) {
#if HWY_TARGET == HWY_SCALAR
  for (int i = 0; i < 16; ++i) {
    bytes[i] = packed[i] & 0x0F;
    bytes[i + 16] = static_cast<uint8_t>(packed[i] >> 4);
  }
#else
  const hn::CappedTag<uint8_t, 16> d8;
  const hn::Repartition<uint16_t, decltype(d8)> d16;
  const auto v = hn::LoadU(d8, packed);
  const auto mask = hn::Set(d8, uint8_t{0x0F});
  hn::StoreU(hn::And(v, mask), d8, bytes);
  const auto high = hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, v)));
  hn::StoreU(hn::And(high, mask), d8, bytes + 16);
#endif
}

HWY_INLINE void dequantize_simd_q8_0(const uint8_t* block, float* dst) {
  const VF d = BlockScales(block).at(0);
  const auto* codes = reinterpret_cast<const int8_t*>(block + 2);
  for (size_t i = 0; i < 32; i += kLanes) {
    hn::StoreU(hn::Mul(d, floats_of_signed_bytes(codes + i)), DF(), dst + i);
  }
}

HWY_INLINE void dequantize_simd_q4_0(const uint8_t* block, float* dst) {
  HWY_ALIGN uint8_t bytes[32];
  split_nibbles(block + 2, bytes);
  const VF d = BlockScales(block).at(0);
  const VF eight = hn::Set(DF(), 8.0F);
  for (size_t i = 0; i < 32; i += kLanes) {
    hn::StoreU(hn::Mul(d, hn::Sub(floats_of_bytes(bytes + i), eight)), DF(), dst + i);
  }
}

HWY_INLINE void dequantize_simd_q4_1(const uint8_t* block, float* dst) {
  HWY_ALIGN uint8_t bytes[32];
  split_nibbles(block + 4, bytes);
  const BlockScales scales(block);
  const VF d = scales.at(0);
  const VF m = scales.at(1);
  for (size_t i = 0; i < 32; i += kLanes) {
    hn::StoreU(hn::Add(hn::Mul(d, floats_of_bytes(bytes + i)), m), DF(), dst + i);
  }
}

HWY_INLINE void dequantize_simd_q6_k(const uint8_t* block, float* dst) {
  HWY_ALIGN int8_t codes[256];
  for (int half = 0; half < 2; ++half) {
    const uint8_t* low = block + half * 64;
    const uint8_t* high = block + 128 + half * 32;
    int8_t* out = codes + half * 128;
    for (int l = 0; l < 32; ++l) {  // the compiler vectorises it
      out[l] = static_cast<int8_t>(((low[l] & 15) | ((high[l] & 3) << 4)) - 32);
      out[l + 32] = static_cast<int8_t>(((low[l + 32] & 15) | (((high[l] >> 2) & 3) << 4)) - 32);
      out[l + 64] = static_cast<int8_t>(((low[l] >> 4) | (((high[l] >> 4) & 3) << 4)) - 32);
      out[l + 96] = static_cast<int8_t>(((low[l + 32] >> 4) | ((high[l] >> 6) << 4)) - 32);
    }
  }
  const float d = half_at(block + 208);
  for (size_t i = 0; i < 256; i += kLanes) {
    const float scale = d * static_cast<float>(static_cast<int8_t>(block[192 + i / 16]));
    hn::StoreU(hn::Mul(hn::Set(DF(), scale), floats_of_signed_bytes(codes + i)), DF(), dst + i);
  }
}

template <typename Decode>
HWY_INLINE void for_each_block(WeightFormat format, const uint8_t* src, int64_t n, float* dst,
                               const Decode& decode) {
  const int64_t elements = weight_block_elements(format);
  const size_t bytes = weight_block_bytes(format);
  for (int64_t i = 0; i < n; i += elements, src += bytes) {
    decode(src, dst + i);
  }
}

HWY_INLINE void dequantize_simd(WeightFormat format, const uint8_t* src, int64_t n, float* dst) {
  switch (format) {
    case WeightFormat::kF32:
      return to_float_row(DType::kFloat32, src, n, 1.0F, dst);
    case WeightFormat::kF16:
      return to_float_row(DType::kFloat16, src, n, 1.0F, dst);
    case WeightFormat::kBF16:
      return to_float_row(DType::kBFloat16, src, n, 1.0F, dst);
    case WeightFormat::kQ8_0:
      return for_each_block(format, src, n, dst, dequantize_simd_q8_0);
    case WeightFormat::kQ4_0:
      return for_each_block(format, src, n, dst, dequantize_simd_q4_0);
    case WeightFormat::kQ4_1:
      return for_each_block(format, src, n, dst, dequantize_simd_q4_1);
    case WeightFormat::kQ6_K:
      return for_each_block(format, src, n, dst, dequantize_simd_q6_k);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
