// Hands out blocks of the KV cache.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/status.h"

namespace paceline {

// Block ids 0 .. num_blocks-1. Host-side bookkeeping only: a block may be freed while queued work
// still uses it, as long as whoever gets it next enqueues on the same stream. Not thread-safe.
class BlockAllocator {
 public:
  explicit BlockAllocator(int64_t num_blocks);

  int64_t num_blocks() const { return static_cast<int64_t>(in_use_.size()); }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }

  // Appends `count` blocks to `blocks`; all or nothing. kResourceExhausted when fewer are free.
  Status allocate(int64_t count, std::vector<int32_t>& blocks);
  // Takes every block back and clears the list. kInvalidArgument, and nothing freed, when one of
  // them is not in use.
  Status free(std::vector<int32_t>& blocks);

 private:
  std::vector<int32_t> free_;  // a stack: the block freed last is the warmest
  std::vector<bool> in_use_;
};

}  // namespace paceline
