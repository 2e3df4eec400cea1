// What: one token for each row of logits. Task: one row; a few passes over its vocabulary.
//
// top_p without a full sort: tokens fall into buckets by the upper bits of their probability, which
// order as the probabilities do; whole buckets are kept from the top while their mass fits, and
// only the bucket that crosses top_p is sorted.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/errors.h"
#include "device/cpu/cpu_device.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/random.h"

namespace paceline::cpu {
namespace {

constexpr int kBucketBits = 12;
constexpr size_t kBuckets = size_t{1} << kBucketBits;

size_t bucket_of(float weight) {
  return std::bit_cast<uint32_t>(weight) >> (31 - kBucketBits);  // the sign is zero
}

struct Ranked {
  float weight;
  int32_t token;
};

// Sorted before everything less likely; ties in the order of ids.
bool more_likely(const Ranked& a, const Ranked& b) {
  return a.weight > b.weight || (a.weight == b.weight && a.token < b.token);
}

// Scratch of one row, carved for a vocabulary.
struct SampleScratch {
  SampleScratch(std::byte* memory, int64_t vocab)
      : masses(reinterpret_cast<double*>(memory)),
        candidates(reinterpret_cast<Ranked*>(masses + kBuckets)),
        weights(reinterpret_cast<float*>(candidates + vocab)) {}
  static size_t bytes(int64_t vocab) {
    return kBuckets * sizeof(double) +
           static_cast<size_t>(vocab) * (sizeof(Ranked) + sizeof(float));
  }

  double* masses;      // [kBuckets]
  Ranked* candidates;  // [vocab]
  float* weights;      // [vocab]
};

// Whether every logit is a number below +infinity; -infinity is a token that cannot come.
bool all_valid(const float* logits, int64_t vocab) {
  bool valid = true;
  for (int64_t i = 0; i < vocab; ++i) {
    valid &= logits[i] <= std::numeric_limits<float>::max();
  }
  return valid;
}

int32_t argmax(const float* logits, int64_t vocab) {
  int32_t best = 0;
  for (int64_t i = 1; i < vocab; ++i) {
    if (logits[i] > logits[best]) {
      best = static_cast<int32_t>(i);
    }
  }
  return best;
}

// The kept tokens: `last` and everything more likely.
struct Nucleus {
  Ranked last;
  double mass;

  bool holds(float weight, int32_t token) const { return !more_likely(last, {weight, token}); }
};

Nucleus find_nucleus(const SampleScratch& s, int64_t vocab, double wanted) {
  std::fill_n(s.masses, kBuckets, 0.0);
  for (int64_t i = 0; i < vocab; ++i) {
    s.masses[bucket_of(s.weights[i])] += double{s.weights[i]};
  }
  double mass = 0.0;
  size_t bucket = kBuckets - 1;
  while (bucket > 0 && mass + s.masses[bucket] < wanted) {
    mass += s.masses[bucket--];
  }
  size_t count = 0;
  for (int64_t i = 0; i < vocab; ++i) {
    if (bucket_of(s.weights[i]) == bucket) {
      s.candidates[count++] = {s.weights[i], static_cast<int32_t>(i)};
    }
  }
  std::sort(s.candidates, s.candidates + count, more_likely);
  size_t last = 0;
  while (last + 1 < count && mass + double{s.candidates[last].weight} < wanted) {
    mass += double{s.candidates[last++].weight};
  }
  return {s.candidates[last], mass + double{s.candidates[last].weight}};
}

int32_t draw(const float* logits, int64_t vocab, const SamplingRow& row, std::byte* memory) {
  const SampleScratch s(memory, vocab);
  const int32_t most_likely = argmax(logits, vocab);
  double total = 0.0;
  for (int64_t i = 0; i < vocab; ++i) {
    s.weights[i] = std::exp((logits[i] - logits[most_likely]) / row.temperature);
    total += double{s.weights[i]};
  }
  Nucleus nucleus{{0.0F, INT32_MAX}, total};  // everything
  if (row.top_p < 1.0F) {
    nucleus = find_nucleus(s, vocab, total * double{row.top_p});
  }
  double left = random_uniform(row.seed, static_cast<uint64_t>(row.position)) * nucleus.mass;
  int32_t token = most_likely;
  for (int64_t i = 0; i < vocab && left >= 0.0; ++i) {
    if (s.weights[i] > 0.0F && nucleus.holds(s.weights[i], static_cast<int32_t>(i))) {
      token = static_cast<int32_t>(i);
      left -= double{s.weights[i]};
    }
  }
  return token;
}

void sample_kernel(const SampleParams& p, const TaskContext& context) {
  const SamplingRow& row = p.rows[context.task];
  const float* logits = p.logits + int64_t{row.logits_row} * p.vocab;
  if (!all_valid(logits, p.vocab)) {
    p.tokens[row.slot] = 0;  // the next step may already be queued: it needs an id it can look up
    p.results[context.task] = kInvalidToken;
    return;
  }
  const int32_t token = row.temperature > 0.0F ? draw(logits, p.vocab, row, context.scratch)
                                               : argmax(logits, p.vocab);
  p.tokens[row.slot] = token;
  p.results[context.task] = token;
}

}  // namespace

Status CpuOps::sample(Stream& stream, const SampleParams& params) {
  if (SampleScratch::bytes(params.vocab) > TaskContext::kScratchBytes) {
    return unsupported("sample: a vocabulary of {} tokens needs {} bytes of scratch; {} exist",
                       params.vocab, SampleScratch::bytes(params.vocab),
                       TaskContext::kScratchBytes);
  }
  return as_cpu(stream).launch(params.n, sample_kernel, params);
}

}  // namespace paceline::cpu
