#include "cli.h"

#include <fmt/format.h>

namespace paceline::cli {

int report(const Status& status) {
  fmt::print(stderr, "paceline: {}\n", status.message());
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
    case StatusCode::kNotFound:
    case StatusCode::kDataLoss:
      return kBadInput;
    default:
      return kFailure;
  }
}

int report_bad_input(const std::string& message) {
  fmt::print(stderr, "paceline: {}\n", message);
  return kBadInput;
}

CLI::Validator number_between(double min, double max) {
  const std::string range = fmt::format("{:.12g} to {:.12g}", min, max);
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0.0;
        const bool holds = CLI::detail::lexical_cast(text, value) && value >= min && value <= max;
        return holds ? std::string() : fmt::format("'{}' is not possible; {} are", text, range);
      },
      range);
}

std::string human_bytes(double bytes) {
  const char* unit = "bytes";
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (bytes < 1024) {
      break;
    }
    bytes /= 1024;
    unit = larger;
  }
  return fmt::format("{:.{}f} {}", bytes, unit[0] == 'b' ? 0 : 1, unit);
}

}  // namespace paceline::cli
