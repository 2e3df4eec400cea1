// The arithmetic that decode, extend and prefill share.
//
// For a query row and one split of at most kSplitTokens KV tokens, cut at absolute positions:
//   x_j = (q . k_j) * k_scale_j  k_j: the cache's codes; eight FMA chains over the head dimension,
//                                then a fixed tree
//   s_j = score(x_j)             scale, soft cap, ALiBi: softmax-inl.h
//   m   = max s_j;  p_j = exp(s_j - m);  l = sum p_j   (eight chains over j mod 8, then the tree)
//   o_d = sum (p_j * v_scale_j) v_jd                   one FMA chain over j
// over the keys that the row sees. The splits that a row sees are folded in order. Nothing else
// enters a row's bits: so a token's output is the same alone, in any batch, in any phase and at any
// chunk size.
#if defined(PACELINE_ATTEND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PACELINE_ATTEND_INL_H_
#undef PACELINE_ATTEND_INL_H_
#else
#define PACELINE_ATTEND_INL_H_
#endif

#include <limits>

#include "attention/split_plan.h"
#include "attention/visibility.h"
#include "kernels/cpu/kv_reader-inl.h"
#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {

// One row's running result: unnormalised outputs, the maximum they are relative to, and their
// weight. weight == 0 marks an empty one, whose outputs are undefined and never read.
struct Partial {
  float max_score;
  float weight;
  float* outputs;
};

// A query token of a tile.
struct QueryToken {
  int64_t token;        // its row in q and out
  int32_t first_query;  // its request's first query token
  int32_t partial;      // where its partial of split 0 lies, and how far it is to the next split's
  int32_t partial_stride;
  Visible visible;
};

// Query tokens of one request times the query heads of some KV heads, side by side, and room for
// what becomes of them, carved from a worker's scratch. Row r is of KV head r / rows_of_head(), of
// query token r % rows_of_head() / group, and of head r % group in the KV head's group.
struct Tile {
  Tile(const AttentionParams& p, std::byte* memory)
      : head_size(p.head_size), head_size_v(p.head_size_v), group(p.num_heads / p.num_kv_heads) {
    const int64_t rows = int64_t{p.tile_tokens} * group;
    tokens = reinterpret_cast<QueryToken*>(memory);
    queries = reinterpret_cast<float*>(memory + token_bytes(p.tile_tokens));
    products = queries + rows * head_size;
    split_outputs = products + rows * kSplitTokens;
    total_outputs = split_outputs + rows * head_size_v;
    scales = total_outputs + rows * head_size_v;
    kv_rows = scales + kSplitTokens;
    packed_rows = kv_rows + kRowsAtOnce * std::max(head_size, head_size_v);
    split_max = packed_rows + kRowsAtOnce * std::max(head_size, head_size_v);
    split_weight = split_max + rows;
    total_max = split_weight + rows;
    total_weight = total_max + rows;
    begins = reinterpret_cast<int32_t*>(total_weight + rows);
    ends = begins + p.tile_tokens;
  }
  static size_t token_bytes(int64_t tile_tokens) {
    return (static_cast<size_t>(tile_tokens) * sizeof(QueryToken) + 63) / 64 * 64;
  }
  static size_t bytes(int64_t tile_tokens, int64_t group, int64_t head_size, int64_t head_size_v) {
    const int64_t rows = tile_tokens * group;
    const int64_t floats = rows * (head_size + 2 * head_size_v + kSplitTokens + 4) + kSplitTokens +
                           int64_t{2} * kRowsAtOnce * std::max(head_size, head_size_v) +
                           2 * tile_tokens;
    return static_cast<size_t>(floats) * sizeof(float) + token_bytes(tile_tokens);
  }

