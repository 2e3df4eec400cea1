#include "kv/block_allocator.h"

#include "base/errors.h"

namespace paceline {

BlockAllocator::BlockAllocator(int64_t num_blocks) : in_use_(static_cast<size_t>(num_blocks)) {
  free_.reserve(in_use_.size());
  for (int64_t block = num_blocks - 1; block >= 0; --block) {
    free_.push_back(static_cast<int32_t>(block));
  }
}

Status BlockAllocator::allocate(int64_t count, std::vector<int32_t>& blocks) {
  if (count < 0 || count > num_free()) {
    return resource_exhausted("{} cache blocks asked, {} of {} free", count, num_free(),
                              num_blocks());
  }
  for (int64_t i = 0; i < count; ++i) {
    const int32_t block = free_.back();
    free_.pop_back();
    in_use_[static_cast<size_t>(block)] = true;
    blocks.push_back(block);
  }
  return {};
}

Status BlockAllocator::free(std::vector<int32_t>& blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const int32_t block = blocks[i];
    if (block < 0 || block >= num_blocks() || !in_use_[static_cast<size_t>(block)]) {
      for (size_t j = 0; j < i; ++j) {
        in_use_[static_cast<size_t>(blocks[j])] = true;
      }
      return invalid_argument("block {} of {} is not in use and cannot be freed", block,
                              num_blocks());
    }
    in_use_[static_cast<size_t>(block)] = false;
  }
  free_.insert(free_.end(), blocks.rbegin(), blocks.rend());
  blocks.clear();
  return {};
}

}  // namespace paceline
