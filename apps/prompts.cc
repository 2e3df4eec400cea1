#include "prompts.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/errors.h"
#include "base/status_macros.h"
#include "model/mapped_file.h"

namespace paceline::cli {
namespace {

constexpr size_t kMaxBytes = size_t{64} << 20;

Status too_large(std::string_view name) {
  return invalid_argument("{} has more than {} MiB; prompts of at most that are read", name,
                          kMaxBytes >> 20);
}

Result<std::string> read_standard_input() {
  std::string text;
  std::string chunk(size_t{64} << 10, '\0');
  while (const size_t count = std::fread(chunk.data(), 1, chunk.size(), stdin)) {
    text.append(chunk, 0, count);
    if (text.size() > kMaxBytes) {
      return too_large("standard input");
    }
  }
  if (std::ferror(stdin) != 0) {
    return invalid_argument("standard input cannot be read: {}", std::strerror(errno));
  }
  if (text.empty()) {
    return invalid_argument("standard input is empty; a prompt on each line is needed");
  }
  return text;
}

Result<std::string> read_file(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  if (file.bytes().size() > kMaxBytes) {
    return too_large(fmt::format("'{}'", path));
  }
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

}  // namespace

Result<std::vector<Prompt>> read_prompts(const std::vector<std::string>& given,
                                         const std::optional<std::string>& file) {
  std::vector<Prompt> prompts;
  prompts.reserve(given.size());
  for (const std::string& text : given) {
    prompts.push_back({text, fmt::format("prompt {}", prompts.size() + 1)});
  }
  if (!file.has_value()) {
    if (prompts.empty()) {
      return invalid_argument("no prompt: give --prompt TEXT or --prompts-file FILE");
    }
    return prompts;
  }
  const std::string name = *file == "-" ? "standard input" : *file;
  PACELINE_ASSIGN_OR_RETURN(const std::string text,
                            *file == "-" ? read_standard_input() : read_file(*file));
  std::string_view rest = text;
  if (rest.starts_with("\xFF\xFE") || rest.starts_with("\xFE\xFF")) {
    return invalid_argument("{}: the text is UTF-16; UTF-8 is needed", name);
  }
  if (rest.starts_with("\xEF\xBB\xBF")) {
    rest.remove_prefix(3);
  }
  for (size_t number = 1; !rest.empty(); ++number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      prompts.push_back({std::string(line), fmt::format("{}, line {}", name, number)});
    }
  }
  if (prompts.size() == given.size()) {
    return invalid_argument("{}: no prompt: every line is blank", name);
  }
  return prompts;
}

}  // namespace paceline::cli