  int64_t head_size;
  int64_t head_size_v;
  int32_t group;
  int32_t num_tokens = 0;
  int32_t first_head = 0;  // KV heads [first_head, first_head + num_heads)
  int32_t num_heads = 1;
  bool has_tree = false;
  float* queries;        // [rows, head_size]
  float* products;       // [rows, kSplitTokens]: products, then weights
  float* split_outputs;  // [rows, head_size_v]
  float* total_outputs;  // [rows, head_size_v]
  float* scales;         // [kSplitTokens]: of the split's keys or values
  float* kv_rows;        // [kRowsAtOnce, head_size or head_size_v]: as the reader has them
  float* packed_rows;    // [kRowsAtOnce, head_size or head_size_v]: for many query rows
  float* split_max;      // [rows]
  float* split_weight;   // [rows]
  float* total_max;      // [rows]
  float* total_weight;   // [rows]
  int32_t* begins;       // [tile_tokens]: what of the split each query token sees, from its start
  int32_t* ends;         // [tile_tokens]
  QueryToken* tokens;    // [tile_tokens]

  int32_t rows_of_head() const { return num_tokens * group; }
  int32_t rows() const { return num_heads * rows_of_head(); }
  bool has_few_rows() const { return rows_of_head() <= kFewRows; }
  // A block of 16 for few rows: what is fetched ahead would not stay in the cache for longer.
  int32_t rows_at_once() const { return has_few_rows() ? kRowsAtOnce / 2 : kRowsAtOnce; }
  int32_t token_of(int32_t row) const { return row % rows_of_head() / group; }
  int32_t query_head(int32_t row) const {
    return (first_head + row / rows_of_head()) * group + row % group;
  }
  Partial split_partial(int32_t row) const {
    return {split_max[row], split_weight[row], split_outputs + row * head_size_v};
  }
  Partial total_partial(int32_t row) const {
    return {total_max[row], total_weight[row], total_outputs + row * head_size_v};
  }
  void set_total(int32_t row, const Partial& total) {
    total_max[row] = total.max_score;
    total_weight[row] = total.weight;
  }
};

// Adds query tokens [t, t + count) of a request to the tile. Trees are of decodes.
static HWY_NOINLINE void add_tokens(const AttentionParams& p, int32_t req, int32_t t, int32_t count,
                                    bool decode, Tile& tile) {
  const int32_t first = p.query_start_loc[req];
  const int32_t query_len = p.query_start_loc[req + 1] - first;
  for (int32_t i = t; i < t + count; ++i) {
    QueryToken& token = tile.tokens[tile.num_tokens++];
    token.token = first + i;
    token.first_query = first;
    token.partial = decode ? p.plan.first_partial[req] + i : 0;
    token.partial_stride = query_len;
    token.visible = visible_of(p.masks, first, query_len, p.seq_lens[req], i, decode);
    tile.has_tree |= token.visible.has_tree;
  }
}

// The query rows of the tile, as float32.
static HWY_NOINLINE void load_queries(const AttentionParams& p, Tile& tile) {
  for (int32_t row = 0; row < tile.rows(); ++row) {
    const int64_t at = tile.tokens[tile.token_of(row)].token * p.q.token_stride +
                       tile.query_head(row) * p.q.head_stride;
    to_float_row(p.dtype, element_at(p.dtype, p.q.data, at), tile.head_size,
                 tile.queries + row * tile.head_size);
  }
}

// What the tile sees of the keys [start, start + length): sets begins and ends, and returns the
// hull of all rows. Empty rows and an empty hull have begin == end.
struct Range {
  int32_t begin;
  int32_t end;
};
HWY_INLINE Range set_ranges(int32_t start, int32_t length, Tile& tile) {
  Range hull{length, 0};
  for (int32_t t = 0; t < tile.num_tokens; ++t) {
    const Visible& v = tile.tokens[t].visible;
    tile.begins[t] = std::clamp(v.lo - start, 0, length);
    tile.ends[t] = std::max(tile.begins[t], std::clamp(v.hi - start, 0, length));
    if (tile.begins[t] < tile.ends[t]) {
      hull.begin = std::min(hull.begin, tile.begins[t]);
      hull.end = std::max(hull.end, tile.ends[t]);
    }
  }
  return hull.begin < hull.end ? hull : Range{0, 0};
}

