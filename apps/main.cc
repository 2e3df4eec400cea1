// The paceline program: one file a subcommand.
#include <fmt/format.h>

#include <exception>
#include <vector>

#include "cli.h"

namespace paceline::cli {
namespace {

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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      return app.exit(error);
    }
    fmt::print(stderr, "paceline: {}\nRun with --help for more information.\n", error.what());
    return kBadInput;
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
