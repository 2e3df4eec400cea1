// The paceline program: one file a subcommand.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "cli.h"

namespace paceline::cli {
namespace {

int report_parse_error(const CLI::App& app, const CLI::ParseError& error,
                       const std::string& first) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : app.get_subcommands({})) {
    names.push_back(subcommand->get_name());
  }
  const std::string possible = fmt::format("{}", fmt::join(names, ", "));
  const bool known = std::find(names.begin(), names.end(), first) != names.end();
  if (first.empty()) {
    fmt::print(stderr, "paceline: a subcommand is required; possible are {}\n", possible);
  } else if (!known && !first.starts_with('-')) {
    fmt::print(stderr, "paceline: '{}' is no subcommand; possible are {}\n", printable(first),
               possible);
  } else {
    fmt::print(stderr, "paceline: {}\n", printable(error.what(), 1000));
  }
  fmt::print(stderr, "Run `paceline {}--help` for more information.\n", known ? first + " " : "");
  return kBadInput;
}

int run(int argc, char** argv) {
  CLI::App app{
      "Paceline: LLM inference with three-phase paged attention.\n"
      "Try: paceline generate --model MODEL.gguf --prompt 'The capital of France is'"};
  app.name("paceline");
  app.set_version_flag("--version", "paceline 0.1.0");
  app.require_subcommand(1);
  struct Subcommand {
    CLI::App* app;
    Run run;
  };
  std::vector<Subcommand> subcommands;
  const auto add = [&](const char* name, const char* about, Run (*setup)(CLI::App&)) {
    CLI::App* subcommand = app.add_subcommand(name, about);
    subcommands.push_back({subcommand, setup(*subcommand)});
  };
  add("generate", "Continue one or many prompts", add_generate);
  add("info", "Show what a model file holds", add_info);
  add("conformance", "Check attention against the float64 oracle", add_conformance);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      app.exit(error);
      const Status status = flush_output();
      return status.ok() ? kSuccess : report(status);
    }
    return report_parse_error(app, error, argc > 1 ? argv[1] : "");
  }
  for (const Subcommand& subcommand : subcommands) {
    if (subcommand.app->parsed()) {
      return subcommand.run();
    }
  }
  return kBadInput;
}

}  // namespace
}  // namespace paceline::cli

int main(int argc, char** argv) {
  try {
    return paceline::cli::run(argc, argv);
  } catch (const std::exception& error) {  // out of memory on the host
    fmt::print(stderr, "paceline: {}\n", error.what());
    return paceline::cli::kFailure;
  }
}
