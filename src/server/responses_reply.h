// responses_reply.h: how /v1/responses answers: the response whole, or as numbered events.
//
// What a stored response's client is told last waits until it is stored: ResponseEnd is that end.
// Sinks live on the I/O thread.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "formats/json.h"
#include "server/answer_sink.h"
#include "server/http.h"
#include "server/serving.h"

namespace quire::server {

/// All that is still to be said. Any thread, once.
struct ResponseEnd {
  std::shared_ptr<HttpExchange> exchange;
  bool stream = false;
  int64_t sequence = 0;    // of the next event
  formats::Json response;  // the reply, whole

  void send() const;
  void fail(const ApiError& error) const;
};

struct ResponsesReplyHead {
  const Backend& backend;
  std::shared_ptr<HttpExchange> exchange;
  std::string id;  // "resp_..."
  bool stream = false;
  std::optional<int64_t> max_tokens;
  formats::Json window_report;  // null: the request said nothing of its window
  formats::Json request_echo;   // what replies repeat of the request
  formats::Json epoch = {};     // which view of a stored conversation was sent; null: the whole
  /// Takes the end of an answer that is complete; empty: it is sent.
  std::function<void(ResponseEnd)> keep;
};

std::unique_ptr<AnswerSink> make_responses_reply(ResponsesReplyHead head);

}  // namespace quire::server
