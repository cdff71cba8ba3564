#include "context/chat_renderer.h"

#include <algorithm>
#include <span>

#include "context/jinja/from_json.h"

namespace quire::context {
namespace {

using formats::Json;
using jinja::Dict;
using jinja::Origin;
using jinja::Text;
using jinja::Value;

/// Origins of a request: 0 the template, 1 + i message i, then tools, documents, kwargs,
/// insertions.
struct Origins {
  size_t num_messages;
  Origin message(size_t i) const { return static_cast<Origin>(1 + i); }
  Origin tools() const { return static_cast<Origin>(1 + num_messages); }
  Origin documents() const { return tools() + 1; }
  Origin kwargs() const { return tools() + 2; }
  Origin insertion(size_t i) const { return static_cast<Origin>(kwargs() + 1 + i); }
};

std::string role_of(const Json& message) {
  const Json* role = message.find("role");
  return role != nullptr && role->is_string() ? *role->as_string() : std::string();
}

/// "user", "tool", ...: cannot smuggle a control token, so it may take part in one.
bool is_plain_role(std::string_view role) {
  return !role.empty() && role.size() <= 32 && std::all_of(role.begin(), role.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

Value text_part(Text text, Origin origin) {
  Dict part;
  part.set(Value::string("type"), Value::string("text"));
  part.set(Value::string("text"), Value(std::move(text)));
  return Value(std::make_shared<const Dict>(std::move(part)), origin);
}

/// What goes before a message's content: folded system messages, then insertions, each under its
/// own origin. `content_is_empty`: no blank line after the last system message.
Text text_before(const AdaptedMessage& adapted, std::span<const Insertion> insertions,
                 const Origins& origins, bool content_is_empty) {
  Text inserted;
  for (size_t i = 0; i < insertions.size(); ++i) {
    if (static_cast<size_t>(insertions[i].message) != adapted.index) continue;
    inserted.append(insertions[i].text, origins.insertion(i));
  }
  Text text;
  for (const auto& [index, system] : adapted.folded) {
    text.append(system, origins.message(index));
    text.append("\n\n", jinja::kTemplateOrigin);
  }
  if (!text.empty() && inserted.empty() && content_is_empty) text = text.slice(0, text.size() - 2);
  text.append(inserted);
  return text;
}

/// The content with `text` before it.
Value with_text_before(Text text, const Value& content) {
  if (const Text* own = content.as_text()) {
    text.append(*own);
    return Value(std::move(text));
  }
  const jinja::Sequence* parts = content.as_sequence();
  if (parts == nullptr) return content;
  jinja::Sequence joined = *parts;
  joined.depth = std::max(joined.depth, 2);
  joined.items.insert(joined.items.begin(), text_part(std::move(text), content.origin()));
  return Value(std::make_shared<jinja::Sequence>(std::move(joined)), content.origin());
}

/// A message as Hugging Face passes it: without its null members, `thinking` beside
/// `reasoning_content`.
Result<Value> message_value(const AdaptedMessage& adapted, std::span<const Insertion> insertions,
                            const Origins& origins, bool keeps_null_content) {
  const Origin origin = origins.message(adapted.index);
  const bool plain_role = is_plain_role(role_of(adapted.message));
  Dict dict;
  for (const auto& [key, member] : *adapted.message.as_object()) {
    if (member.is_null() && !(keeps_null_content && key == "content")) continue;
    const bool trusted = key == "role" && plain_role;
    QUIRE_TRY(Value value, jinja::from_json(member, trusted ? jinja::kTemplateOrigin : origin));
    if (key == "content") {
      const bool empty = value.as_text() != nullptr && value.as_text()->empty();
      Text before = text_before(adapted, insertions, origins, empty);
      if (!before.empty()) value = with_text_before(std::move(before), value);
    }
    dict.set(Value(Text(key, origin)), std::move(value));
  }
  const Value* reasoning = dict.find("reasoning_content");
  if (reasoning != nullptr && dict.find("thinking") == nullptr) {
    dict.set(Value::string("thinking"), Value(*reasoning));
  }
  return Value(std::make_shared<const Dict>(std::move(dict)), origin);
}

Result<Value> messages_value(const AdaptedConversation& conversation,
                             std::span<const Insertion> insertions, const Origins& origins) {
  auto list = std::make_shared<jinja::Sequence>();
  for (const AdaptedMessage& adapted : conversation.messages) {
    QUIRE_TRY(Value value,
              message_value(adapted, insertions, origins, conversation.keeps_null_content));
    list->depth = std::max(list->depth, value.depth() + 1);
    list->items.push_back(std::move(value));
  }
  return Value(std::move(list));
}

Result<jinja::Variables> variables_of(const ChatRequest& request,
                                      const AdaptedConversation& conversation,
                                      const Origins& origins) {
  jinja::Variables variables;
  for (const auto& [name, text] : request.special_tokens) {
    variables.emplace_back(name, Value::string(text));
  }
  QUIRE_TRY(Value messages, messages_value(conversation, request.insertions, origins));
  QUIRE_TRY(Value tools, jinja::from_json(request.tools, origins.tools()));
  QUIRE_TRY(Value documents, jinja::from_json(request.documents, origins.documents()));
  variables.emplace_back("messages", std::move(messages));
  variables.emplace_back("tools", std::move(tools));
  variables.emplace_back("documents", std::move(documents));
  variables.emplace_back("add_generation_prompt",
                         Value(request.generation_prompt == GenerationPrompt::kAdd));
  if (const Json::Object* kwargs = request.kwargs.as_object()) {
    for (const auto& [name, json] : *kwargs) {
      QUIRE_TRY(Value value, jinja::from_json(json, origins.kwargs()));
      variables.emplace_back(name, std::move(value));
    }
  }
  return variables;
}

PromptSource source_of(Origin origin, const Origins& origins, const Json& messages) {
  PromptSource source;
  if (origin == jinja::kTemplateOrigin) return source;
  if (origin == origins.tools()) {
    source.kind = PromptSource::Kind::kTools;
  } else if (origin == origins.documents()) {
    source.kind = PromptSource::Kind::kDocuments;
  } else if (origin == origins.kwargs()) {
    source.kind = PromptSource::Kind::kKwargs;
  } else if (origin > origins.kwargs()) {
    source.kind = PromptSource::Kind::kInsertion;
    source.message = static_cast<int32_t>(origin - origins.insertion(0));
  } else {
    source.kind = PromptSource::Kind::kMessage;
    source.message = static_cast<int32_t>(origin - 1);
    source.role = role_of((*messages.as_array())[origin - 1]);
  }
  return source;
}

std::vector<PromptSpan> spans_of(const Text& text, const Origins& origins, const Json& messages) {
  std::vector<PromptSpan> spans;
  size_t begin = 0;
  for (const jinja::OriginRun& run : text.runs()) {
    spans.push_back({begin, run.end, source_of(run.origin, origins, messages)});
    begin = run.end;
  }
  return spans;
}

}  // namespace

Result<RenderedPrompt> render_conversation(const jinja::Template& compiled,
                                           const ChatRequest& request,
                                           const AdaptedConversation& conversation,
                                           const jinja::Limits& limits) {
  const Origins origins{request.messages.as_array()->size()};
  QUIRE_TRY(const jinja::Variables variables, variables_of(request, conversation, origins));
  auto rendered = compiled.render(variables, request.now, limits);
  if (!rendered.ok()) {
    Error error = std::move(rendered).error();
    error.message = "chat template, " + error.message;
    return error;
  }
  RenderedPrompt prompt;
  prompt.text = rendered->text.bytes();
  prompt.spans = spans_of(rendered->text, origins, request.messages);
  prompt.adaptations = conversation.notes;
  prompt.used_clock = rendered->used_clock;
  return prompt;
}

}  // namespace quire::context
