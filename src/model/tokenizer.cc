#include "model/tokenizer.h"

#include <algorithm>
#include <array>
#include <queue>

#include "base/errors.h"
#include "base/status_macros.h"
#include "model/byte_level.h"

namespace paceline {
namespace {

constexpr int64_t kControl = 3;
constexpr int64_t kUserDefined = 4;

uint64_t pair_key(int32_t left, int32_t right) {
  return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
}

Result<std::optional<int64_t>> optional_id(const GgufFile& gguf, const char* key) {
  if (!gguf.has(key)) {
    return std::optional<int64_t>();
  }
  PACELINE_ASSIGN_OR_RETURN(const uint64_t id, gguf.get_uint(key));
  return std::optional<int64_t>(static_cast<int64_t>(std::min<uint64_t>(id, INT64_MAX)));
}

}  // namespace

Result<TokenizerSpec> read_tokenizer_spec(const GgufFile& gguf) {
  PACELINE_ASSIGN_OR_RETURN(const std::string model, gguf.get_string("tokenizer.ggml.model"));
  if (model != "gpt2") {
    return unsupported("{}: tokenizer '{}' is not served; possible is gpt2 (byte-level BPE)",
                       gguf.name(), printable(model));
  }
  TokenizerSpec spec;
  PACELINE_ASSIGN_OR_RETURN(spec.tokens, gguf.get_string_array("tokenizer.ggml.tokens"));
  PACELINE_ASSIGN_OR_RETURN(spec.merges, gguf.get_string_array("tokenizer.ggml.merges"));
  if (gguf.has("tokenizer.ggml.token_type")) {
    PACELINE_ASSIGN_OR_RETURN(spec.token_types, gguf.get_int_array("tokenizer.ggml.token_type"));
  }
  spec.pre_tokenizer = "default";
  if (gguf.has("tokenizer.ggml.pre")) {
    PACELINE_ASSIGN_OR_RETURN(spec.pre_tokenizer, gguf.get_string("tokenizer.ggml.pre"));
  }
  PACELINE_ASSIGN_OR_RETURN(spec.bos_id, optional_id(gguf, "tokenizer.ggml.bos_token_id"));
  PACELINE_ASSIGN_OR_RETURN(spec.eos_id, optional_id(gguf, "tokenizer.ggml.eos_token_id"));
  PACELINE_ASSIGN_OR_RETURN(spec.eot_id, optional_id(gguf, "tokenizer.ggml.eot_token_id"));
  // Llama 3's files leave the flag out and mean it.
  spec.add_bos = spec.pre_tokenizer == "llama-bpe" || spec.pre_tokenizer == "llama3" ||
                 spec.pre_tokenizer == "llama-v3";
  if (gguf.has("tokenizer.ggml.add_bos_token")) {
    PACELINE_ASSIGN_OR_RETURN(spec.add_bos, gguf.get_bool("tokenizer.ggml.add_bos_token"));
  }
  return spec;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_gguf(const GgufFile& gguf) {
  PACELINE_ASSIGN_OR_RETURN(TokenizerSpec spec, read_tokenizer_spec(gguf));
  auto tokenizer = create(std::move(spec));
  if (!tokenizer.ok()) {
    return Status(tokenizer.status().code(), gguf.name() + ": " + tokenizer.status().message());
  }
  return tokenizer;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(TokenizerSpec spec) {
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer());
  PACELINE_ASSIGN_OR_RETURN(tokenizer->pre_, PreTokenizer::create(spec.pre_tokenizer));
  PACELINE_RETURN_IF_ERROR(tokenizer->add_tokens(spec));
  PACELINE_RETURN_IF_ERROR(tokenizer->add_merges(spec));
  PACELINE_RETURN_IF_ERROR(tokenizer->set_special_ids(spec));
  return tokenizer;
}

Status Tokenizer::add_tokens(const TokenizerSpec& spec) {
  const size_t count = spec.tokens.size();
  if (count == 0 || count > INT32_MAX) {
    return invalid_argument("the vocabulary has {} tokens; 1 to {} are possible", count, INT32_MAX);
  }
  if (!spec.token_types.empty() && spec.token_types.size() != count) {
    return invalid_argument("the vocabulary has {} tokens and {} token types", count,
                            spec.token_types.size());
  }
  control_.resize(count);
  byte_tokens_.assign(256, -1);
  added_by_byte_.resize(256);
  for (size_t i = 0; i < count; ++i) {
    const auto id = static_cast<int32_t>(i);
    const int64_t type = spec.token_types.empty() ? 1 : spec.token_types[i];
    control_[i] = type == kControl;
    if (type == kControl || type == kUserDefined) {
      bytes_.push_back(spec.tokens[i]);
      if (!spec.tokens[i].empty()) {
        added_.push_back({spec.tokens[i], id, type == kControl});
      }
      continue;
    }
    bytes_.push_back(from_byte_level(spec.tokens[i]));
    if (bytes_.back().size() == 1 &&
        to_byte_level(bytes_.back()) == spec.tokens[i]) {
      byte_tokens_[static_cast<uint8_t>(bytes_.back()[0])] = id;
    }
  }
  std::stable_sort(added_.begin(), added_.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.text.size() > b.text.size();
  });
  for (size_t i = 0; i < added_.size(); ++i) {
    added_by_byte_[static_cast<uint8_t>(added_[i].text[0])].push_back(i);
  }
  return {};
}

Status Tokenizer::add_merges(const TokenizerSpec& spec) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    if (!ids.emplace(spec.tokens[i], static_cast<int32_t>(i)).second) {
      return invalid_argument("token {} '{}' is in the vocabulary twice", i,
                              printable(spec.tokens[i]));
    }
  }
  for (size_t i = 0; i < spec.merges.size(); ++i) {
    const std::string_view merge = spec.merges[i];
    const size_t space = merge.find(' ', 1);
    const auto find = [&](std::string_view token) {
      const auto it = ids.find(token);
      return it == ids.end() ? -1 : it->second;
    };
    if (space == std::string_view::npos) {
      return invalid_argument("merge {} '{}' is not two tokens with a space between", i,
                              printable(merge));
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    const std::string joined = std::string(left) + std::string(right);
    for (const std::string_view token : {left, right, std::string_view(joined)}) {
      if (find(token) < 0) {
        return invalid_argument("merge {} '{}' needs the token '{}', which the vocabulary lacks", i,
                                printable(merge), printable(token));
      }
    }
    merges_.emplace(pair_key(find(left), find(right)), Merge{static_cast<int32_t>(i), find(joined)});
  }
  return {};
}

