// The arithmetic that decode, extend and prefill share.
//
// For a query row and one split of at most kSplitTokens KV tokens, cut at absolute positions:
//   s_j = scale * (q . k_j)      eight FMA chains over the head dimension, then a fixed tree
//   m   = max s_j;  p_j = exp(s_j - m);  l = sum p_j   (eight chains over j, then the tree)
//   o_d = sum p_j v_jd           one FMA chain over j
// The splits that a row sees are folded in order. Nothing else enters a row's bits: so a token's
// output is the same alone, in any batch, in any phase and at any chunk size.
#if defined(PACELINE_ATTEND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_ATTEND_INL_H_
#undef PACELINE_ATTEND_INL_H_
#else
#define PACELINE_ATTEND_INL_H_
#endif

#include <limits>

#include "attention/split_plan.h"
#include "device/cpu/simd/dot-inl.h"
#include "kernels/cpu/kv_reader-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {

// One row's running result: unnormalised outputs, the maximum they are relative to, and their
// weight. weight == 0 marks an empty one, whose outputs are undefined and never read.
struct Partial {
  float max_score;
  float weight;
  float* outputs;
};

// Room for a tile of query rows, carved from a worker's scratch.
struct AttendScratch {
  AttendScratch(std::byte* memory, int64_t rows, int64_t head_size)
      : queries(reinterpret_cast<float*>(memory)),
        scores(queries + rows * head_size),
        split_outputs(scores + rows * kSplitTokens),
        total_outputs(split_outputs + rows * head_size),
        kv_rows(total_outputs + rows * head_size),
        split_max(kv_rows + kRowsAtOnce * head_size),
        split_weight(split_max + rows),
        total_max(split_weight + rows),
        total_weight(total_max + rows),
        limits(reinterpret_cast<int32_t*>(total_weight + rows)) {}

  static size_t bytes(int64_t rows, int64_t head_size) {
    return static_cast<size_t>(rows * (3 * head_size + kSplitTokens + 5) +
                               kRowsAtOnce * head_size) *
           sizeof(float);
  }

  float* queries;        // [rows, head_size]
  float* scores;         // [rows, kSplitTokens]
  float* split_outputs;  // [rows, head_size]
  float* total_outputs;  // [rows, head_size]
  float* kv_rows;        // [kRowsAtOnce, head_size]
  float* split_max;      // [rows]
  float* split_weight;   // [rows]
  float* total_max;      // [rows]
  float* total_weight;   // [rows]
  int32_t* limits;       // [rows]: tokens of the split that each row sees
};

// Turns the first `limit` scores into weights exp(s - max); returns their sum and sets `max_score`.
HWY_INLINE float softmax_row(float* scores, int32_t limit, float scale, float& max_score) {
  const float lowest = -std::numeric_limits<float>::infinity();
  const int32_t padded = (limit + 7) / 8 * 8;
  for (int32_t j = limit; j < padded; ++j) {
    scores[j] = lowest;
  }
  const Vec8 factor = set8(scale);
  Vec8 max = set8(lowest);
  for (int32_t j = 0; j < padded; j += 8) {
    Vec8 s = load8(scores + j);
    if (j + 8 <= limit) {
      s = s * factor;
    } else {  // -inf times a scale that is not positive would not stay -inf
      for (int32_t i = j; i < limit; ++i) {
        scores[i] *= scale;
      }
      s = load8(scores + j);
    }
    store8(s, scores + j);
    max = max8(max, s);
  }
  max_score = max_of8(max);
  const Vec8 offset = set8(max_score);
  Vec8 sum = zero8();
  for (int32_t j = 0; j < padded; j += 8) {
    const Vec8 p = exp8(load8(scores + j) - offset);
    store8(p, scores + j);
    sum = sum + p;
  }
  return sum8(sum);
}

// Scores of all rows against the tokens [split_start, split_start + limit).
template <typename Reader>
void score_split(const Reader& reader, int32_t split_start, int32_t limit, int32_t num_rows,
                 int64_t head_size, AttendScratch& s) {
  for (int32_t t = 0; t < limit;) {
    const KvRows keys = reader.keys(split_start + t, limit - t, s.kv_rows);
    dot_rows(
        s.queries, head_size, num_rows, keys.data, keys.stride, keys.count, head_size,
        [&](int64_t row, int64_t j, float dot) { s.scores[row * kSplitTokens + t + j] = dot; });
    t += keys.count;
  }
}

// Adds weights times values of `keys` rows that begin at token t of the split, for one block of R
// query rows, each up to its own limit: a token that a row does not see never enters its sum, not
// even times zero.
template <int R>
HWY_INLINE void accumulate_values(const KvRows& values, int32_t t, int32_t row, int64_t head_size,
                                  AttendScratch& s) {
  int32_t common = values.count;
  for (int r = 0; r < R; ++r) {
    common = std::min(common, std::max(0, s.limits[row + r] - t));
  }
  const float* weights = s.scores + int64_t{row} * kSplitTokens + t;
  float* out = s.split_outputs + row * head_size;
  accumulate_rows<R>(weights, kSplitTokens, values.data, values.stride, common, head_size, out,
                     head_size);
  for (int r = 0; r < R; ++r) {
    const int32_t own = std::clamp(s.limits[row + r] - t, common, values.count);
    if (own > common) {
      accumulate_rows<1>(weights + int64_t{r} * kSplitTokens + common, kSplitTokens,
                         values.data + common * values.stride, values.stride, own - common,
                         head_size, out + r * head_size, head_size);
    }
  }
}

