#include "conformance/case_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace paceline {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

template <typename T>
Status read_number(const std::string& text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) {
    return invalid_argument("'{}' is no number of this kind", text);
  }
  return {};
}

Status read_flag(const std::string& text, bool& value) {
  if (text != "0" && text != "1") {
    return invalid_argument("'{}'; possible are 0, 1", text);
  }
  value = text == "1";
  return {};
}

Status read_heads(const std::string& text, Case& c) {
  const std::vector<std::string> parts = split(text, '/');
  if (parts.size() != 2) {
    return invalid_argument("'{}' is not of the form HEADS/KV_HEADS", text);
  }
  PACELINE_RETURN_IF_ERROR(read_number(parts[0], c.spec.num_heads));
  return read_number(parts[1], c.spec.num_kv_heads);
}

// "1@37+40@256": query_len@seq_len, with * for repetition: "64*1@100".
Status read_rows(const std::string& text, Case& c) {
  c.rows.clear();
  for (const std::string& part : split(text, '+')) {
    const std::vector<std::string> repeated = split(part, '*');
    const std::vector<std::string> lengths = split(repeated.back(), '@');
    CaseRow row{};
    int count = 1;
    if (repeated.size() > 2 || lengths.size() != 2) {
      return invalid_argument("'{}' is not of the form QUERY_LEN@SEQ_LEN or N*QUERY_LEN@SEQ_LEN",
                              part);
    }
    if (repeated.size() == 2) {
      PACELINE_RETURN_IF_ERROR(read_number(repeated[0], count));
    }
    PACELINE_RETURN_IF_ERROR(read_number(lengths[0], row.query_len));
    PACELINE_RETURN_IF_ERROR(read_number(lengths[1], row.seq_len));
    if (count < 1 || count > 65536 || row.query_len < 1 || row.seq_len < row.query_len) {
      return invalid_argument("'{}': 1 <= QUERY_LEN <= SEQ_LEN and 1 <= N <= 65536 must hold",
                              part);
    }
    c.rows.insert(c.rows.end(), static_cast<size_t>(count), row);
  }
  return {};
}

template <typename Parser, typename T>
Status read_name(const Parser& parser, const std::string& text, T& value) {
  PACELINE_ASSIGN_OR_RETURN(value, parser(text));
  return {};
}

using Setter = std::function<Status(const std::string&, Case&)>;

// Every field there is.
const std::map<std::string, Setter, std::less<>>& setters() {
  static const auto* const instance = new std::map<std::string, Setter, std::less<>>{
      {"heads", read_heads},
      {"rows", read_rows},
      {"head_size", [](const auto& s, Case& c) { return read_number(s, c.spec.head_size); }},
      {"head_size_v", [](const auto& s, Case& c) { return read_number(s, c.spec.head_size_v); }},
      {"dtype", [](const auto& s, Case& c) { return read_name(parse_dtype, s, c.spec.dtype); }},
      {"kv",
       [](const auto& s, Case& c) { return read_name(parse_dtype, s, c.spec.kv_cache_dtype); }},
      {"kv_scale",
       [](const auto& s, Case& c) { return read_name(parse_kv_scale_kind, s, c.spec.kv_scale); }},
      {"layout",
       [](const auto& s, Case& c) {
         return read_name(parse_kv_cache_layout, s, c.spec.kv_cache_layout);
       }},
      {"block", [](const auto& s, Case& c) { return read_number(s, c.spec.block_size); }},
      {"scale", [](const auto& s, Case& c) { return read_number(s, c.spec.scale.emplace()); }},
      {"threshold",
       [](const auto& s, Case& c) { return read_number(s, c.spec.reorder_batch_threshold); }},
      {"causal", [](const auto& s, Case& c) { return read_flag(s, c.spec.causal); }},
      {"window", [](const auto& s, Case& c) { return read_number(s, c.spec.sliding_window); }},
      {"chunk", [](const auto& s, Case& c) { return read_number(s, c.spec.attention_chunk_size); }},
      {"softcap", [](const auto& s, Case& c) { return read_number(s, c.spec.logits_soft_cap); }},
      {"alibi", [](const auto& s, Case& c) { return read_flag(s, c.spec.alibi); }},
      {"sinks", [](const auto& s, Case& c) { return read_flag(s, c.spec.sinks); }},
      {"tree", [](const auto& s, Case& c) { return read_flag(s, c.spec.tree_mask); }},
      {"gather",
       [](const auto& s, Case& c) {
         c.spec.extend_strategy = ExtendStrategy::kGather;
         return read_number(s, c.spec.extend_workspace_tokens);
       }},
      {"encoder_decoder",
       [](const auto& s, Case& c) {
         bool on = false;
         PACELINE_RETURN_IF_ERROR(read_flag(s, on));
         c.spec.attention_type = on ? AttentionType::kEncoderDecoder : AttentionType::kDecoder;
         return Status();
       }},
      {"kernel",
       [](const auto& s, Case& c) {
         c.spec.kernel = s;
         return Status();
       }},
      {"k_scale", [](const auto& s, Case& c) { return read_number(s, c.k_scale); }},
      {"v_scale", [](const auto& s, Case& c) { return read_number(s, c.v_scale); }},
      {"spread", [](const auto& s, Case& c) { return read_number(s, c.spread); }},
      {"layer_window", [](const auto& s, Case& c) { return read_number(s, c.layer_window); }},
      {"prefix", [](const auto& s, Case& c) { return read_number(s, c.common_prefix_len); }},
      {"blocks", [](const auto& s, Case& c) { return read_number(s, c.num_blocks); }},
      {"kv_sharing", [](const auto& s, Case& c) { return read_flag(s, c.kv_sharing); }},
      {"seed", [](const auto& s, Case& c) { return read_number(s, c.seed); }},
  };
  return *instance;
}