Status Tokenizer::set_special_ids(const TokenizerSpec& spec) {
  const auto set = [&](const char* name, const std::optional<int64_t>& given,
                       std::optional<int32_t>& id) -> Status {
    if (given.has_value()) {
      if (*given < 0 || *given >= vocab_size()) {
        return invalid_argument("the {} token is {}; the vocabulary has {} tokens", name, *given,
                                vocab_size());
      }
      id = static_cast<int32_t>(*given);
    }
    return {};
  };
  PACELINE_RETURN_IF_ERROR(set("BOS", spec.bos_id, bos_id_));
  PACELINE_RETURN_IF_ERROR(set("EOS", spec.eos_id, eos_id_));
  PACELINE_RETURN_IF_ERROR(set("EOT", spec.eot_id, eot_id_));
  add_bos_ = spec.add_bos;
  if (add_bos_ && !bos_id_.has_value()) {
    return invalid_argument("texts should begin with a BOS token, but none is named");
  }
  return {};
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && id < vocab_size() && control_[static_cast<size_t>(id)];
}

std::vector<int32_t> Tokenizer::end_tokens() const {
  static constexpr std::array<std::string_view, 5> kEnds{
      "<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end_of_text|>", "<|end|>"};
  std::vector<int32_t> ends;
  for (const std::optional<int32_t>& id : {eos_id_, eot_id_}) {
    if (id.has_value()) {
      ends.push_back(*id);
    }
  }
  for (const AddedToken& token : added_) {
    if (token.control && std::find(kEnds.begin(), kEnds.end(), token.text) != kEnds.end()) {
      ends.push_back(token.id);
    }
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

const std::string& Tokenizer::token_bytes(int32_t id) const {
  static const std::string kNothing;
  return id >= 0 && id < vocab_size() ? bytes_[static_cast<size_t>(id)] : kNothing;
}

const Tokenizer::AddedToken* Tokenizer::match_added(std::string_view text,
                                                    bool parse_special) const {
  for (const size_t i : added_by_byte_[static_cast<uint8_t>(text[0])]) {
    if ((parse_special || !added_[i].control) && text.starts_with(added_[i].text)) {
      return &added_[i];
    }
  }
  return nullptr;
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text,
                                               const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  if (options.add_special && add_bos_) {
    ids.push_back(*bos_id_);
  }
  const std::string repaired = repair_utf8(text);
  std::string_view rest = repaired;
  size_t plain = 0;  // bytes before the next added token
  while (plain < rest.size()) {
    const AddedToken* token = match_added(rest.substr(plain), options.parse_special);
    if (token == nullptr) {
      ++plain;
      continue;
    }
    PACELINE_RETURN_IF_ERROR(encode_text(rest.substr(0, plain), ids));
    ids.push_back(token->id);
    rest.remove_prefix(plain + token->text.size());
    plain = 0;
  }
  PACELINE_RETURN_IF_ERROR(encode_text(rest, ids));
  return ids;
}

Status Tokenizer::encode_text(std::string_view text, std::vector<int32_t>& ids) const {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string_view> words, pre_->split(text));
  for (const std::string_view word : words) {
    encode_word(word, ids);
  }
  return {};
}

// Merges the most important adjacent pair, the leftmost on ties, until none is left: a heap of candidates over a
// linked list of symbols, O(n log n).
void Tokenizer::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  struct Symbol {
    int32_t token;
    int32_t previous;
    int32_t next;
  };
  struct Candidate {
    int32_t rank;
    int32_t left;  // index of the left symbol
    int32_t left_token;
    int32_t right_token;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for (const char byte : word) {
    const int32_t token = byte_tokens_[static_cast<uint8_t>(byte)];
    if (token >= 0) {
      const auto index = static_cast<int32_t>(symbols.size());
      symbols.push_back({token, index - 1, index + 1});
    }
  }
  if (symbols.empty()) {
    return;
  }
  symbols.back().next = -1;
  const auto symbol = [&](int32_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto consider = [&](int32_t left) {
    if (left < 0 || symbol(left).next < 0) {
      return;
    }
    const int32_t right_token = symbol(symbol(left).next).token;
    const auto it = merges_.find(pair_key(symbol(left).token, right_token));
    if (it != merges_.end()) {
      heap.push({it->second.rank, left, symbol(left).token, right_token});
    }
  };
  for (int32_t i = 0; i < static_cast<int32_t>(symbols.size()); ++i) {
    consider(i);
  }
  while (!heap.empty()) {
    const Candidate best = heap.top();
    heap.pop();
    Symbol& left = symbol(best.left);
    if (left.token != best.left_token || left.next < 0 ||
        symbol(left.next).token != best.right_token) {
      continue;  // one side was merged meanwhile
    }
    Symbol& right = symbol(left.next);
    left.token = merges_.at(pair_key(best.left_token, best.right_token)).result;
    right.token = -1;
    left.next = right.next;
    if (left.next >= 0) {
      symbol(left.next).previous = best.left;
    }
    consider(left.previous);
    consider(best.left);
  }
  for (int32_t i = 0; i >= 0; i = symbol(i).next) {
    ids.push_back(symbol(i).token);
  }
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!skip_special || !is_special(id)) {
      bytes += token_bytes(id);
    }
  }
  return repair_utf8(bytes);
}

std::string StreamDecoder::push(int32_t id) {
  if (tokenizer_.is_special(id)) {
    return {};
  }
  pending_ += tokenizer_.token_bytes(id);
  std::string out;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Char c = decode_utf8(rest);
    if (c.truncated) {
      break;
    }
    if (c.code_point.has_value()) {
      out.append(rest.substr(0, c.length));
    } else {
      append_utf8(0xFFFD, out);
    }
    rest.remove_prefix(c.length);
  }
  pending_ = std::string(rest);
  return out;
}

std::string StreamDecoder::flush() {
  const std::string out = repair_utf8(pending_);
  pending_.clear();
  return out;
}

}  // namespace paceline
