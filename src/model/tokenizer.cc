#include "model/tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "model/byte_level.h"

namespace paceline {
namespace {

// Ends of a turn or a document that model files often do not list as EOS.
constexpr std::array<std::string_view, 5> kEndOfGenerationNames = {
    "<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end_of_text|>", "<|end|>"};

// The byte of "<0xHH>".
std::optional<uint8_t> parse_byte_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') {
    return std::nullopt;
  }
  uint32_t byte = 0;
  for (const char c : token.substr(3, 2)) {
    const size_t upper = std::string_view("0123456789ABCDEF").find(c);
    const size_t lower = std::string_view("0123456789abcdef").find(c);
    const size_t digit = std::min(upper, lower);
    if (digit == std::string_view::npos) {
      return std::nullopt;
    }
    byte = byte * 16 + static_cast<uint32_t>(digit);
  }
  return static_cast<uint8_t>(byte);
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<PreTokenizer> pre_tokenizer)
    : pre_tokenizer_(std::move(pre_tokenizer)) {}

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(TokenizerSpec spec) {
  PACELINE_ASSIGN_OR_RETURN(auto pre_tokenizer, PreTokenizer::create(spec.pre_tokenizer));
  std::unique_ptr<Tokenizer> self(new Tokenizer(std::move(pre_tokenizer)));
  IdsBySpelling ids;
  PACELINE_RETURN_IF_ERROR(self->load_tokens(spec, ids));
  PACELINE_RETURN_IF_ERROR(self->load_bytes_and_merges(spec, ids));
  PACELINE_RETURN_IF_ERROR(self->load_special_ids(spec));
  self->pre_tokenizer_name_ = std::move(spec.pre_tokenizer);
  return self;
}

Status Tokenizer::load_tokens(const TokenizerSpec& spec, IdsBySpelling& ids) {
  if (spec.tokens.empty()) {
    return invalid_argument("the vocabulary has no tokens");
  }
  if (spec.tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return invalid_argument("{} tokens are more than 32 bit ids reach", spec.tokens.size());
  }
  if (!spec.token_types.empty() && spec.token_types.size() != spec.tokens.size()) {
    return invalid_argument("{} token types for {} tokens", spec.token_types.size(),
                            spec.tokens.size());
  }
  tokens_.resize(spec.tokens.size());
  ids.reserve(spec.tokens.size());
  for (int32_t id = 0; id < vocab_size(); ++id) {
    const std::string& spelling = spec.tokens[id];
    const int32_t type = spec.token_types.empty() ? 1 : spec.token_types[id];
    if (type < 1 || type > 6) {
      return invalid_argument("token {} has type {}; types are 1 to 6", id, type);
    }
    if (spelling.empty()) {
      return invalid_argument("token {} is empty", id);
    }
    if (!is_valid_utf8(spelling)) {
      return invalid_argument("token {} is not valid UTF-8", id);
    }
    if (const auto [it, added] = ids.try_emplace(spelling, id); !added) {
      return invalid_argument("token {} \"{}\" is the same as token {}", id, printable(spelling),
                              it->second);
    }
    Token& token = tokens_[id];
    token.type = static_cast<TokenType>(type);
    if (token.type == TokenType::kByte) {
      const std::optional<uint8_t> byte = parse_byte_token(spelling);
      if (!byte) {
        return invalid_argument("token {} \"{}\" is of type byte, but not like <0x0A>", id,
                                printable(spelling));
      }
      token.bytes.push_back(static_cast<char>(*byte));
    } else if (token.type == TokenType::kControl || token.type == TokenType::kUserDefined) {
      // These are matched in the text before it is spelled in the byte alphabet.
      token.bytes = spelling;
      marks_.insert(spelling, id);
    } else {
      const std::optional<std::string> bytes = byte_level_decode(spelling);
      token.bytes = bytes.value_or(spelling);
      if (bytes && token.type == TokenType::kNormal && pre_tokenizer_->whole_words_first()) {
        whole_words_.emplace(*bytes, id);
      }
    }
  }
  return Status::ok_status();
}

