// paceline conformance: attention on a device, case by case, against the float64 oracle.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/status_macros.h"
#include "cli.h"
#include "conformance/runner.h"
#include "model/mapped_file.h"

namespace paceline::cli {
namespace {

struct ConformanceOptions {
  std::vector<std::string> files;
  std::string device = "cpu";
  std::string filter;
  int threads = 0;
  bool list = false;
  bool verbose = false;
};

Result<std::vector<Case>> read_cases(const ConformanceOptions& options) {
  std::vector<Case> cases;
  for (const std::string& path : options.files) {
    PACELINE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                                file.bytes().size());
    PACELINE_ASSIGN_OR_RETURN(const std::vector<Case> more, parse_cases(text, path));
    cases.insert(cases.end(), more.begin(), more.end());
  }
  std::erase_if(cases,
                [&](const Case& c) { return c.name.find(options.filter) == std::string::npos; });
  return cases;
}

struct Summary {
  size_t passed = 0;
  size_t failed = 0;
  std::map<std::string, size_t> refused;  // by reason
  double worst_share = 0.0;               // of the error that a case allows
  std::string worst;
};

void take(const Case& c, const CaseResult& result, const ConformanceOptions& options, Summary& s) {
  switch (result.verdict) {
    case Verdict::kPassed:
      ++s.passed;
      if (result.error / result.allowed > s.worst_share) {
        s.worst_share = result.error / result.allowed;
        s.worst =
            fmt::format("{:.3g}, {:.3g} allowed, in {}", result.error, result.allowed, c.name);
      }
      if (options.verbose) {
        fmt::print("passed   {}: error {:.3g}, {:.3g} allowed\n", c.name, result.error,
                   result.allowed);
      }
      break;
    case Verdict::kRefused:
      ++s.refused[result.reason];
      if (options.verbose) {
        fmt::print("refused  {}: {}\n", c.name, result.reason);
      }
      break;
    case Verdict::kFailed:
      ++s.failed;
      fmt::print("FAILED   {}: {}\n", c.name, result.reason);
      break;
  }
}

Status run_conformance(const ConformanceOptions& options, Summary& summary) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Case> cases, read_cases(options));
  if (cases.empty()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("no case holds '{}' in its name", options.filter)};
  }
  if (options.list) {
    for (const Case& c : cases) {
      fmt::print("{}\n", c.name);
    }
    return flush_output();
  }
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                            create_device(options.device, {.num_threads = options.threads}));
  for (const Case& c : cases) {
    take(c, run_case(*device, c), options, summary);
  }
  size_t refused = 0;
  for (const auto& [reason, count] : summary.refused) {
    fmt::print("refused {}: {}\n", count, reason);
    refused += count;
  }
  fmt::print("{}: {} passed, {} refused, {} failed; worst error {}\n", device->info().name,
             summary.passed, refused, summary.failed, summary.worst);
  return flush_output();
}

int conformance(const ConformanceOptions& options) {
  Summary summary;
  if (const Status status = run_conformance(options, summary); !status.ok()) {
    return report(status);
  }
  return summary.failed == 0 ? kSuccess : kFailure;
}

}  // namespace

Run add_conformance(CLI::App& app) {
  auto options = std::make_shared<ConformanceOptions>();
  ConformanceOptions& o = *options;
  app.add_option("files", o.files, "Files of cases, such as those in tests/conformance")
      ->required();
  app.add_option("--device", o.device, "Where to run them")->capture_default_str();
  app.add_option("--filter", o.filter, "Only cases whose names hold this");
  app.add_option("-t,--threads", o.threads, "Threads of the CPU device; 0: one for each processor")
      ->capture_default_str()
      ->check(integer_between(0, 1024));
  app.add_flag("--list", o.list, "Name the cases and run none");
  app.add_flag("-v,--verbose", o.verbose, "A line for each case");
  app.footer("Exit codes: 0 nothing failed, 1 something failed, 2 bad input.");
  return [options] { return conformance(*options); };
}

}  // namespace paceline::cli
