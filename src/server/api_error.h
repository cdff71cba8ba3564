// api_error.h: what a client is told when a request cannot be answered: the one table.
//
// Shapes are OpenAI's ({"error": {"message", "type", "param", "code"}}); other APIs print the same
// error in theirs. Plain values and pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "formats/json.h"
#include "server/http.h"

namespace quire::server {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;  // empty: null
  std::string code;   // empty: null
  std::optional<int64_t> n_prompt_tokens;
  std::optional<int64_t> n_ctx;
  std::optional<int64_t> retry_after_s;
};

/// A value, or why the client cannot have it.
template <class T>
class [[nodiscard]] ApiResult {
 public:
  ApiResult(T value) : value_(std::move(value)) {}
  ApiResult(ApiError error) : error_(std::move(error)) {}

  bool ok() const { return value_.has_value(); }
  T& value() { return *value_; }
  T& operator*() { return *value_; }
  T* operator->() { return &*value_; }
  const ApiError& error() const { return *error_; }

 private:
  std::optional<T> value_;
  std::optional<ApiError> error_;
};

ApiError bad_param(std::string param, std::string message);
ApiError unauthorized();
ApiError model_not_found(std::string_view model);
/// Clients look for its text.
ApiError context_exceeded(int64_t window, int64_t prompt, std::optional<int64_t> completion,
                          std::string param);
ApiError unavailable(std::string message);  // 503: loading or stopping
ApiError not_found(std::string message);
ApiError no_store();  // --no-store
ApiError from_status(int status, std::string message);
/// What the engine refused or failed at.
ApiError from_error(const Error& error);

formats::Json to_json(const ApiError& error);
HttpResponse to_response(const ApiError& error);
/// {"error": "sentence"}, as Ollama has it.
HttpResponse to_ollama_response(const ApiError& error);

}  // namespace quire::server
