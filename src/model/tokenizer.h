// Byte-level BPE: text to tokens and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/gguf.h"
#include "model/pre_tokenizer.h"

namespace paceline {

// What a tokenizer is made of, whatever file it came from.
struct TokenizerSpec {
  std::vector<std::string> tokens;   // in the byte-level alphabet (byte_level.h); specials as they are
  std::vector<std::string> merges;   // "left right", most important first
  std::vector<int64_t> token_types;  // GGUF's: 1 normal, 3 control, 4 user-defined, ...; empty: all normal
  std::string pre_tokenizer;
  std::optional<int64_t> bos_id;
  std::optional<int64_t> eos_id;
  std::optional<int64_t> eot_id;
  bool add_bos = false;
};

Result<TokenizerSpec> read_tokenizer_spec(const GgufFile& gguf);

struct EncodeOptions {
  bool add_special = true;    // begin with BOS where the model wants it
  bool parse_special = true;  // control tokens written in the text become their ids
};

// Immutable and thread-safe.
class Tokenizer {
 public:
  // kInvalidArgument for a vocabulary that contradicts itself, naming the entry; kUnsupported for a kind that is not served.
  static Result<std::unique_ptr<Tokenizer>> create(TokenizerSpec spec);
  static Result<std::unique_ptr<Tokenizer>> from_gguf(const GgufFile& gguf);

  // Ill-formed UTF-8 counts as U+FFFD. Bytes that the vocabulary has no token for are dropped before merging, as
  // Hugging Face's tokenizers does.
  Result<std::vector<int32_t>> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // The tokens' bytes joined; then ill-formed UTF-8 becomes U+FFFD. Ids outside the vocabulary give nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;
  // The bytes that a token stands for; a special's name. Empty outside the vocabulary.
  const std::string& token_bytes(int32_t id) const;

  int32_t vocab_size() const { return static_cast<int32_t>(bytes_.size()); }
  std::optional<int32_t> bos_id() const { return bos_id_; }
  std::optional<int32_t> eos_id() const { return eos_id_; }
  bool is_special(int32_t id) const;  // a control token
  // EOS, EOT, and the control tokens by which known families end a turn or a text.
  std::vector<int32_t> end_tokens() const;
  const std::string& pre_tokenizer_name() const { return pre_->name(); }

 private:
  struct Merge {
    int32_t rank;
    int32_t result;
  };
  struct AddedToken {
    std::string text;
    int32_t id;
    bool control;
  };

  Tokenizer() = default;
  Status add_tokens(const TokenizerSpec& spec);
  Status add_merges(const TokenizerSpec& spec);
  Status set_special_ids(const TokenizerSpec& spec);
  const AddedToken* match_added(std::string_view text, bool parse_special) const;
  Status encode_text(std::string_view text, std::vector<int32_t>& ids) const;
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const;

  std::unique_ptr<PreTokenizer> pre_;
  std::vector<std::string> bytes_;        // by id
  std::vector<bool> control_;             // by id
  std::vector<int32_t> byte_tokens_;      // by byte; -1: none
  std::unordered_map<uint64_t, Merge> merges_;  // by left << 32 | right
  std::vector<AddedToken> added_;         // longest first within a first byte
  std::vector<std::vector<size_t>> added_by_byte_;
  std::optional<int32_t> bos_id_, eos_id_, eot_id_;
  bool add_bos_ = false;
};

// Turns a stream of tokens into text without ever cutting a character: an incomplete tail is held back until the
// tokens that complete it arrive. Control tokens give nothing.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string push(int32_t id);
  // What was held back, as U+FFFD.
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;
};

}  // namespace paceline
