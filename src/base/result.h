// result.h: the value of an operation that can fail for a foreseeable reason, or that reason.
//
// Failures of files, networks, requests and memory are Results; bugs are QUIRE_CHECK; expected
// absences are std::optional. An Error's message is one sentence that names the offending thing and
// says what to do; its code decides the exit code and the HTTP status, each in one table elsewhere.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace quire {

enum class ErrorCode {
  kUsage,        // the caller asked for something impossible: exit 2
  kNotFound,     // a file or name does not exist: exit 3
  kBadFile,      // a file is damaged, truncated or lying: exit 3
  kUnsupported,  // a well-formed file or request that we do not handle: exit 3
  kIo,           // the system refused a read or a write: exit 3
  kDoesNotFit,   // memory or window: exit 4
  kCheckFailed,  // a verification found a difference: exit 5
  kInterrupted,  // the user stopped it: exit 130
  kBusy,         // too many wait already: try again later: exit 3
};

struct Error {
  ErrorCode code;
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  /// Requires ok().
  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  T& operator*() & { return checked(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &value(); }

  /// Requires !ok().
  const Error& error() const& {
    QUIRE_CHECK(!ok(), "error() of a Result that holds a value");
    return std::get<1>(state_);
  }
  Error&& error() && {
    QUIRE_CHECK(!ok(), "error() of a Result that holds a value");
    return std::get<1>(std::move(state_));
  }

 private:
  T& checked() {
    QUIRE_CHECK(ok(), std::get<1>(state_).message.c_str());
    return std::get<0>(state_);
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  /// Requires ok().
  void value() const { QUIRE_CHECK(ok(), error_->message.c_str()); }
  /// Requires !ok().
  const Error& error() const& {
    QUIRE_CHECK(!ok(), "error() of a Result that holds no error");
    return *error_;
  }
  Error&& error() && {
    QUIRE_CHECK(!ok(), "error() of a Result that holds no error");
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

}  // namespace quire

#define QUIRE_CONCAT_INNER(a, b) a##b
#define QUIRE_CONCAT(a, b) QUIRE_CONCAT_INNER(a, b)

/// Evaluates a Result; on failure returns its error from the enclosing function, else declares or
/// assigns `lhs`.
#define QUIRE_TRY(lhs, expr) QUIRE_TRY_INNER(QUIRE_CONCAT(quire_result_, __LINE__), lhs, expr)
#define QUIRE_TRY_INNER(tmp, lhs, expr)         \
  auto tmp = (expr);                            \
  if (!tmp.ok()) return std::move(tmp).error(); \
  lhs = std::move(tmp).value()

/// The same for a Result<void>.
#define QUIRE_TRY_VOID(expr) QUIRE_TRY_VOID_INNER(QUIRE_CONCAT(quire_result_, __LINE__), expr)
#define QUIRE_TRY_VOID_INNER(tmp, expr)           \
  do {                                            \
    auto tmp = (expr);                            \
    if (!tmp.ok()) return std::move(tmp).error(); \
  } while (false)
