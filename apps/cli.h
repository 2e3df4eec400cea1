// What the subcommands share.
#pragma once

#include <functional>
#include <string>

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
int report_bad_input(const std::string& message);

// Sets up a subcommand's options; the returned function runs it.
using Run = std::function<int()>;
Run add_generate(CLI::App& app);
Run add_info(CLI::App& app);

// A number from min to max; unlike CLI::Range it refuses NaN, and signs where min is not negative.
CLI::Validator number_between(double min, double max);

// Bytes for people: "93.8 MiB".
std::string human_bytes(double bytes);

}  // namespace paceline::cli