// What a harness can set up. What makes no sense as a spec is left for the backend to refuse.
Status check_case(const Case& c) {
  constexpr int64_t kMostElements = int64_t{1} << 28;
  int64_t tokens = 0;
  for (const CaseRow& row : c.rows) {
    tokens += row.seq_len;
    if (c.common_prefix_len < 0 ||
        (c.common_prefix_len > 0 && row.seq_len <= c.common_prefix_len)) {
      return invalid_argument("prefix {} with a row of {} tokens; it must be less",
                              c.common_prefix_len, row.seq_len);
    }
  }
  if (c.spec.block_size > 0 && c.common_prefix_len % c.spec.block_size != 0) {
    return invalid_argument("prefix {} is not a multiple of block {}", c.common_prefix_len,
                            c.spec.block_size);
  }
  const int64_t heads = std::max({1, c.spec.num_heads, c.spec.num_kv_heads});
  const int64_t size = std::max({1, c.spec.head_size, c.spec.head_size_v});
  // Blocks round a row up, and there are twice as many as are needed.
  const int64_t slots =
      tokens + static_cast<int64_t>(c.rows.size()) * std::max(1, c.spec.block_size);
  if (heads > kMostElements / size || slots > kMostElements / (heads * size)) {
    return invalid_argument("{} tokens in blocks of {}, {} heads of {}: more than {} elements",
                            tokens, c.spec.block_size, heads, size, kMostElements);
  }
  if (c.num_blocks < 0 || c.num_blocks > kMostElements / std::max<int64_t>(1, c.spec.block_size)) {
    return invalid_argument("blocks is {}", c.num_blocks);
  }
  return {};
}

Case default_case(const std::string& name) {
  Case c;
  c.name = name;
  c.spec.num_heads = 4;
  c.spec.num_kv_heads = 2;
  c.spec.head_size = 64;
  // Decodes, extends and prefills, on and off the borders of blocks and splits.
  c.rows = {{1, 37}, {1, 300}, {20, 256}, {5, 70}, {1, 1}, {19, 19}};
  return c;
}

// One word "key=value" for each choice of a value in braces; `cases` is multiplied.
Status apply_word(const std::string& word, std::vector<Case>& cases) {
  const size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  const auto setter = setters().find(key);
  if (equals == std::string::npos || setter == setters().end()) {
    std::string known;
    for (const auto& [name, unused] : setters()) {
      known += (known.empty() ? "" : ", ") + name;
    }
    return invalid_argument("'{}' is no field; possible are {}", printable(word), known);
  }
  std::string value = word.substr(equals + 1);
  const bool choices = value.size() >= 2 && value.front() == '{' && value.back() == '}';
  const std::vector<std::string> values =
      choices ? split(value.substr(1, value.size() - 2), ',') : std::vector<std::string>{value};
  std::vector<Case> product;
  for (const Case& base : cases) {
    for (const std::string& choice : values) {
      Case& c = product.emplace_back(base);
      if (choices) {
        c.name += fmt::format(" {}={}", key, choice);
      }
      if (const Status status = setter->second(choice, c); !status.ok()) {
        return invalid_argument("{}: {}", key, status.message());
      }
    }
  }
  cases = std::move(product);
  return {};
}

}  // namespace

Result<std::vector<Case>> parse_cases(std::string_view text, std::string_view file) {
  std::vector<Case> all;
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    std::vector<std::string> words;
    for (std::string& word : split(line.substr(0, line.find('#')), ' ')) {
      if (!word.empty()) {
        words.push_back(std::move(word));
      }
    }
    if (words.empty()) {
      continue;
    }
    std::vector<Case> cases{default_case(words[0])};
    for (size_t i = 1; i < words.size(); ++i) {
      if (const Status status = apply_word(words[i], cases); !status.ok()) {
        return invalid_argument("{}, line {}: {}", file, number, status.message());
      }
    }
    for (const Case& c : cases) {
      if (const Status status = check_case(c); !status.ok()) {
        return invalid_argument("{}, line {}: {}: {}", file, number, c.name, status.message());
      }
    }
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

}  // namespace paceline