// Walks the tokens of a range, some at a time, and with them the heads of a tile: first the keys of
// all, then the values. In NHD heads lie side by side, so they go before tokens.
struct Step {
  Side side;
  int32_t token;
  int32_t head;
  int32_t count;
};
HWY_INLINE Step first_step(Side side, const Range& range, const Tile& tile) {
  return {side, range.begin, 0, std::min(tile.rows_at_once(), range.end - range.begin)};
}
// False after the last step of a side.
HWY_INLINE bool advance(const Range& range, const Tile& tile, Step& step) {
  if (++step.head == tile.num_heads) {
    step.head = 0;
    step.token += step.count;
    step.count = std::min(tile.rows_at_once(), range.end - step.token);
  }
  return step.count > 0;
}

// Where the rows of the step after `step` lie, to be fetched meanwhile: as many as `rows`, which
// stand in where there are no others.
template <typename Reader>
Rows next_places(const Reader& reader, int32_t start, const Range& range, const Tile& tile,
                 Step step, const Rows& rows) {
  if (!advance(range, tile, step)) {
    if (step.side == kValues) {
      return rows;
    }
    step = first_step(kValues, range, tile);
  }
  if (step.count < rows.count) {
    return rows;
  }
  return reader.places(step.side, tile.first_head + step.head, start + step.token, step.count);
}

// Products of all rows and the keys [start + range.begin, start + range.end).
template <typename Reader>
void multiply_range(const Reader& reader, int32_t start, const Range& range, Tile& tile) {
  const int32_t rows = tile.rows_of_head();
  Step step = first_step(kKeys, range, tile);
  do {
    const Rows keys = reader.rows(kKeys, tile.first_head + step.head, start + step.token,
                                  step.count, tile.kv_rows);
    const Rows next = next_places(reader, start, range, tile, step, keys);
    const int64_t row = int64_t{step.head} * rows;
    multiply_keys(tile.queries + row * tile.head_size, rows, tile.head_size, keys, next,
                  tile.packed_rows, tile.products + row * kSplitTokens + step.token);
  } while (advance(range, tile, step));
}

// Multiplies what each row sees of the range by the scales of the keys or values.
template <typename Reader>
void apply_scales(const Reader& reader, Side side, int32_t start, const Range& range, Tile& tile) {
  if (!reader.has_scale(side)) {
    return;
  }
  float* products = tile.products;
  for (int32_t head = 0; head < tile.num_heads; ++head) {
    for (int32_t t = range.begin; t < range.end; ++t) {
      tile.scales[t] = reader.scale(side, tile.first_head + head, start + t);
    }
    for (int32_t row = 0; row < tile.rows_of_head(); ++row, products += kSplitTokens) {
      for (int32_t t = range.begin; t < range.end; ++t) {
        products[t] *= tile.scales[t];
      }
    }
  }
}

static HWY_NOINLINE void weigh_rows(const AttentionParams& p, int32_t start, Tile& tile) {
  for (int32_t row = 0; row < tile.rows(); ++row) {
    const int32_t t = tile.token_of(row);
    const QueryToken& token = tile.tokens[t];
    tile.split_max[row] = kLowest;
    tile.split_weight[row] = 0.0F;
    if (tile.begins[t] == tile.ends[t]) {
      continue;
    }
    const ScoreRule rule{p.scale, p.soft_cap,
                         p.alibi_slopes == nullptr ? 0.0F : p.alibi_slopes[tile.query_head(row)],
                         static_cast<float>(token.visible.position)};
    float* products = tile.products + int64_t{row} * kSplitTokens;
    tile.split_weight[row] =
        token.visible.has_tree
            ? softmax_tree_row(rule, p.masks, token.visible, token.first_query, start,
                               tile.begins[t], tile.ends[t], products, tile.split_max[row])
            : softmax_row(rule, start, tile.begins[t], tile.ends[t], products, tile.split_max[row]);
  }
}

// Rows of values in use: the first is token t of the split.
struct ValueRows {
  Rows rows;
  int32_t t;
  bool packed;
  Rows next;
};

