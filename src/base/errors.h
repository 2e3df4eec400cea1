// One short call per kind of error, with fmt's format strings.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "paceline/status.h"

namespace paceline {

template <typename... Args>
Status invalid_argument(fmt::format_string<Args...> format, Args&&... args) {
  return {StatusCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Status unsupported(fmt::format_string<Args...> format, Args&&... args) {
  return {StatusCode::kUnsupported, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Status not_found(fmt::format_string<Args...> format, Args&&... args) {
  return {StatusCode::kNotFound, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Status data_loss(fmt::format_string<Args...> format, Args&&... args) {
  return {StatusCode::kDataLoss, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Status resource_exhausted(fmt::format_string<Args...> format, Args&&... args) {
  return {StatusCode::kResourceExhausted, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Status failed_precondition(fmt::format_string<Args...> format, Args&&... args) {
  return {StatusCode::kFailedPrecondition, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Status internal_error(fmt::format_string<Args...> format, Args&&... args) {
  return {StatusCode::kInternal, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace paceline
