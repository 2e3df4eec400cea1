#include "capi/guard.h"

#include <string>

namespace paceline::capi {
namespace {

// A fixed text stands in when there is no memory for the message itself.
struct LastError {
  std::string message;
  const char* fixed = nullptr;
};

LastError& last_error() {
  thread_local LastError error;
  return error;
}

void keep(const std::string& message) noexcept {
  LastError& error = last_error();
  try {
    error.message = message;
    error.fixed = nullptr;
  } catch (...) {
    error.fixed = "host memory ran out";
  }
}

}  // namespace

paceline_status report(const Status& status) noexcept {
  if (!status.ok()) {
    keep(status.message());
  }
  return static_cast<paceline_status>(status.code());
}

paceline_status report_exception(const char* function, const char* what, StatusCode code) noexcept {
  try {
    keep(fmt::format("{}: {}", function, what));
  } catch (...) {
    last_error().fixed = "host memory ran out";
  }
  return static_cast<paceline_status>(code);
}

}  // namespace paceline::capi

const char* paceline_last_error(void) {
  const auto& error = paceline::capi::last_error();
  return error.fixed != nullptr ? error.fixed : error.message.c_str();
}

const char* paceline_status_name(paceline_status status) {
  if (status < PACELINE_OK || status > PACELINE_INTERNAL) {
    return "unknown";
  }
  return paceline::status_code_name(static_cast<paceline::StatusCode>(status));
}
