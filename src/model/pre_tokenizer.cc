#include "model/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace paceline {
namespace {

// Unicode's White_Space, as the regular expressions of the original tokenizers have it. PCRE2's \s
// would also take U+180E, which has not been a space since Unicode 6.3.
#define PACELINE_SPACES                                                              \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}" \
  "\\x{202f}\\x{205f}\\x{3000}"
#define PACELINE_SPACE "[" PACELINE_SPACES "]"
#define PACELINE_NOT_SPACE "[^" PACELINE_SPACES "]"
#define PACELINE_SYMBOLS "[^" PACELINE_SPACES "\\p{L}\\p{N}]+"
// Of a run of spaces all but the last, which the next word may begin with; the whole run at the
// end of the text.
#define PACELINE_SPACE_RUNS PACELINE_SPACE "+(?!" PACELINE_NOT_SPACE ")|" PACELINE_SPACE "+"
#define PACELINE_SUFFIXES "'s|'t|'re|'ve|'m|'ll|'d"
#define PACELINE_MODERN(numbers)                                                             \
  "(?i:" PACELINE_SUFFIXES ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers "| ?" PACELINE_SYMBOLS \
  "[\\r\\n]*|" PACELINE_SPACE "*[\\r\\n]+|" PACELINE_SPACE_RUNS

constexpr const char* kGpt2 =
    PACELINE_SUFFIXES "| ?\\p{L}+| ?\\p{N}+| ?" PACELINE_SYMBOLS "|" PACELINE_SPACE_RUNS;
constexpr const char* kLlama3 = PACELINE_MODERN("\\p{N}{1,3}");
constexpr const char* kQwen2 = PACELINE_MODERN("\\p{N}");
constexpr const char* kIsolatedNumbers = "\\p{N}|\\P{N}+";

struct Definition {
  std::string_view name;
  std::array<const char*, 2> patterns;
  bool whole_words_first;
};

constexpr std::array kDefinitions = {
    Definition{"gpt-2", {kGpt2}, false},
    Definition{"default", {kGpt2}, false},
    Definition{"smollm", {kIsolatedNumbers, kGpt2}, false},
    // Llama 3's vocabulary has words that its merges do not reach ("ignore_merges").
    Definition{"llama-bpe", {kLlama3}, true},
    Definition{"llama3", {kLlama3}, true},
    Definition{"llama-v3", {kLlama3}, true},
    Definition{"qwen2", {kQwen2}, false},
};

// No pattern backtracks further than the run of characters it is in, so that these only have to
// let a long run pass.
constexpr uint32_t kMatchLimit = 4'000'000'000U;
constexpr uint32_t kHeapLimitKib = 1024U * 1024U;
constexpr size_t kJitStackStart = size_t{32} * 1024;
constexpr size_t kJitStackMax = size_t{16} * 1024 * 1024;

template <auto kFree>
struct FreeBy {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
using Code = std::unique_ptr<pcre2_code, FreeBy<&pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, FreeBy<&pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, FreeBy<&pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, FreeBy<&pcre2_jit_stack_free>>;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

struct PreTokenizer::Stage {
  Code code;
};

struct PreTokenizer::Splitter::State {
  std::span<const Stage> stages;
  // In this order: the context refers to the stack.
  JitStack jit_stack;
  MatchContext context;
  MatchData match;
  std::vector<std::string_view> pieces;

  // Appends the parts of `text` to `words`.
  Status split_once(const pcre2_code* code, std::string_view text,
                    std::vector<std::string_view>& words);
};

PreTokenizer::PreTokenizer() = default;
PreTokenizer::~PreTokenizer() = default;

Result<std::unique_ptr<PreTokenizer>> PreTokenizer::create(std::string_view name) {
  const Definition* definition = nullptr;
  std::string known;
  for (const Definition& candidate : kDefinitions) {
    if (candidate.name == name) {
      definition = &candidate;
    }
    known += known.empty() ? "" : ", ";
    known += candidate.name;
  }
  if (definition == nullptr) {
    return unsupported("pre-tokenizer \"{}\"; those known are {}", printable(name), known);
  }
  std::unique_ptr<PreTokenizer> self(new PreTokenizer());
  self->whole_words_first_ = definition->whole_words_first;
  for (const char* pattern : definition->patterns) {
    if (pattern == nullptr) {
      continue;
    }
    int error = 0;
    PCRE2_SIZE offset = 0;
    // Anchored: every character is in some alternative, so a match begins where the last ended.
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset, nullptr));
    if (code == nullptr) {
      return internal_error("pre-tokenizer \"{}\": PCRE2 at offset {} of its pattern: {}", name,
                            offset, pcre2_message(error));
    }
    // Only faster: without it, as where executable memory is forbidden, PCRE2 interprets.
    (void)pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    self->stages_.push_back({std::move(code)});
  }
  return self;
}

PreTokenizer::Splitter::Splitter(std::unique_ptr<State> state) : state_(std::move(state)) {}
PreTokenizer::Splitter::Splitter(Splitter&&) noexcept = default;
PreTokenizer::Splitter::~Splitter() = default;

Result<PreTokenizer::Splitter> PreTokenizer::make_splitter() const {
  auto state = std::make_unique<Splitter::State>();
  state->stages = stages_;
  state->context.reset(pcre2_match_context_create(nullptr));
  state->match.reset(pcre2_match_data_create(1, nullptr));
  if (state->context == nullptr || state->match == nullptr) {
    return resource_exhausted("no memory for PCRE2's match data");
  }
  pcre2_set_match_limit(state->context.get(), kMatchLimit);
  pcre2_set_depth_limit(state->context.get(), kMatchLimit);
  pcre2_set_heap_limit(state->context.get(), kHeapLimitKib);
  state->jit_stack.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr));
  if (state->jit_stack != nullptr) {  // null without JIT support
    pcre2_jit_stack_assign(state->context.get(), nullptr, state->jit_stack.get());
  }
  return Splitter(std::move(state));
}

Status PreTokenizer::Splitter::State::split_once(const pcre2_code* code, std::string_view text,
                                                 std::vector<std::string_view>& words) {
  size_t begin = 0;
  while (begin < text.size()) {
    // Checking the text's UTF-8 at every match would make this quadratic.
    const int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                  begin, PCRE2_NO_UTF_CHECK, match.get(), context.get());
    if (count < 0) {
      return internal_error("PCRE2 at byte {} of {} of the text: {}", begin, text.size(),
                            pcre2_message(count));
    }
    const size_t end = pcre2_get_ovector_pointer(match.get())[1];
    if (end <= begin) {
      return internal_error("PCRE2 matched nothing at byte {} of {} of the text", begin,
                            text.size());
    }
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return Status::ok_status();
}

Status PreTokenizer::Splitter::split(std::string_view text, std::vector<std::string_view>& words) {
  words.assign(1, text);
  for (const Stage& stage : state_->stages) {
    state_->pieces.swap(words);
    words.clear();
    // Each piece is a subject of its own: a lookahead must not see into the next.
    for (const std::string_view piece : state_->pieces) {
      PACELINE_RETURN_IF_ERROR(state_->split_once(stage.code.get(), piece, words));
    }
  }
  return Status::ok_status();
}

}  // namespace paceline
