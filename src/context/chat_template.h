// chat_template.h: a conversation becomes the prompt that the model's makers meant.
//
// Wraps our own Jinja (context/jinja) with the environment that Hugging Face gives to chat
// templates and matches its output byte for byte. Every output byte knows where it came from: the
// template, a message, the tools, the documents or the caller's kwargs. A template is untrusted:
// its steps, nesting and output are bounded, and every error is one sentence with a line number.
// Thread rule: a parsed ChatTemplate is immutable; render from any number of threads.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "context/answer_format.h"
#include "formats/json.h"

namespace quire::context {

enum class GenerationPrompt { kOmit, kAdd };

/// Text that goes before a message's content, counted apart from it: a summary, a chunk.
struct Insertion {
  int32_t message = 0;  // index into ChatRequest::messages
  std::string text;     // with the blank line that parts it from what follows
};

/// What a template sees.
struct ChatRequest {
  formats::Json messages;             // array of objects
  formats::Json tools;                // array, or null when there are none
  formats::Json documents;            // array, or null
  formats::Json kwargs;               // object with further variables ("enable_thinking"), or null
  std::vector<Insertion> insertions;  // in the order in which they stand
  GenerationPrompt generation_prompt = GenerationPrompt::kAdd;
  /// Texts of special tokens by variable name: {"bos_token", "<s>"}. Only those the model has.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  /// Local wall-clock time for strftime_now.
  std::chrono::sys_seconds now{};
};

/// Where a range of the prompt came from.
struct PromptSource {
  enum class Kind : uint8_t { kTemplate, kMessage, kTools, kDocuments, kKwargs, kInsertion };
  Kind kind = Kind::kTemplate;
  int32_t message = -1;  // index into ChatRequest::messages, or ::insertions for kInsertion
  std::string role;      // that message's role
  friend bool operator==(const PromptSource&, const PromptSource&) = default;
};

struct PromptSpan {
  size_t begin = 0;  // bytes of RenderedPrompt::text
  size_t end = 0;
  PromptSource source;
  friend bool operator==(const PromptSpan&, const PromptSpan&) = default;
};

struct RenderedPrompt {
  std::string text;
  /// In order, without gaps or overlap, from 0 to text.size(); neighbours differ in source. Text
  /// that is not kTemplate came from outside: special tokens are inert there. A plain role name
  /// ("user") counts as template, since some templates build the control token <|user|> from it.
  std::vector<PromptSpan> spans;
  /// What the adapters changed in the request, one sentence each; empty when nothing.
  std::vector<std::string> adaptations;
  /// The template asked for the date, so the prompt changes with it.
  bool used_clock = false;
};

/// What a template can do, found by rendering small conversations at parse time.
struct TemplateTraits {
  bool system_role = false;        // a system message's text appears
  bool tools = false;              // tool definitions appear
  bool tool_calls = false;         // an assistant's tool call and its result appear
  bool prints_bos = false;         // prints bos_token itself: do not add a second one
  bool generation_prompt = false;  // add_generation_prompt changes the output
  bool uses_clock = false;         // a plain conversation already asks for the date
  /// What follows an assistant's answer, within a conversation and at its end, distinct, longest
  /// first. The first special token of each ends a turn.
  std::vector<std::string> after_answer;
  /// What opens and closes a reasoning block ("<think>", "</think>"), if the template knows one.
  std::optional<std::pair<std::string, std::string>> reasoning_tags;
  /// How an assistant's call of a tool is written; kNone where the template knows no tools.
  ToolCallFormat tool_call_format = ToolCallFormat::kNone;

  /// What an AnswerParser needs to know.
  AnswerFormat answer_format() const { return {reasoning_tags, tool_call_format}; }
};

class ChatTemplate {
 public:
  /// Fails with the line of the first mistake. `special_tokens` as in ChatRequest, for the probes.
  static Result<ChatTemplate> parse(
      std::string_view source,
      std::vector<std::pair<std::string, std::string>> special_tokens = {});

  /// Renders after the adapters: tool-call arguments as an object or as a string, null content as
  /// null or "", the system message folded into the first user message, whichever this template
  /// understands. Fails with the template's own message when it refuses the conversation.
  Result<RenderedPrompt> render(const ChatRequest& request) const;

  /// Renders exactly what Hugging Face renders for the request as it stands.
  Result<RenderedPrompt> render_verbatim(const ChatRequest& request) const;

  const TemplateTraits& traits() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;  // shared: immutable, so copies are cheap and safe
};

/// The machine's local wall-clock time, for ChatRequest::now.
std::chrono::sys_seconds local_wall_clock();

}  // namespace quire::context
