// Text to token ids and back, for byte-level BPE vocabularies. Independent of any file format.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/bpe.h"
#include "model/pre_tokenizer.h"
#include "model/token_trie.h"
#include "paceline/status.h"

namespace paceline {

struct TokenizerSpec {
  std::vector<std::string> tokens;   // by id, as the vocabulary spells them
  std::vector<std::string> merges;   // "left right", the first ranks first
  std::vector<int32_t> token_types;  // as in GGUF (1..6, see TokenType); empty: all normal
  std::string pre_tokenizer;         // see PreTokenizer
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  std::optional<int32_t> eot_id;
  bool add_bos = false;
};

struct EncodeOptions {
  bool add_special = true;    // begin with BOS, if the spec says add_bos
  bool parse_special = true;  // control tokens spelled out in the text become their ids
};

// Immutable once made, and safe to use from many threads.
class Tokenizer {
 public:
  // kInvalidArgument, with the entry that is wrong, unless all of the spec fits together.
  static Result<std::unique_ptr<Tokenizer>> create(TokenizerSpec spec);

  // Ill-formed UTF-8 counts as U+FFFD. Where a special token may start, the longest is taken;
  // user defined tokens always count, whatever parse_special says.
  // Bytes for which the vocabulary has no token are dropped.
  Result<std::vector<int32_t>> encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;

  // The bytes of all the tokens joined, then U+FFFD for ill-formed UTF-8. Ids that are not of the
  // vocabulary give nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  int32_t vocab_size() const { return static_cast<int32_t>(tokens_.size()); }
  std::optional<int32_t> bos_id() const { return bos_id_; }
  std::optional<int32_t> eos_id() const { return eos_id_; }
  bool is_end_of_generation(int32_t id) const;
  std::vector<int32_t> end_tokens() const;  // all ids of which is_end_of_generation holds
  // Of type control or unknown: a mark, not text.
  bool is_special(int32_t id) const;
  // What the token stands for in text; need not be valid UTF-8. Empty for an unknown id.
  std::string token_bytes(int32_t id) const;
  const std::string& pre_tokenizer_name() const { return pre_tokenizer_name_; }

 private:
  enum class TokenType : uint8_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6,
  };
  struct Token {
    std::string bytes;
    TokenType type = TokenType::kNormal;
    bool ends_generation = false;
  };
  using IdsBySpelling = std::unordered_map<std::string_view, int32_t>;

  explicit Tokenizer(std::unique_ptr<PreTokenizer> pre_tokenizer);

  // Of create, in this order.
  Status load_tokens(const TokenizerSpec& spec, IdsBySpelling& ids);
  Status load_bytes_and_merges(const TokenizerSpec& spec, const IdsBySpelling& ids);
  Status load_special_ids(const TokenizerSpec& spec);

  bool contains(int32_t id) const { return id >= 0 && id < vocab_size(); }
  Status encode_plain(std::string_view text, PreTokenizer::Splitter& splitter,
                      Bpe::Scratch& scratch, std::vector<std::string_view>& words,
                      std::vector<int32_t>& ids) const;

  std::vector<Token> tokens_;
  TokenTrie marks_;                                       // control and user defined tokens
  std::unordered_map<std::string, int32_t> whole_words_;  // by bytes; see whole_words_first()
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::string pre_tokenizer_name_;
  std::optional<Bpe> bpe_;  // always set once created
  std::optional<int32_t> bos_id_;
  std::optional<int32_t> eos_id_;
  bool add_bos_ = false;
};

}  // namespace paceline
