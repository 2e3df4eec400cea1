// The border between C++ and C: exceptions and Status become codes, messages are kept by thread.
#pragma once

#include <exception>
#include <new>

#include "base/errors.h"
#include "paceline/paceline.h"

namespace paceline::capi {

// Keeps the message when the status is not ok. Never throws.
paceline_status report(const Status& status) noexcept;
paceline_status report_exception(const char* function, const char* what, StatusCode code) noexcept;

// Runs the body of a C function. `body` returns a Status.
template <typename Body>
paceline_status guard(const char* function, const Body& body) noexcept {
  try {
    const Status status = body();
    return status.ok() ? PACELINE_OK
                       : report({status.code(), fmt::format("{}: {}", function, status.message())});
  } catch (const std::bad_alloc&) {
    return report_exception(function, "host memory ran out", StatusCode::kResourceExhausted);
  } catch (const std::exception& error) {
    return report_exception(function, error.what(), StatusCode::kInternal);
  } catch (...) {
    return report_exception(function, "unknown exception", StatusCode::kInternal);
  }
}

// ok when no argument is null; else the message names them all.
template <typename... Pointers>
Status require(const char* names, const Pointers*... pointers) {
  if ((... && (pointers != nullptr))) {
    return {};
  }
  return invalid_argument("none of {} may be null", names);
}

}  // namespace paceline::capi

// Inside a guarded body: the arguments, none of which may be null.
#define PACELINE_REQUIRE(...) \
  PACELINE_RETURN_IF_ERROR(::paceline::capi::require(#__VA_ARGS__, __VA_ARGS__))
