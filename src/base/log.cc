#include "base/log.h"

#include <array>
#include <atomic>
#include <cstdio>

namespace paceline {
namespace {
std::atomic<LogLevel> current_level{LogLevel::kWarning};
}  // namespace

void set_log_level(LogLevel level) { current_level.store(level, std::memory_order_relaxed); }

LogLevel log_level() { return current_level.load(std::memory_order_relaxed); }

void log_message(LogLevel level, std::string_view message) {
  static constexpr std::array<const char*, 4> kNames{"error", "warning", "info", "debug"};
  // One call, so that lines of several threads do not mix.
  fmt::print(stderr, "paceline {}: {}\n", kNames[static_cast<size_t>(level)], message);
}

}  // namespace paceline
