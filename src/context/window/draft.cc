#include "context/window/draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "context/window/cut_text.h"

namespace quire::context::window {
namespace {

using formats::Json;

constexpr std::array kThinkingKeys = {"reasoning_content", "thinking", "reasoning"};

/// Bytes of the reasoning block, tags included, at the start of a content.
std::optional<ByteRange> thinking_block(const TemplateTraits& traits, std::string_view content) {
  if (!traits.reasoning_tags) return std::nullopt;
  const auto& [opening, closing] = *traits.reasoning_tags;
  const size_t end = content.find(closing);
  if (end == std::string_view::npos) return std::nullopt;
  const size_t begin = content.find(opening);
  const size_t from = begin == std::string_view::npos || begin > end ? 0 : begin;
  return ByteRange{from, end + closing.size()};
}

void remove_thinking(const TemplateTraits& traits, Json& message) {
  std::erase_if(*message.as_object(), [](const Json::Member& member) {
    return std::ranges::count(kThinkingKeys, member.first) > 0;
  });
  const auto content = content_text(message);
  if (!content) return;
  const auto block = thinking_block(traits, *content);
  if (!block) return;
  std::string rest = content->substr(0, block->begin) + content->substr(block->end);
  rest.erase(0, std::min(rest.find_first_not_of("\n"), rest.size()));
  set_content_text(message, std::move(rest));
}

const ToolResult* result_of(const Sources& sources, int32_t message) {
  const auto found = std::ranges::lower_bound(sources.results, message, {}, &ToolResult::message);
  return found == sources.results.end() || found->message != message ? nullptr : &*found;
}

Json treated(const Sources& sources, int32_t index, const Draft::Message& draft) {
  Json message = (*sources.request.chat.messages.as_array())[index];
  if (draft.without_thinking) remove_thinking(sources.text.chat_template.traits(), message);
  switch (draft.treatment) {
    case Treatment::kMask:
    case Treatment::kSupersede:
      set_content_text(message, stub_text(sources, index, draft.treatment));
      break;
    case Treatment::kCut:
      if (const auto content = content_text(message)) {
        set_content_text(message, cut_text(sources.text.tokenizer, *content, draft.keep_tokens,
                                           draft.truncate, handle_of(sources.anatomy, index)));
      }
      break;
    case Treatment::kKeep:
    case Treatment::kDrop:
    case Treatment::kSummarize:
    case Treatment::kReplace:
      break;
  }
  return message;
}

bool takes_insertions(const Json& message) {
  const Json* content = message.find("content");
  return role_of(message) == "user" && content != nullptr &&
         (content->is_string() || content->is_array());
}

/// Index in `chat` of the message that a summary goes before: the first of the user's that is no
/// example; nothing if there is none.
std::optional<int32_t> summary_target(const Sources& sources, const Realized& realized) {
  for (size_t i = 0; i < realized.original.size(); ++i) {
    const PartKind kind = sources.anatomy.message_part(realized.original[i]).kind;
    if (kind != PartKind::kHistory && kind != PartKind::kQuestion) continue;
    if (takes_insertions((*realized.chat.messages.as_array())[i])) return static_cast<int32_t>(i);
  }
  return std::nullopt;
}

/// Index in `chat` of the question.
int32_t question_target(const Sources& sources, const Realized& realized) {
  const auto found = std::ranges::find(realized.original, sources.anatomy.question);
  QUIRE_CHECK(found != realized.original.end(), "the question is never dropped");
  return static_cast<int32_t>(found - realized.original.begin());
}

void prepend(Json& message, const std::string& text) {
  const Json* content = message.find("content");
  if (const Json::Array* parts = content != nullptr ? content->as_array() : nullptr) {
    Json::Array joined = *parts;
    Json part;
    part.set("type", "text");
    part.set("text", text);
    joined.insert(joined.begin(), std::move(part));
    message.set("content", Json(std::move(joined)));
    return;
  }
  const std::string* own = content != nullptr ? content->as_string() : nullptr;
  message.set("content", text + (own != nullptr ? *own : ""));
}

}  // namespace

std::string_view name(Treatment treatment) {
  switch (treatment) {
    case Treatment::kKeep:
      return "kept";
    case Treatment::kDrop:
      return "dropped";
    case Treatment::kSummarize:
      return "summarized";
    case Treatment::kReplace:
      return "replaced";
    case Treatment::kMask:
      return "masked";
    case Treatment::kSupersede:
      return "superseded";
    case Treatment::kCut:
      return "cut";
  }
  return "";
}

Draft untouched(const Sources& sources) {
  Draft draft;
  draft.messages.resize(sources.anatomy.part_of_message.size());
  for (const Chunk& chunk : sources.chunks) draft.chunk_kept.push_back(!chunk.message);
  return draft;
}

std::string handle_of(const Anatomy& anatomy, int32_t message) {
  const Part& part = anatomy.message_part(message);
  if (!part.handle.empty()) return part.handle;
  return fmt::format("{}{}", part.kind == PartKind::kToolResult ? 't' : 'h', message);
}

std::string summary_handle(const Sources& sources, const Draft& draft) {
  QUIRE_CHECK(!draft.summarized_groups.empty(), "a summary of something");
  const Group& first = sources.anatomy.groups[draft.summarized_groups.front()];
  const Group& last = sources.anatomy.groups[draft.summarized_groups.back()];
  return fmt::format("s{}-{}", first.messages.front(), last.messages.back());
}

std::string stub_text(const Sources& sources, int32_t message, Treatment treatment) {
  const ToolResult* result = result_of(sources, message);
  const std::string tool =
      result != nullptr && !result->tool.empty() ? "result of " + result->tool : "tool result";
  const std::string handle = handle_of(sources.anatomy, message);
  if (treatment == Treatment::kSupersede) {
    return fmt::format("[{}: outdated by a later call, handle {}]", tool, handle);
  }
  return fmt::format("[{}: {} tokens left out, handle {}]", tool,
                     sources.anatomy.message_part(message).tokens, handle);
}

std::string thinking_of(const Sources& sources, int32_t message) {
  const Json& json = (*sources.request.chat.messages.as_array())[message];
  if (role_of(json) != "assistant") return "";
  std::string thinking;
  for (const char* key : kThinkingKeys) {
    const Json* member = json.find(key);
    if (member != nullptr && member->is_string()) thinking = *member->as_string();
  }
  const auto content = content_text(json);
  const auto block =
      content ? thinking_block(sources.text.chat_template.traits(), *content) : std::nullopt;
  if (block) thinking = content->substr(block->begin, block->end - block->begin);
  const bool shown = sources.anatomy.prompt.rendered.text.find(thinking) != std::string::npos;
  return shown ? thinking : "";
}

Realized realize(const Sources& sources, const Draft& draft, std::string_view summary) {
  Realized realized;
  realized.chat = sources.request.chat;
  Json::Array messages;
  for (size_t i = 0; i < draft.messages.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    if (!draft.stands(index)) continue;
    messages.push_back(treated(sources, index, draft.messages[i]));
    realized.original.push_back(index);
  }
  realized.chat.messages = Json(std::move(messages));
  if (!summary.empty()) {
    const int32_t target =
        summary_target(sources, realized).value_or(question_target(sources, realized));
    realized.chat.insertions.push_back({target, std::string(summary)});
    realized.inserted.push_back(std::nullopt);
  }
  const int32_t question = question_target(sources, realized);
  for (size_t i = 0; i < sources.chunks.size(); ++i) {
    if (!draft.chunk_kept[i]) continue;
    realized.chat.insertions.push_back({question, chunk_text(sources.chunks[i])});
    realized.inserted.emplace_back(static_cast<int32_t>(i));
  }
  return realized;
}

Json merged_messages(const ChatRequest& chat) {
  Json messages = chat.messages;
  // From the last to the first, so that those before one message keep their order.
  for (auto insertion = chat.insertions.rbegin(); insertion != chat.insertions.rend();
       ++insertion) {
    prepend((*messages.as_array())[insertion->message], insertion->text);
  }
  return messages;
}

}  // namespace quire::context::window
