// Errors are values: no function of Paceline throws or aborts on bad input. Two things are not
// input: host memory that runs out (std::bad_alloc is thrown), and a call that breaks a documented
// precondition, such as value() of a Result that is not ok (asserted in debug builds, undefined
// otherwise).
//
// A Status is either ok or a code with a message that says what was given and what is possible.
// A Result<T> is either a T or a Status that is not ok.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace paceline {

enum class StatusCode {
  kOk = 0,
  kInvalidArgument,     // the caller gave something that can never work
  kUnsupported,         // a valid request that no kernel or format reader here serves
  kNotFound,            // a file, tensor or device that does not exist
  kDataLoss,            // a file or message that is truncated or corrupt
  kResourceExhausted,   // memory, cache blocks or queue space ran out
  kFailedPrecondition,  // a call at the wrong time, e.g. ending a capture that never began
  kInternal,            // a fault of Paceline itself
};

// The code's name in lower case with spaces, e.g. "invalid argument".
const char* status_code_name(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {
    assert(code != StatusCode::kOk);
  }

  static Status ok_status() { return {}; }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // "ok", or the code's name, a colon and the message.
  std::string to_string() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit on purpose: `return value;` and `return status;` both read as what they are.
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    assert(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // The value; only when ok().
  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  // By value, so that `for (x : f().value())` does not dangle.
  T value() && {
    assert(ok());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace paceline
