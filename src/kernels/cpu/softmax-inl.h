// From the products of a query row and a split's keys to the weights of its values.
#if defined(PACELINE_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_SOFTMAX_INL_H_
#undef PACELINE_SOFTMAX_INL_H_
#else
#define PACELINE_SOFTMAX_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "attention/visibility.h"
#include "device/cpu/simd/vec8-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// What turns a product into a score, for one row.
struct ScoreRule {
  float scale;
  float soft_cap;  // 0: none
  float slope;     // 0: no ALiBi
  float position;
};

// s = cap tanh(scale x / cap) - slope |position - key position|
HWY_INLINE Vec8 score8(const ScoreRule& rule, const Vec8& products, const Vec8& key_positions) {
  Vec8 s = products * set8(rule.scale);
  if (rule.soft_cap > 0.0F) {
    s = tanh8(s * set8(1.0F / rule.soft_cap)) * set8(rule.soft_cap);
  }
  if (rule.slope != 0.0F) {
    const Vec8 distance = abs8(set8(rule.position) - key_positions);
    s = mul_add(set8(-rule.slope), distance, s);
  }
  return s;
}

// e^x for x <= 0 or NaN, which stays NaN; 0 below -87.3, where float32 has no normal numbers. With
// n = round(x / ln 2) and r = x - n ln 2: e^r by its Taylor polynomial of degree 7, then n is added
// to the exponent. At most 0.94 ulp off (all multiples of 1.1e-6 tried; Highway's Exp: 1.02 ulp,
// and softmax takes 1.24 times as long with it).
HWY_INLINE VF exp_of_nonpositive(VF x) {
  const DF d;
  const hn::RebindToSigned<DF> d32;
  const auto n = hn::NearestInt(hn::Mul(x, hn::Set(d, 1.44269504F)));
  const VF rounded = hn::ConvertTo(d, n);
  VF r = hn::NegMulAdd(rounded, hn::Set(d, 0.693145752F), x);
  r = hn::NegMulAdd(rounded, hn::Set(d, 1.42860677e-6F), r);
  VF p = hn::Set(d, 1.0F / 5040);
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F / 720));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  const VF e = hn::BitCast(d, hn::Add(hn::BitCast(d32, p), hn::ShiftLeft<23>(n)));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3F)), e));
}
HWY_INLINE Vec8 exp_of_nonpositive(const Vec8& x) {
  Vec8 r;
  for (size_t i = 0; i < kParts; ++i) {
    r.part[i] = exp_of_nonpositive(x.part[i]);
  }
  return r;
}

// Turns products[begin, end) of a split that begins at key `start` into weights exp(s - max) in
// place; returns their sum and sets max_score. Sums run in eight chains over j mod 8 and end in the
// tree: what lies outside of [begin, end) adds zeros, so it leaves no trace.
HWY_INLINE float softmax_row(const ScoreRule& rule, int32_t start, int32_t begin, int32_t end,
                             float* products, float& max_score) {
  const int32_t first = begin / 8 * 8;
  Vec8 max = set8(kLowest);
  for (int32_t j = first; j < end; j += 8) {
    Vec8 s = score8(rule, load8(products + j), iota8(static_cast<float>(start + j)));
    if (j < begin || j + 8 > end) {
      s = select_between8(iota8(static_cast<float>(j)), static_cast<float>(begin),
                          static_cast<float>(end), s, kLowest);
    }
    store8(s, products + j);
    max = max8(max, s);
  }
  max_score = max_of8(max);
  const Vec8 offset = set8(max_score);
  Vec8 sum = zero8();
  for (int32_t j = first; j < end; j += 8) {
    const Vec8 p = exp_of_nonpositive(load8(products + j) - offset);
    store8(p, products + j);
    sum = sum + p;
  }
  return sum8(sum);
}

// The same for a row with a tree mask: keys from the context's end on are seen or not one by one,
// and lie at their depth in the tree. `first_query`: the request's first query token.
HWY_INLINE float softmax_tree_row(const ScoreRule& rule, const MaskParams& masks,
                                  const Visible& visible, int32_t first_query, int32_t start,
                                  int32_t begin, int32_t end, float* products, float& max_score) {
  const int32_t first = begin / 8 * 8;
  max_score = kLowest;
  for (int32_t j = first; j < end; j += 8) {
    HWY_ALIGN float positions[8];
    for (int32_t i = 0; i < 8; ++i) {
      const int32_t key = std::min(start + j + i, visible.hi - 1);
      positions[i] = static_cast<float>(key_position(masks, first_query, visible.context_len, key));
    }
    store8(score8(rule, load8(products + j), load8(positions)), products + j);
    for (int32_t i = j; i < j + 8; ++i) {
      products[i] = i >= begin && i < end && sees(visible, start + i) ? products[i] : kLowest;
      max_score = products[i] > max_score ? products[i] : max_score;
    }
  }
  Vec8 sum = zero8();
  for (int32_t j = first; j < end; j += 8) {
    const Vec8 p = exp_of_nonpositive(load8(products + j) - set8(max_score));
    store8(p, products + j);
    sum = sum + p;
  }
  return sum8(sum);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
