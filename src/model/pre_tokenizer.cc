#include "model/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "base/errors.h"
#include "base/status_macros.h"

namespace paceline {
namespace {

// GPT-2's own pattern (Radford et al. 2019), and the ones that Llama 3 and Qwen2 publish with their tokenizers.
constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kEachDigit = R"(\p{N})";

struct Known {
  std::string_view name;
  std::array<const char*, 2> patterns;
};
constexpr std::array<Known, 7> kKnown{{
    {"gpt-2", {kGpt2, nullptr}},
    {"default", {kGpt2, nullptr}},
    {"smollm", {kEachDigit, kGpt2}},
    {"llama-bpe", {kLlama3, nullptr}},
    {"llama3", {kLlama3, nullptr}},
    {"llama-v3", {kLlama3, nullptr}},
    {"qwen2", {kQwen2, nullptr}},
}};

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

struct MatchDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct PreTokenizer::Pattern {
  pcre2_code* code = nullptr;

  Pattern() = default;
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  ~Pattern() { pcre2_code_free(code); }

  Status compile(const char* pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
    if (code == nullptr) {
      return internal_error("pre-tokenizer pattern at {}: {}", offset, pcre2_message(error));
    }
    // Where the machine has no JIT, matching interprets the pattern: the same result.
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    return {};
  }

  // Appends the matches in `text` and what lies between them.
  Status split(std::string_view text, std::vector<std::string_view>& pieces) const {
    const std::unique_ptr<pcre2_match_data, MatchDataDeleter> match(
        pcre2_match_data_create_from_pattern(code, nullptr));
    const std::unique_ptr<pcre2_match_context, MatchContextDeleter> context(
        pcre2_match_context_create(nullptr));
    pcre2_set_match_limit(context.get(), UINT32_MAX);
    pcre2_set_depth_limit(context.get(), UINT32_MAX);
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    size_t at = 0;
    while (at < text.size()) {
      const int found = pcre2_match(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, match.get(),
                                    context.get());
      if (found == PCRE2_ERROR_NOMATCH) {
        break;
      }
      if (found < 0) {
        return internal_error("pre-tokenizer at byte {} of {}: {}", at, text.size(),
                              pcre2_message(found));
      }
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
      if (range[0] > at) {
        pieces.push_back(text.substr(at, range[0] - at));
      }
      pieces.push_back(text.substr(range[0], range[1] - range[0]));
      at = range[1];
    }
    if (at < text.size()) {
      pieces.push_back(text.substr(at));
    }
    return {};
  }
};

PreTokenizer::PreTokenizer() = default;
PreTokenizer::~PreTokenizer() = default;

Result<std::unique_ptr<PreTokenizer>> PreTokenizer::create(std::string_view name) {
  std::string possible;
  for (const Known& known : kKnown) {
    possible += (possible.empty() ? "" : ", ") + std::string(known.name);
    if (known.name != name) {
      continue;
    }
    std::unique_ptr<PreTokenizer> result(new PreTokenizer());
    result->name_ = name;
    for (const char* pattern : known.patterns) {
      if (pattern != nullptr) {
        result->patterns_.push_back(std::make_unique<Pattern>());
        PACELINE_RETURN_IF_ERROR(result->patterns_.back()->compile(pattern));
      }
    }
    return result;
  }
  return unsupported("pre-tokenizer '{}' is not served; possible are {}", name, possible);
}

Result<std::vector<std::string_view>> PreTokenizer::split(std::string_view text) const {
  std::vector<std::string_view> pieces{text};
  for (const std::unique_ptr<Pattern>& pattern : patterns_) {
    std::vector<std::string_view> finer;
    for (const std::string_view piece : pieces) {
      PACELINE_RETURN_IF_ERROR(pattern->split(piece, finer));
    }
    pieces = std::move(finer);
  }
  return pieces;
}

}  // namespace paceline