// Attention of `num_rows` rows over one split; s.limits says how many of its tokens each row sees.
// Fills split_max, split_weight and split_outputs.
template <typename Reader>
void attend_split(const Reader& reader, int32_t split, int32_t num_rows, int64_t head_size,
                  float scale, AttendScratch& s) {
  const int32_t start = split * kSplitTokens;
  int32_t limit = 0;
  for (int32_t row = 0; row < num_rows; ++row) {
    limit = std::max(limit, s.limits[row]);
  }
  score_split(reader, start, limit, num_rows, head_size, s);
  for (int32_t row = 0; row < num_rows; ++row) {
    s.split_max[row] = -std::numeric_limits<float>::infinity();
    s.split_weight[row] = 0.0F;
    if (s.limits[row] > 0) {
      s.split_weight[row] = softmax_row(s.scores + int64_t{row} * kSplitTokens, s.limits[row],
                                        scale, s.split_max[row]);
    }
  }
  std::fill_n(s.split_outputs, num_rows * head_size, 0.0F);
  for (int32_t t = 0; t < limit;) {
    const KvRows values = reader.values(start + t, limit - t, s.kv_rows);
    for (int32_t row = 0; row < num_rows;) {
      const int block = row_block(num_rows - row);
      if (block == 3) {
        accumulate_values<3>(values, t, row, head_size, s);
      } else if (block == 2) {
        accumulate_values<2>(values, t, row, head_size, s);
      } else {
        accumulate_values<1>(values, t, row, head_size, s);
      }
      row += block;
    }
    t += values.count;
  }
}

// total = total followed by next. The first non-empty partial is taken as it is. LSE merge of
// aiter_fa section 8.5 on unnormalised outputs: with M = max(m_a, m_b), each side is scaled by e^(m
// - M).
HWY_INLINE void fold(Partial& total, const Partial& next, int64_t head_size) {
  if (next.weight == 0.0F) {
    return;
  }
  if (total.weight == 0.0F) {
    total.max_score = next.max_score;
    total.weight = next.weight;
    std::copy_n(next.outputs, head_size, total.outputs);
    return;
  }
  const float max_score = std::max(total.max_score, next.max_score);
  const float keep = exp1(total.max_score - max_score);
  const float take = exp1(next.max_score - max_score);
  total.max_score = max_score;
  total.weight = total.weight * keep + next.weight * take;
  const Vec8 a = set8(keep);
  const Vec8 b = set8(take);
  for (int64_t d = 0; d < head_size; d += 8) {
    store8(mul_add(load8(total.outputs + d), a, load8(next.outputs + d) * b), total.outputs + d);
  }
}

// out = total / weight in the output's dtype; zeros for an empty row.
HWY_INLINE void write_output(const AttentionParams& p, const Partial& total, int64_t token,
                             int64_t head) {
  const int64_t at = token * p.out.token_stride + head * p.out.head_stride;
  void* out = element_at(p.dtype, p.out.data, at);
  if (total.weight == 0.0F) {
    for (int32_t d = 0; d < p.head_size; ++d) {
      store_float(p.dtype, out, d, 0.0F);
    }
    return;
  }
  const Vec8 weight = set8(total.weight);
  for (int32_t d = 0; d < p.head_size; d += 8) {
    HWY_ALIGN float quotient[8];
    store8(load8(total.outputs + d) / weight, quotient);
    for (int32_t i = 0; i < 8; ++i) {
      store_float(p.dtype, out, d + i, quotient[i]);
    }
  }
}

// Query rows of tokens [first, first + count) and the group of KV head `kv_head`, token by token,
// as float32.
HWY_INLINE void load_queries(const AttentionParams& p, int64_t first, int32_t count,
                             int32_t kv_head, AttendScratch& s) {
  const int32_t group = p.num_heads / p.num_kv_heads;
  float* row = s.queries;
  for (int32_t t = 0; t < count; ++t) {
    for (int32_t g = 0; g < group; ++g, row += p.head_size) {
      const int64_t at = (first + t) * p.q.token_stride + (kv_head * group + g) * p.q.head_stride;
      to_float_row(p.dtype, element_at(p.dtype, p.q.data, at), p.head_size, 1.0F, row);
    }
  }
}

// How many tokens of `split` the rows of query tokens at positions [position, position + count)
// see.
HWY_INLINE void set_limits(int32_t position, int32_t count, int32_t group, int32_t split,
                           AttendScratch& s) {
  for (int32_t t = 0; t < count; ++t) {
    const int32_t seen = position + t + 1 - split * kSplitTokens;
    std::fill_n(s.limits + int64_t{t} * group, group, std::clamp(seen, 0, kSplitTokens));
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