// Adds weights times values [from, to) of `values` to R rows.
template <int R>
HWY_INLINE void accumulate(const ValueRows& values, int32_t from, int32_t to, int32_t row,
                           Tile& tile) {
  if (from >= to) {
    return;
  }
  add_values<R>(values.packed, tile.products + int64_t{row} * kSplitTokens + values.t, values.rows,
                from, to, tile.head_size_v, values.next,
                tile.split_outputs + row * tile.head_size_v);
}

// One block of R rows: each row takes what it sees and nothing else, not even times zero, in the
// order of the tokens; what all of them see they take together.
template <int R>
HWY_NOINLINE void accumulate_block(const ValueRows& values, int32_t row, Tile& tile) {
  const int32_t count = values.rows.count;
  int32_t from[R];
  int32_t to[R];
  int32_t common_from = 0;
  int32_t common_to = count;
  for (int r = 0; r < R; ++r) {
    const int32_t token = tile.token_of(row + r);
    from[r] = std::clamp(tile.begins[token] - values.t, 0, count);
    to[r] = std::clamp(tile.ends[token] - values.t, from[r], count);
    common_from = std::max(common_from, from[r]);
    common_to = std::min(common_to, to[r]);
  }
  if (common_from >= common_to) {
    for (int r = 0; r < R; ++r) {
      accumulate<1>(values, from[r], to[r], row + r, tile);
    }
    return;
  }
  for (int r = 0; r < R; ++r) {
    accumulate<1>(values, from[r], common_from, row + r, tile);
  }
  accumulate<R>(values, common_from, common_to, row, tile);
  for (int r = 0; r < R; ++r) {
    accumulate<1>(values, common_to, to[r], row + r, tile);
  }
}

// The same for one row of a tree, which sees some tokens and not others.
static HWY_NOINLINE void accumulate_tree_row(const ValueRows& values, int32_t start, int32_t row,
                                             Tile& tile) {
  const Visible& visible = tile.tokens[tile.token_of(row)].visible;
  const int32_t first = start + values.t;
  for (int32_t from = 0; from < values.rows.count;) {
    if (!sees(visible, first + from)) {
      ++from;
      continue;
    }
    int32_t to = from + 1;
    while (to < values.rows.count && sees(visible, first + to)) {
      ++to;
    }
    accumulate<1>(values, from, to, row, tile);
    from = to;
  }
}

// The rows of one KV head.
static HWY_NOINLINE void accumulate_values(const ValueRows& values, int32_t start, int32_t head,
                                           Tile& tile) {
  const int32_t begin = head * tile.rows_of_head();
  const int32_t end = begin + tile.rows_of_head();
  for (int32_t row = begin; row < end;) {
    const int32_t left = end - row;
    const int block = tile.has_tree ? 1 : values.packed ? row_block(left) : std::min(left, 4);
    if (values.packed) {
      const int32_t parts = static_cast<int32_t>(ceil_div(tile.rows_of_head(), 3));
      fetch_part(values.next, tile.head_size_v, (row - begin) / 3, parts);
    }
    if (tile.has_tree) {
      accumulate_tree_row(values, start, row, tile);
    } else if (block == 4) {
      accumulate_block<4>(values, row, tile);
    } else if (block == 3) {
      accumulate_block<3>(values, row, tile);
    } else if (block == 2) {
      accumulate_block<2>(values, row, tile);
    } else {
      accumulate_block<1>(values, row, tile);
    }
    row += block;
  }
}

// split_outputs of all rows: weights times the values of the range.
template <typename Reader>
void sum_range(const Reader& reader, int32_t start, const Range& range, Tile& tile) {
  std::fill_n(tile.split_outputs, tile.rows() * tile.head_size_v, 0.0F);
  Step step = first_step(kValues, range, tile);
  do {
    ValueRows values{reader.rows(kValues, tile.first_head + step.head, start + step.token,
                                 step.count, tile.kv_rows),
                     step.token,
                     !tile.has_few_rows(),
                     {}};
    values.next = next_places(reader, start, range, tile, step, values.rows);
    if (values.packed) {
      values.rows.at[0] = pack_rows(values.rows, tile.head_size_v, tile.packed_rows);
    }
    accumulate_values(values, start, step.head, tile);
  } while (advance(range, tile, step));
}

