// The longest of a set of tokens that a text starts with.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace paceline {

class TokenTrie {
 public:
  struct Match {
    int32_t id = -1;  // -1: none
    size_t length = 0;
  };

  // `token` is not empty and not in the set.
  void insert(std::string_view token, int32_t id) {
    uint32_t node = 0;
    starts_[static_cast<uint8_t>(token[0])] = true;
    for (const char c : token) {
      const auto [it, added] =
          edges_.try_emplace(edge(node, c), static_cast<uint32_t>(ids_.size()));
      node = it->second;
      if (added) {
        ids_.push_back(-1);
      }
    }
    ids_[node] = id;
  }

  // Of those tokens whose id `accept` takes.
  template <typename Accept>
  Match longest(std::string_view text, const Accept& accept) const {
    Match best;
    if (text.empty() || !starts_[static_cast<uint8_t>(text[0])]) {
      return best;
    }
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto it = edges_.find(edge(node, text[i]));
      if (it == edges_.end()) {
        break;
      }
      node = it->second;
      if (ids_[node] >= 0 && accept(ids_[node])) {
        best = {ids_[node], i + 1};
      }
    }
    return best;
  }

 private:
  static uint64_t edge(uint32_t node, char c) {
    return (static_cast<uint64_t>(node) << 8) | static_cast<uint8_t>(c);
  }

  std::array<bool, 256> starts_{};  // most bytes of a text start no token: tell without a lookup
  std::unordered_map<uint64_t, uint32_t> edges_;
  std::vector<int32_t> ids_ = {-1};  // by node; -1 where no token ends
};

}  // namespace paceline
