// Byte-pair merges: a word's bytes become tokens, which merge in pairs, the merge listed first
// before all others and the leftmost of equals.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace paceline {

class Bpe {
 public:
  static constexpr int32_t kNoToken = -1;

  // Buffers of encode, kept between words; one per thread.
  class Scratch {
    friend class Bpe;
    struct Symbol {
      int32_t id = kNoToken;  // kNoToken once merged into its left neighbour
      int32_t previous = -1;
      int32_t next = -1;
    };
    struct Candidate {
      int32_t rank = 0;
      int32_t left = 0;  // an index into symbols
      bool operator>(const Candidate& other) const {
        return rank != other.rank ? rank > other.rank : left > other.left;
      }
    };
    std::vector<Symbol> symbols_;
    std::vector<Candidate> heap_;
  };

  // byte_ids: the token of each byte, or kNoToken. Such bytes are dropped before any merge, so
  // that their neighbours may merge with each other: Hugging Face's BPE without an unknown token.
  explicit Bpe(const std::array<int32_t, 256>& byte_ids) : byte_ids_(byte_ids) {}

  // Adds the merge that ranks after those before it; false if the pair already has one.
  bool add_merge(int32_t left, int32_t right, int32_t merged);

  // Appends the tokens of `word`, of less than 2^31 bytes, to `out`; O(n log n).
  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;

 private:
  struct Merge {
    int32_t rank = 0;
    int32_t merged = 0;
  };

  const Merge* find(int32_t left, int32_t right) const;
  void push_candidate(Scratch& scratch, int32_t left) const;

  std::array<int32_t, 256> byte_ids_;
  std::unordered_map<uint64_t, Merge> merges_;  // by the pair of ids
};

}  // namespace paceline
