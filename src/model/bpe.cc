#include "model/bpe.h"

#include <algorithm>
#include <functional>

namespace paceline {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

}  // namespace

bool Bpe::add_merge(int32_t left, int32_t right, int32_t merged) {
  const auto rank = static_cast<int32_t>(merges_.size());
  return merges_.try_emplace(pair_key(left, right), Merge{rank, merged}).second;
}

const Bpe::Merge* Bpe::find(int32_t left, int32_t right) const {
  const auto it = merges_.find(pair_key(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

void Bpe::push_candidate(Scratch& scratch, int32_t left) const {
  if (left < 0 || scratch.symbols_[left].next < 0) {
    return;
  }
  const int32_t right = scratch.symbols_[left].next;
  if (const Merge* merge = find(scratch.symbols_[left].id, scratch.symbols_[right].id)) {
    scratch.heap_.push_back({merge->rank, left});
    std::push_heap(scratch.heap_.begin(), scratch.heap_.end(), std::greater<>());
  }
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const {
  auto& symbols = scratch.symbols_;
  auto& heap = scratch.heap_;
  symbols.clear();
  heap.clear();
  for (const char c : word) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    if (id != kNoToken) {
      const auto index = static_cast<int32_t>(symbols.size());
      symbols.push_back({id, index - 1, index + 1});
    }
  }
  if (symbols.empty()) {
    return;
  }
  symbols.back().next = -1;
  for (int32_t i = 0; i < static_cast<int32_t>(symbols.size()); ++i) {
    push_candidate(scratch, i);
  }
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto [rank, left] = heap.back();
    heap.pop_back();
    const int32_t right = symbols[left].next;
    if (symbols[left].id == kNoToken || right < 0) {
      continue;
    }
    // Candidates are not withdrawn when a neighbour merges: a stale one no longer has its rank.
    const Merge* merge = find(symbols[left].id, symbols[right].id);
    if (merge == nullptr || merge->rank != rank) {
      continue;
    }
    symbols[left].id = merge->merged;
    symbols[left].next = symbols[right].next;
    symbols[right].id = kNoToken;
    if (symbols[left].next >= 0) {
      symbols[symbols[left].next].previous = left;
    }
    push_candidate(scratch, symbols[left].previous);
    push_candidate(scratch, left);
  }
  for (int32_t i = 0; i >= 0; i = symbols[i].next) {
    out.push_back(symbols[i].id);
  }
}

}  // namespace paceline