// Attention of the tile over the keys [start, start + length) of one split. Fills split_max,
// split_weight and split_outputs; false, and nothing filled, when no row sees any of them.
template <typename Reader>
bool attend_split(const AttentionParams& p, const Reader& reader, int32_t start, int32_t length,
                  Tile& tile) {
  const Range range = set_ranges(start, length, tile);
  if (range.begin == range.end) {
    return false;
  }
  multiply_range(reader, start, range, tile);
  apply_scales(reader, kKeys, start, range, tile);
  weigh_rows(p, start, tile);
  apply_scales(reader, kValues, start, range, tile);
  sum_range(reader, start, range, tile);
  return true;
}

// total = total followed by next. The first non-empty partial is taken as it is. LSE merge of
// aiter_fa section 8.5 on unnormalised outputs: with M = max(m_a, m_b), each side is scaled by e^(m
// - M).
HWY_INLINE void fold(Partial& total, const Partial& next, int64_t head_size_v) {
  if (next.weight == 0.0F) {
    return;
  }
  if (total.weight == 0.0F) {
    total.max_score = next.max_score;
    total.weight = next.weight;
    std::copy_n(next.outputs, head_size_v, total.outputs);
    return;
  }
  const float max_score = std::max(total.max_score, next.max_score);
  const float keep = exp1(total.max_score - max_score);
  const float take = exp1(next.max_score - max_score);
  total.max_score = max_score;
  total.weight = total.weight * keep + next.weight * take;
  const Vec8 a = set8(keep);
  const Vec8 b = set8(take);
  for (int64_t d = 0; d < head_size_v; d += 8) {
    store8(mul_add(load8(total.outputs + d), a, load8(next.outputs + d) * b), total.outputs + d);
  }
}

static HWY_NOINLINE void fold_split(Tile& tile) {
  for (int32_t row = 0; row < tile.rows(); ++row) {
    Partial total = tile.total_partial(row);
    fold(total, tile.split_partial(row), tile.head_size_v);
    tile.set_total(row, total);
  }
}

// out = total / weight in the output's dtype, the sink's share in the weight; zeros for an empty
// row. lse = max + ln(weight).
static HWY_NOINLINE void write_output(const AttentionParams& p, const Partial& total, int64_t token,
                                      int64_t head) {
  void* out =
      element_at(p.dtype, p.out.data, token * p.out.token_stride + head * p.out.head_stride);
  const bool empty = total.weight == 0.0F;
  float max_score = empty ? kLowest : total.max_score;
  float weight = empty ? 0.0F : total.weight;
  float keep = 1.0F;
  if (p.sinks != nullptr) {
    const float sink = p.sinks[head];
    const float larger = std::max(max_score, sink);
    keep = exp1(max_score - larger);
    weight = weight * keep + exp1(sink - larger);
    max_score = larger;
  }
  if (p.lse.data != nullptr) {
    p.lse.data[token * p.lse.token_stride + head * p.lse.head_stride] =
        weight == 0.0F ? kLowest : max_score + std::log(weight);
  }
  const Vec8 factor = set8(keep);
  const Vec8 divisor = set8(weight);
  for (int32_t d = 0; d < p.head_size_v; d += 8) {
    HWY_ALIGN float quotient[8] = {};
    if (!empty) {
      store8(load8(total.outputs + d) * factor / divisor, quotient);
    }
    for (int32_t i = 0; i < 8; ++i) {
      store_float(p.dtype, out, d + i, quotient[i]);
    }
  }
}

static HWY_NOINLINE void write_totals(const AttentionParams& p, const Tile& tile) {
  for (int32_t row = 0; row < tile.rows(); ++row) {
    write_output(p, tile.total_partial(row), tile.tokens[tile.token_of(row)].token,
                 tile.query_head(row));
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
