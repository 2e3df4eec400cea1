// The SIMD vocabulary of the CPU kernels: vectors of eight floats, whatever the machine's width, so
// that every sum has the same eight chains and the same final tree on every target. FMA is used
// where the target has it.
//
// Included once per Highway target (see foreach_target.h), hence no ordinary include guard.
#if defined(PACELINE_VEC8_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_VEC8_INL_H_
#undef PACELINE_VEC8_INL_H_
#else
#define PACELINE_VEC8_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 8>;
using VF = hn::Vec<DF>;
constexpr size_t kLanes = hn::MaxLanes(DF());
constexpr size_t kParts = 8 / kLanes;

struct Vec8 {
  VF part[kParts];
};

HWY_INLINE Vec8 zero8() {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = hn::Zero(DF());
  }
  return r;
}
HWY_INLINE Vec8 set8(float x) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = hn::Set(DF(), x);
  }
  return r;
}
HWY_INLINE Vec8 load8(const float* p) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = hn::LoadU(DF(), p + i * kLanes);
  }
  return r;
}
HWY_INLINE void store8(const Vec8& v, float* p) {
  for (size_t i = 0; i < kParts; ++i) {
    hn::StoreU(v.part[i], DF(), p + i * kLanes);
  }
}

// Holds v in registers from here on: compilers otherwise load it again for every use, and loads,
// not multiplications, then bound the loop (1.3 times as long on AVX2).
HWY_INLINE void keep(Vec8& v) {
#if (HWY_ARCH_X86 || HWY_ARCH_ARM_A64) && HWY_TARGET != HWY_SCALAR && \
    (HWY_COMPILER_GCC || HWY_COMPILER_CLANG)
  for (size_t i = 0; i < kParts; ++i) {
#if HWY_ARCH_X86
    asm("" : "+x"(v.part[i].raw));
#else
    asm("" : "+w"(v.part[i].raw));
#endif
  }
#else
  (void)v;
#endif
}

// a * b + c
HWY_INLINE Vec8 mul_add(const Vec8& a, const Vec8& b, const Vec8& c) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = hn::MulAdd(a.part[i], b.part[i], c.part[i]);
  }
  return r;
}
HWY_INLINE Vec8 operator+(const Vec8& a, const Vec8& b) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = hn::Add(a.part[i], b.part[i]);
  }
  return r;
}
HWY_INLINE Vec8 operator-(const Vec8& a, const Vec8& b) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = hn::Sub(a.part[i], b.part[i]);
  }
  return r;
}
HWY_INLINE Vec8 operator*(const Vec8& a, const Vec8& b) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = hn::Mul(a.part[i], b.part[i]);
  }
  return r;
}
HWY_INLINE Vec8 operator/(const Vec8& a, const Vec8& b) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = hn::Div(a.part[i], b.part[i]);
  }
  return r;
}
HWY_INLINE Vec8 max8(const Vec8& a, const Vec8& b) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = hn::Max(a.part[i], b.part[i]);
  }
  return r;
}
// NaN stays NaN (Highway's Exp makes 0 of it, and a fault in the input would pass unseen).
HWY_INLINE Vec8 exp8(const Vec8& a) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = hn::IfThenElse(hn::IsNaN(a.part[i]), a.part[i], hn::Exp(DF(), a.part[i]));
  }
  return r;
}
// NaN stays NaN.
HWY_INLINE Vec8 tanh8(const Vec8& a) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = hn::IfThenElse(hn::IsNaN(a.part[i]), a.part[i], hn::Tanh(DF(), a.part[i]));
  }
  return r;
}
HWY_INLINE Vec8 abs8(const Vec8& a) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = hn::Abs(a.part[i]);
  }
  return r;
}
// first, first + 1, ...: exact below 2^24.
HWY_INLINE Vec8 iota8(float first) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = hn::Add(hn::Iota(DF(), 0), hn::Set(DF(), first + static_cast<float>(i * kLanes)));
  }
  return r;
}
// v where begin <= at < end, else otherwise.
HWY_INLINE Vec8 select_between8(const Vec8& at, float begin, float end, const Vec8& v,
                                float otherwise) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    const auto inside =
        hn::And(hn::Ge(at.part[i], hn::Set(DF(), begin)), hn::Lt(at.part[i], hn::Set(DF(), end)));
    r.part[i] = hn::IfThenElse(inside, v.part[i], hn::Set(DF(), otherwise));
  }
  return r;
}

HWY_INLINE float exp1(float x) { return hn::GetLane(exp8(set8(x)).part[0]); }

// The tree that ends every sum: t_i = c_i + c_{i+4}, then (t0 + t1) + (t2 + t3).
HWY_INLINE float sum8(const Vec8& v) {
  HWY_ALIGN float c[8];
  store8(v, c);
  return ((c[0] + c[4]) + (c[1] + c[5])) + ((c[2] + c[6]) + (c[3] + c[7]));
}
HWY_INLINE float max_of8(const Vec8& v) {
  HWY_ALIGN float c[8];
  store8(v, c);
  float m = c[0];
  for (size_t i = 1; i < 8; ++i) {
    m = c[i] > m ? c[i] : m;
  }
  return m;
}

// sums[i] = sum8(v[i]) for four vectors at once, with the same tree.
HWY_INLINE void sum8x4(const Vec8* v, float* sums) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < 4; ++i) {
    sums[i] = sum8(v[i]);
  }
#else
  const hn::CappedTag<float, 4> d4;
  using V4 = hn::Vec<decltype(d4)>;
  const auto fours = [&](const Vec8& x) {
#if HWY_MAX_BYTES >= 32
    return hn::Add(hn::LowerHalf(d4, x.part[0]), hn::UpperHalf(d4, x.part[0]));
#else
    return hn::Add(x.part[0], x.part[1]);
#endif
  };
  const auto pairs = [&](V4 a, V4 b) {  // a0+a1, a2+a3, b0+b1, b2+b3
    return hn::Add(hn::ConcatEven(d4, b, a), hn::ConcatOdd(d4, b, a));
  };
  hn::StoreU(pairs(pairs(fours(v[0]), fours(v[1])), pairs(fours(v[2]), fours(v[3]))), d4, sums);
#endif
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
