// Prompts as a user gives them: on the command line, or in a file with one on each line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/status.h"

namespace paceline::cli {

struct Prompt {
  std::string text;
  std::string where;  // for messages: "prompt 2", "prompts.txt, line 7"
};

// `given` first, then the lines of `file` ("-": standard input). Blank lines are left out; line
// ends may be CRLF, and a UTF-8 byte order mark is no part of the first prompt. At most 64 MiB are
// read. Errors name the file and what it is: absent, a folder, no regular file, empty, too large,
// blank.
Result<std::vector<Prompt>> read_prompts(const std::vector<std::string>& given,
                                         const std::optional<std::string>& file);

}  // namespace paceline::cli
