#include "context/window/task_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "context/window/moving_lines.h"
#include "formats/printable.h"

namespace quire::context::window {
namespace {

using formats::Json;

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

Result<void> read_list(const Json& value, const std::string& field,
                       std::vector<std::string>& list) {
  const Json::Array* entries = value.as_array();
  if (entries == nullptr) return usage(field + " must be an array of texts");
  for (const Json& entry : *entries) {
    if (!entry.is_string()) return usage(field + " must be an array of texts");
    list.push_back(*entry.as_string());
  }
  return {};
}

Result<void> read_facts(const Json& value, const std::string& field,
                        std::vector<TaskState::Fact>& facts) {
  const Json::Array* entries = value.as_array();
  if (entries == nullptr) return usage(field + " must be an array");
  for (const Json& entry : *entries) {
    if (const std::string* text = entry.as_string()) {
      facts.push_back({*text, ""});
      continue;
    }
    const Json* text = entry.find("text");
    const Json* source = entry.find("src");
    if (text == nullptr || !text->is_string() || (source != nullptr && !source->is_string())) {
      return usage(field + " must hold texts or {text, src}");
    }
    facts.push_back({*text->as_string(), source != nullptr ? *source->as_string() : ""});
  }
  return {};
}

void add_list(std::string& out, std::string_view title, const std::vector<std::string>& list) {
  if (list.empty()) return;
  out += fmt::format("{}:\n", title);
  for (const std::string& entry : list) out += fmt::format("- {}\n", entry);
}

bool is_lead(const Group& group) {
  return group.kind == Group::Kind::kLead || group.kind == Group::Kind::kFewShot;
}

/// The last message is a question that nobody has answered.
bool question_waits(const Anatomy& anatomy) {
  return anatomy.question + 1 == static_cast<int32_t>(anatomy.part_of_message.size());
}

/// Tokens of the request up to where its conversation begins.
int64_t lead_tokens(const Anatomy& anatomy, const std::vector<int32_t>& lead) {
  int64_t end = 0;
  for (size_t i = 0; i < anatomy.prompt.tokens.size(); ++i) {
    const PromptSource& source = anatomy.prompt.source(i);
    const bool tools = source.kind == PromptSource::Kind::kTools;
    const bool own =
        source.kind == PromptSource::Kind::kMessage && std::ranges::count(lead, source.message) > 0;
    if (tools || own) end = static_cast<int64_t>(i) + 1;
  }
  return end;
}

/// Whether the user may speak next.
bool user_may_follow(const ChatTemplate& chat_template, ChatRequest chat) {
  Json next;
  next.set("role", "user");
  next.set("content", "?");
  chat.messages.push_back(std::move(next));
  return chat_template.render(chat).ok();
}

/// The rebuilt request; `original` receives the old index of each message, -1 for new ones.
ChatRequest rebuild(const Planner& planner, const std::string& state,
                    std::vector<int32_t>& original) {
  const Anatomy& anatomy = planner.anatomy();
  const Json::Array& messages = *planner.request().chat.messages.as_array();
  ChatRequest chat = planner.request().chat;
  chat.messages = Json(Json::Array{});
  for (const Group& group : anatomy.groups) {
    if (!is_lead(group)) break;
    for (const int32_t m : group.messages) {
      chat.messages.push_back(messages[m]);
      original.push_back(m);
    }
  }
  if (question_waits(anatomy)) {
    chat.messages.push_back(messages[anatomy.question]);
    original.push_back(anatomy.question);
    chat.insertions.push_back({static_cast<int32_t>(original.size()) - 1, state});
    return chat;
  }
  Json message;
  message.set("role", "user");
  message.set("content", state);
  chat.messages.push_back(std::move(message));
  original.push_back(-1);
  if (!user_may_follow(planner.sources().text.chat_template, chat)) {
    Json answer;
    answer.set("role", "assistant");
    answer.set("content", "Noted.");
    chat.messages.push_back(std::move(answer));
    original.push_back(-1);
    chat.generation_prompt = GenerationPrompt::kOmit;
  }
  return chat;
}

void report_parts(const Anatomy& anatomy, const std::vector<int32_t>& original, Fitted& fitted) {
  std::vector<int64_t> of_part(anatomy.parts.size(), 0);
  int64_t of_state = 0;
  for (size_t i = 0; i < fitted.prompt.tokens.size(); ++i) {
    const PromptSource& source = fitted.prompt.source(i);
    const bool message = source.kind == PromptSource::Kind::kMessage;
    const int32_t old = message ? original[source.message] : -1;
    if (old >= 0) {
      ++of_part[anatomy.part_of_message[old]];
    } else if (message || source.kind == PromptSource::Kind::kInsertion) {
      ++of_state;
    } else {
      ++of_part[source.kind == PromptSource::Kind::kTools       ? 1
                : source.kind == PromptSource::Kind::kDocuments ? 2
                                                                : 0];
    }
  }
  std::vector<PartReport>& rows = fitted.report.parts;
  for (size_t p = 0; p < anatomy.parts.size(); ++p) {
    const Part& part = anatomy.parts[p];
    const bool stands = !part.message || std::ranges::count(original, *part.message) > 0;
    if (part.tokens == 0 && of_part[p] == 0) continue;
    PartReport row{.part = part.id, .kind = part.kind, .before = part.tokens, .after = of_part[p]};
    row.action = stands ? "kept" : "distilled";
    if (!stands) row.handle = handle_of(anatomy, *part.message);
    rows.push_back(std::move(row));
  }
  rows.push_back({.part = "state",
                  .kind = PartKind::kState,
                  .before = 0,
                  .after = of_state,
                  .action = "added",
                  .handle = {},
                  .why = "in place of the log"});
}

}  // namespace

Result<TaskState> read_task_state(const Json& document, const std::string& what) {
  TaskState state;
  const Json::Object* members = document.as_object();
  if (members == nullptr) return usage(what + " must be an object");
  for (const auto& [key, value] : *members) {
    const std::string field = what + ": " + formats::printable(key);
    if (key == "decisions") {
      QUIRE_TRY_VOID(read_list(value, field, state.decisions));
    } else if (key == "done") {
      QUIRE_TRY_VOID(read_list(value, field, state.done));
    } else if (key == "open") {
      QUIRE_TRY_VOID(read_list(value, field, state.open));
    } else if (key == "facts") {
      QUIRE_TRY_VOID(read_facts(value, field, state.facts));
    } else {
      return usage(field + " is no field; there are decisions, done, open and facts");
    }
  }
  if (state_text(state) == state_text({})) {
    return usage(what + " holds no decisions, done, open or facts: nothing would be left");
  }
  return state;
}

std::string state_text(const TaskState& state) {
  std::string out = "[State of the finished task]\n";
  add_list(out, "Decisions", state.decisions);
  add_list(out, "Done", state.done);
  add_list(out, "Open", state.open);
  if (!state.facts.empty()) out += "Facts:\n";
  for (const TaskState::Fact& fact : state.facts) {
    out += fact.source.empty() ? fmt::format("- {}\n", fact.text)
                               : fmt::format("- {} ({})\n", fact.text, fact.source);
  }
  return out + "[End of state]\n\n";
}

Result<Rebuilt> replace_log(const Planner& planner, const TaskState& state, const Limits& limits) {
  const Anatomy& anatomy = planner.anatomy();
  const TextModel& text = planner.sources().text;
  Rebuilt rebuilt;
  std::vector<int32_t> original;
  Fitted& fitted = rebuilt.fitted;
  fitted.chat = rebuild(planner, state_text(state), original);
  QUIRE_TRY(fitted.prompt, count_prompt(text.tokenizer, text.chat_template, fitted.chat));
  fitted.messages = merged_messages(fitted.chat);
  for (const int32_t old : original) {
    fitted.message_ids.push_back(old < 0 ? "state" : anatomy.message_part(old).id);
  }
  fitted.insertion_ids.assign(fitted.chat.insertions.size(), "state");
  Report& report = fitted.report;
  report.status = KeepPlan::Status::kChanged;
  report.policy = planner.request().policy.policy;
  report.limits = limits;
  report.budget = budget_of(limits, planner.request().policy);
  report.tokens_before = anatomy.prompt.count();
  report.prompt_tokens = fitted.prompt.count();
  report.risk = "what the state does not say of the task is unknown to the model";
  report_parts(anatomy, original, fitted);
  std::vector<int32_t> lead;
  for (const Group& group : anatomy.groups) {
    if (!is_lead(group)) break;
    lead.insert(lead.end(), group.messages.begin(), group.messages.end());
  }
  rebuilt.static_prefix_identical =
      common_tokens(anatomy.prompt.tokens, fitted.prompt.tokens) >= lead_tokens(anatomy, lead);
  return rebuilt;
}

std::string describe_saving(const Rebuilt& rebuilt, int64_t reprefill_tokens) {
  const Report& report = rebuilt.fitted.report;
  const int64_t saved = report.tokens_before - report.prompt_tokens;
  if (saved <= 0) {
    return fmt::format("the state is no shorter than the log: {} tokens now, {} before",
                       format_count(report.prompt_tokens), format_count(report.tokens_before));
  }
  return fmt::format(
      "the rebuild reads {} tokens once; each new token then attends to {} tokens fewer, and their "
      "keys and values are free; static prefix {}",
      format_count(reprefill_tokens), format_count(saved),
      rebuilt.static_prefix_identical ? "byte-identical" : "CHANGED");
}

}  // namespace quire::context::window
