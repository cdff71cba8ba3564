// decompose.h: a request becomes parts and groups, and every token of its prompt belongs to one.
//
// The prompt is rendered once and tokenized once; what the template writes by itself is a part of
// its own, so that the parts sum to the prompt exactly. Pure functions; any thread.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "context/prompt_count.h"
#include "context/window/part.h"
#include "context/window/request.h"

namespace quire::context::window {

/// What turns messages into tokens. Both must outlive whoever holds it.
struct TextModel {
  const Tokenizer& tokenizer;
  const ChatTemplate& chat_template;
};

/// A request taken apart.
struct Anatomy {
  std::vector<Part> parts;    // template, tools, messages in order, chunks in order
  std::vector<Group> groups;  // in order
  std::vector<int32_t> part_of_message;
  std::vector<int32_t> group_of_message;
  std::vector<int32_t> part_of_chunk;
  int32_t question = 0;  // index of its message
  /// More than a message can take with it when it goes: its own tokens and what the template writes
  /// around it.
  std::vector<int64_t> extent_of_message;
  /// Where a message's last token stands, counted from the first token of the conversation.
  std::vector<int64_t> end_of_message;
  CountedPrompt prompt;  // of the request as it came, chunks before the question

  const Part& message_part(int32_t message) const { return parts[part_of_message[message]]; }
  bool pinned(int32_t message) const { return message_part(message).pin; }
};

/// Fails with the template's own message if it refuses the conversation, kUsage if a pin names no
/// part.
Result<Anatomy> take_apart(const TextModel& text, const WindowRequest& request);

/// The chunks before the message `target`.
std::vector<Insertion> chunk_insertions(std::span<const Chunk> chunks, int32_t target);
/// A chunk as it stands in a prompt.
std::string chunk_text(const Chunk& chunk);

}  // namespace quire::context::window
