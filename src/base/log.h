// Diagnostics on stderr. The library is silent by default; programs raise the level.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace paceline {

enum class LogLevel { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

void set_log_level(LogLevel level);
LogLevel log_level();
void log_message(LogLevel level, std::string_view message);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (level <= log_level()) {
    log_message(level, fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace paceline