Status Tokenizer::load_bytes_and_merges(const TokenizerSpec& spec, const IdsBySpelling& ids) {
  std::array<int32_t, 256> byte_ids{};
  byte_ids.fill(Bpe::kNoToken);
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const auto it = ids.find(byte_level_char(static_cast<uint8_t>(byte)));
    if (it != ids.end() && !is_special(it->second)) {
      byte_ids[byte] = it->second;
    }
  }
  bpe_.emplace(byte_ids);
  if (spec.merges.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return invalid_argument("{} merges are too many", spec.merges.size());
  }
  std::string merged;
  for (size_t i = 0; i < spec.merges.size(); ++i) {
    const std::string_view merge = spec.merges[i];
    // The byte alphabet has no space, so that there can only be this one.
    const size_t space = merge.find(' ');
    if (space == std::string_view::npos || space != merge.rfind(' ') || space == 0 ||
        space + 1 == merge.size()) {
      return invalid_argument("merge {} \"{}\" is not of the form \"left right\"", i,
                              printable(merge));
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    merged.assign(left).append(right);
    std::array<int32_t, 3> found{};
    const std::array<std::string_view, 3> spellings = {left, right, merged};
    for (size_t k = 0; k < found.size(); ++k) {
      const auto it = ids.find(spellings[k]);
      if (it == ids.end()) {
        return invalid_argument("merge {} \"{}\": \"{}\" is not a token", i, printable(merge),
                                printable(spellings[k]));
      }
      found[k] = it->second;
    }
    if (!bpe_->add_merge(found[0], found[1], found[2])) {
      return invalid_argument("merge {} \"{}\" was already listed", i, printable(merge));
    }
  }
  return Status::ok_status();
}

Status Tokenizer::load_special_ids(const TokenizerSpec& spec) {
  const std::array<std::pair<const char*, std::optional<int32_t>>, 3> special = {
      {{"BOS", spec.bos_id}, {"EOS", spec.eos_id}, {"EOT", spec.eot_id}}};
  for (const auto& [name, id] : special) {
    if (id && !contains(*id)) {
      return invalid_argument("the {} id {} is not among the {} tokens", name, *id, vocab_size());
    }
  }
  if (spec.add_bos && !spec.bos_id) {
    return invalid_argument("BOS is to be added, but has no id");
  }
  bos_id_ = spec.bos_id;
  eos_id_ = spec.eos_id;
  add_bos_ = spec.add_bos;
  for (const std::optional<int32_t>& id : {spec.eos_id, spec.eot_id}) {
    if (id) {
      tokens_[*id].ends_generation = true;
    }
  }
  for (Token& token : tokens_) {
    if (token.type == TokenType::kControl &&
        std::ranges::find(kEndOfGenerationNames, token.bytes) != kEndOfGenerationNames.end()) {
      token.ends_generation = true;
    }
  }
  return Status::ok_status();
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text,
                                               const EncodeOptions& options) const {
  // U+FFFD may take three bytes for one.
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()) / 3) {
    return invalid_argument("a text of {} bytes is too long to encode", text.size());
  }
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = repair_utf8(text);
    text = repaired;
  }
  PACELINE_ASSIGN_OR_RETURN(PreTokenizer::Splitter splitter, pre_tokenizer_->make_splitter());
  Bpe::Scratch scratch;
  std::vector<std::string_view> words;
  std::vector<int32_t> ids;
  if (options.add_special && add_bos_) {
    ids.push_back(*bos_id_);
  }
  const auto accept = [&](int32_t id) { return options.parse_special || !is_special(id); };
  size_t plain = 0;  // where the text that no mark covers begins
  size_t position = 0;
  while (position < text.size()) {
    const TokenTrie::Match mark = marks_.longest(text.substr(position), accept);
    if (mark.id < 0) {
      ++position;
      continue;
    }
    PACELINE_RETURN_IF_ERROR(
        encode_plain(text.substr(plain, position - plain), splitter, scratch, words, ids));
    ids.push_back(mark.id);
    position += mark.length;
    plain = position;
  }
  PACELINE_RETURN_IF_ERROR(encode_plain(text.substr(plain), splitter, scratch, words, ids));
  return ids;
}

Status Tokenizer::encode_plain(std::string_view text, PreTokenizer::Splitter& splitter,
                               Bpe::Scratch& scratch, std::vector<std::string_view>& words,
                               std::vector<int32_t>& ids) const {
  PACELINE_RETURN_IF_ERROR(splitter.split(text, words));
  for (const std::string_view word : words) {
    if (pre_tokenizer_->whole_words_first()) {
      const auto it = whole_words_.find(std::string(word));
      if (it != whole_words_.end()) {
        ids.push_back(it->second);
        continue;
      }
    }
    bpe_->encode(word, scratch, ids);
  }
  return Status::ok_status();
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (contains(id) && !(skip_special && is_special(id))) {
      bytes += tokens_[id].bytes;
    }
  }
  return repair_utf8(bytes);
}

bool Tokenizer::is_end_of_generation(int32_t id) const {
  return contains(id) && tokens_[id].ends_generation;
}

std::vector<int32_t> Tokenizer::end_tokens() const {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocab_size(); ++id) {
    if (is_end_of_generation(id)) {
      ids.push_back(id);
    }
  }
  return ids;
}

bool Tokenizer::is_special(int32_t id) const {
  return contains(id) &&
         (tokens_[id].type == TokenType::kControl || tokens_[id].type == TokenType::kUnknown);
}

std::string Tokenizer::token_bytes(int32_t id) const {
  return contains(id) ? tokens_[id].bytes : std::string();
}

}  // namespace paceline
