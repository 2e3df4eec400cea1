// What the subcommands share.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "paceline/status.h"

namespace paceline::cli {

// What the program ends with.
enum ExitCode : int {
  kSuccess = 0,
  kFailure = 1,        // it could not be done: memory, a full disk, a fault of the program
  kBadInput = 2,       // options, files or prompts that cannot work
  kInterrupted = 130,  // Ctrl-C
};

// Prints "paceline: MESSAGE" on stderr and returns the code that fits the status.
int report(const Status& status);

// kInternal when what was printed to stdout did not all get out: a full disk, a closed pipe.
Status flush_output();

// Sets up a subcommand's options; the returned function runs it.
using Run = std::function<int()>;
Run add_generate(CLI::App& app);
Run add_info(CLI::App& app);
Run add_conformance(CLI::App& app);

// Checks of options' values. Messages say what is possible. An integer is decimal digits and a
// number is what std::from_chars takes, whole: no blanks, no plus sign, no hexadecimal, no NaN.
CLI::Validator integer_between(uint64_t min, uint64_t max);
CLI::Validator number_between(double min, double max);
// What a parser of the library takes, with the parser's own message.
template <typename Parser>
CLI::Validator accepted_by(Parser parse) {
  return CLI::Validator(
      [parse](const std::string& text) {
        const auto parsed = parse(text);
        return parsed.ok() ? std::string() : parsed.status().message();
      },
      "");
}

// Bytes for people: "93.8 MiB".
std::string human_bytes(double bytes);

}  // namespace paceline::cli
