// Early return on errors. Not public: user code may spell this its own way.
#pragma once

#include <utility>

#include "paceline/status.h"

#define PACELINE_CONCAT_INNER(a, b) a##b
#define PACELINE_CONCAT(a, b) PACELINE_CONCAT_INNER(a, b)

#define PACELINE_RETURN_IF_ERROR(expr)                        \
  do {                                                        \
    if (::paceline::Status status_ = (expr); !status_.ok()) { \
      return status_;                                         \
    }                                                         \
  } while (false)

// PACELINE_ASSIGN_OR_RETURN(auto x, make_x());
#define PACELINE_ASSIGN_OR_RETURN(lhs, expr) \
  PACELINE_ASSIGN_OR_RETURN_IMPL(PACELINE_CONCAT(result_, __LINE__), lhs, expr)
// NOLINTBEGIN(bugprone-macro-parentheses): lhs may be a declaration
#define PACELINE_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                   \
  if (!result.ok()) {                                     \
    return result.status();                               \
  }                                                       \
  lhs = std::move(result).value()
// NOLINTEND(bugprone-macro-parentheses)
