#include "model/stream_decoder.h"

#include "base/utf8.h"
#include "model/byte_level.h"
#include "model/tokenizer.h"

namespace paceline {

std::string StreamDecoder::push(int32_t id) {
  if (tokenizer_->is_special(id)) {
    return {};
  }
  pending_ += tokenizer_->token_bytes(id);
  std::string out;
  const size_t incomplete = append_repaired_utf8(pending_, out);
  pending_.erase(0, pending_.size() - incomplete);
  return out;
}

std::string StreamDecoder::flush() {
  std::string out = repair_utf8(pending_);
  pending_.clear();
  return out;
}

}  // namespace paceline
