#include "context/window/whole.h"

#include <fmt/format.h>

#include "context/window/grouping.h"
#include "context/window/raw_cut.h"

namespace quire::context::window {
namespace {

/// One a message, named as plans name them.
std::vector<Part> message_parts(const ChatRequest& request) {
  formats::Json messages = request.messages;
  auto contexts = take_contexts(messages);
  const formats::Json::Array* list = messages.as_array();
  if (list == nullptr || list->empty()) return {};
  // What a caller says of a message is refused where it is acted on; here it only names.
  if (!contexts.ok()) contexts = std::vector<MessageContext>(list->size());
  return group_messages(*list, *contexts).parts;
}

/// The message that a counted part is, of `parts` as they are named.
const Part* message_of(const std::vector<Part>& parts, const std::string& what) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool system = what == "system" && i == 0;
    if (system || what.starts_with(fmt::format("message[{}] ", i))) return &parts[i];
  }
  return nullptr;
}

}  // namespace

Report whole_report(const Limits& limits, const WindowPolicy& policy, const ChatRequest* request,
                    std::span<const CountedPart> parts) {
  Report report;
  report.policy = policy.policy;
  report.limits = limits;
  report.budget = budget_of(limits, policy);
  const std::vector<Part> messages =
      request != nullptr ? message_parts(*request) : std::vector<Part>();
  for (const CountedPart& part : parts) {
    const Part* message = message_of(messages, part.what);
    report.tokens_before += part.tokens;
    report.parts.push_back({.part = message != nullptr ? message->id : part.what,
                            .kind = message != nullptr ? message->kind : PartKind::kTemplate,
                            .before = part.tokens,
                            .after = part.tokens,
                            .action = "kept",
                            .handle = {},
                            .why = {}});
  }
  report.prompt_tokens = report.tokens_before;
  decide_output(policy, report);
  return report;
}

Result<FittedText> fit_text(const Tokenizer& tokenizer, const Limits& limits,
                            const WindowPolicy& policy, std::vector<TokenId> tokens) {
  const CountedPart whole{"text", static_cast<int64_t>(tokens.size())};
  FittedText fitted{std::move(tokens), whole_report(limits, policy, nullptr, {&whole, 1})};
  Report& report = fitted.report;
  if (report.prompt_tokens <= report.budget.usable) return fitted;
  if (policy.policy == Policy::kReject) {
    return reject_error(limits, report.prompt_tokens, report.budget.reserve);
  }
  QUIRE_TRY(fitted.tokens, cut_raw(tokenizer, fitted.tokens, policy.policy, report));
  // What was decided of the answer was decided beside the whole text.
  report.notes.clear();
  report.max_tokens_before.reset();
  decide_output(policy, report);
  return fitted;
}

}  // namespace quire::context::window
