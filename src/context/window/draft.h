// draft.h: what a plan makes of each message, and the request that comes of it.
//
// A Draft says of every message whether it is kept, and how; realize() builds the messages. Plain
// data and pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "context/window/decompose.h"
#include "context/window/request.h"
#include "context/window/tool_results.h"

namespace quire::context::window {

enum class Treatment : uint8_t {
  kKeep,
  kDrop,
  kSummarize,  // stands in the summary
  kReplace,    // excerpts of it may stand before the question
  kMask,       // a stub stands for it
  kSupersede,  // a stub says that a later result counts
  kCut,
};

/// "kept", "dropped", "summarized", "replaced", "masked", "superseded", "cut".
std::string_view name(Treatment treatment);

struct Draft {
  struct Message {
    Treatment treatment = Treatment::kKeep;
    bool without_thinking = false;
    int64_t keep_tokens = 0;  // for kCut
    Truncate truncate = Truncate::kNone;
  };
  std::vector<Message> messages;
  std::vector<bool> chunk_kept;            // of Sources::chunks
  std::vector<int32_t> summarized_groups;  // ascending
  int64_t summarized_tokens = 0;           // of those groups
  int64_t summary_tokens = 0;              // room reserved for the summary; 0: there is none

  /// Whether the message stands in the prompt, whole or not.
  bool stands(int32_t message) const {
    const Treatment t = messages[message].treatment;
    return t != Treatment::kDrop && t != Treatment::kSummarize && t != Treatment::kReplace;
  }
};

/// What drafts of one request are made from. Refers to request and anatomy: keep them.
struct Sources {
  TextModel text;
  const WindowRequest& request;
  const Anatomy& anatomy;
  std::vector<Chunk> chunks;  // excerpts from the history, then those of the request
  std::vector<ToolResult> results;
};

/// Everything kept, but for excerpts from the history.
Draft untouched(const Sources& sources);

/// Where a message's original can be asked for again: what the caller calls it, else "t8" for the
/// result in messages[8], "h3" for any other message.
std::string handle_of(const Anatomy& anatomy, int32_t message);
/// The handle of what a summary stands for: "s3-9".
std::string summary_handle(const Sources& sources, const Draft& draft);

/// What stands for a tool result that is masked or superseded.
std::string stub_text(const Sources& sources, int32_t message, Treatment treatment);

/// The reasoning that an assistant's message shows in the prompt; "" if none.
std::string thinking_of(const Sources& sources, int32_t message);

/// A request as a draft has it, and where each of its messages came from.
struct Realized {
  ChatRequest chat;
  std::vector<int32_t> original;  // one a message: its index in the request
  /// One an insertion: index into Sources::chunks; absent: the summary.
  std::vector<std::optional<int32_t>> inserted;
};
/// `summary`: its text, with header; empty leaves it out.
Realized realize(const Sources& sources, const Draft& draft, std::string_view summary);

/// The messages with the insertions in their contents: what is sent.
formats::Json merged_messages(const ChatRequest& chat);

}  // namespace quire::context::window
