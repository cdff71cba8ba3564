#include "server/api_error.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace quire::server {
namespace {

using formats::Json;

struct Kind {
  int status;
  const char* type;
  const char* code;  // nullptr: none
};

Kind kind_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
    case ErrorCode::kUnsupported:
      return {400, "invalid_request_error", nullptr};
    case ErrorCode::kNotFound:
      return {404, "invalid_request_error", "not_found"};
    case ErrorCode::kDoesNotFit:
      return {400, "invalid_request_error", "context_length_exceeded"};
    case ErrorCode::kBusy:
      return {429, "rate_limit_error", "queue_full"};
    case ErrorCode::kInterrupted:
      return {503, "server_error", "interrupted"};
    case ErrorCode::kBadFile:
    case ErrorCode::kIo:
    case ErrorCode::kCheckFailed:
      return {500, "server_error", "internal_error"};
  }
  return {500, "server_error", "internal_error"};
}

HttpHeaders headers_of(const ApiError& error) {
  HttpHeaders headers;
  if (error.retry_after_s)
    headers.emplace_back("Retry-After", std::to_string(*error.retry_after_s));
  if (error.status == 401) headers.emplace_back("WWW-Authenticate", "Bearer");
  return headers;
}

}  // namespace

ApiError bad_param(std::string param, std::string message) {
  return {.status = 400,
          .message = std::move(message),
          .param = std::move(param),
          .code = "invalid_value"};
}

ApiError unauthorized() {
  return {.status = 401,
          .message = "Incorrect or missing API key: send it as 'Authorization: Bearer KEY'.",
          .code = "invalid_api_key"};
}

ApiError model_not_found(std::string_view model) {
  return {.status = 404,
          .message = fmt::format("The model '{}' does not exist here; GET /v1/models lists those "
                                 "that do.",
                                 model),
          .param = "model",
          .code = "model_not_found"};
}

ApiError context_exceeded(int64_t window, int64_t prompt, std::optional<int64_t> completion,
                          std::string param) {
  std::string message =
      fmt::format("This model's maximum context length is {} tokens. However, ", window);
  message += completion
                 ? fmt::format(
                       "you requested {} tokens ({} in the prompt, {} in the completion). "
                       "Please reduce the length of the prompt or of the completion.",
                       prompt + *completion, prompt, *completion)
                 : fmt::format("your prompt has {} tokens. Please reduce its length.", prompt);
  return {.status = 400,
          .message = std::move(message),
          .param = std::move(param),
          .code = "context_length_exceeded",
          .n_prompt_tokens = prompt,
          .n_ctx = window};
}

ApiError unavailable(std::string message) {
  return {.status = 503,
          .message = std::move(message),
          .type = "server_error",
          .code = "unavailable",
          .retry_after_s = 2};
}

ApiError not_found(std::string message) {
  return {.status = 404, .message = std::move(message), .code = "not_found"};
}

ApiError no_store() {
  return not_found("This server stores no responses and conversations: it runs with --no-store.");
}

ApiError from_status(int status, std::string message) {
  ApiError error{.status = status, .message = std::move(message)};
  if (status >= 500) error.type = "server_error";
  if (status == 503) error.retry_after_s = 2;
  return error;
}

ApiError from_error(const Error& error) {
  const Kind kind = kind_of(error.code);
  ApiError out{.status = kind.status,
               .message = error.message,
               .type = kind.type,
               .code = kind.code == nullptr ? "" : kind.code};
  if (out.status == 429 || out.status == 503) out.retry_after_s = 1;
  return out;
}

Json to_json(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  Json inner;
  inner.set("message", utf8_sanitized(error.message));
  inner.set("type", error.type);
  inner.set("param", or_null(error.param));
  inner.set("code", or_null(error.code));
  if (error.n_prompt_tokens) inner.set("n_prompt_tokens", *error.n_prompt_tokens);
  if (error.n_ctx) inner.set("n_ctx", *error.n_ctx);
  Json json;
  json.set("error", std::move(inner));
  return json;
}

HttpResponse to_response(const ApiError& error) {
  return {.status = error.status, .body = to_json(error).dump(), .headers = headers_of(error)};
}

HttpResponse to_ollama_response(const ApiError& error) {
  Json json;
  json.set("error", utf8_sanitized(error.message));
  return {.status = error.status, .body = json.dump(), .headers = headers_of(error)};
}

}  // namespace quire::server
