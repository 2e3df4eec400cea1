#include "cli.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "base/errors.h"
#include "base/utf8.h"

namespace paceline::cli {
namespace {

// A validator that takes what from_chars reads whole, from min to max.
template <typename T>
CLI::Validator between(T min, T max) {
  const std::string range = fmt::format("{} to {}", min, max);
  return CLI::Validator(
      [=](const std::string& text) {
        T value{};
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        const bool holds = error == std::errc() && stop == end && value >= min && value <= max;
        return holds ? std::string()
                     : fmt::format("'{}' is not possible; {} are", printable(text), range);
      },
      range);
}

}  // namespace

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

Status flush_output() {
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) {
    return internal_error("the output could not be written: {}", std::strerror(errno));
  }
  return {};
}

CLI::Validator integer_between(uint64_t min, uint64_t max) { return between(min, max); }
CLI::Validator number_between(double min, double max) { return between(min, max); }

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
