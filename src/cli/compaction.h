// compaction.h: what of a stored conversation the model is sent: its log, or a view of it.
//
// The log only grows. When it no longer fits, a plan takes it down to the low watermark, and what
// that leaves is stored as a view beside the log: the next turns, and the next process, go on from
// there and read only what is new. Dropping the view brings the original back. One thread.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/output.h"
#include "cli/stored_conversation.h"
#include "context/window/fit.h"
#include "engine/prompt.h"

namespace quire::cli {

/// A message as it is sent.
struct SeenMessage {
  size_t index = 0;  // of the message in the log
  bool changed = false;
  /// What stands before it in place of messages of the log.
  std::optional<LogView::Item> before;
};

struct SeenLog {
  context::ChatRequest request;
  std::vector<SeenMessage> messages;  // one a message of the request

  /// "history#3" of what is seen, as the number in the log.
  std::string renamed(const std::string& part) const;
  /// Ids of the parts that stand for these messages of the log.
  std::vector<std::string> pins(const std::set<size_t>& pinned) const;
};

/// `log` is the whole conversation; `view` may be null. Messages in `left_out` are not sent.
SeenLog seen_log(context::ChatRequest log, const LogView* view, const std::set<size_t>& left_out);

/// For Conversation::restore(): answers behind the view were asked with it.
engine::Conversation::Sent sent_with(std::optional<LogView> view);

struct StoredWindow {
  StoredConversation& stored;
  context::window::TextModel text;
  context::window::Limits limits;
  context::window::WindowPolicy policy;
  context::window::Summarizer* summarizer = nullptr;  // null: extraction
  std::function<Result<engine::Prompt>(const context::ChatRequest&)> render;
  std::set<size_t> pinned = {}, left_out = {};
  Output& output;
};
/// What is sent of a log that ends with a question; compacts it first if it is too long and the
/// policy says how. A view that cannot be stored is complained of and not used.
Result<SeenLog> seen_of_stored(StoredWindow& window, const context::ChatRequest& log,
                               std::span<const StoredConversation::Message> messages);

}  // namespace quire::cli
