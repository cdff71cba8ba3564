#include "context/window/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "context/window/cut_text.h"
#include "context/window/moving_lines.h"

namespace quire::context::window {
namespace {

using formats::Json;
using Kind = PromptSource::Kind;

SummaryInput summary_input(const Sources& sources, const Draft& draft) {
  SummaryInput input;
  const Json::Array& messages = *sources.request.chat.messages.as_array();
  for (const int32_t g : draft.summarized_groups) {
    for (const int32_t m : sources.anatomy.groups[g].messages) {
      std::string text = content_text(messages[m]).value_or("");
      if (has_tool_calls(messages[m])) text += messages[m].find("tool_calls")->dump();
      input.pieces.push_back(
          {sources.anatomy.message_part(m).id, role_of(messages[m]), std::move(text)});
    }
    input.group_ends.push_back(input.pieces.size());
  }
  return input;
}

struct WrittenSummary {
  std::string text;  // with header; empty: there is none
  Summary summary;
};

/// The summary with its header, at most draft.summary_tokens tokens by itself.
Result<WrittenSummary> write_summary(const Sources& sources, const Draft& draft,
                                     Summarizer* summarizer) {
  WrittenSummary written;
  if (draft.summarized_groups.empty()) return written;
  SummaryInput input = summary_input(sources, draft);
  const std::string head = fmt::format("[Summary of {} earlier messages, lossy, undo {}]\n",
                                       input.pieces.size(), summary_handle(sources, draft));
  const std::string tail = "\n[End of summary]\n\n";
  const Tokenizer& tokenizer = sources.text.tokenizer;
  const int64_t frame = count_text(tokenizer, head) + count_text(tokenizer, tail);
  input.max_tokens = std::max<int64_t>(draft.summary_tokens - frame, 1);
  ExtractiveSummarizer extractive(tokenizer);
  QUIRE_TRY(written.summary, (summarizer != nullptr ? *summarizer : extractive).summarize(input));
  std::string_view body = first_tokens(tokenizer, written.summary.text, input.max_tokens);
  while (!body.empty() && body.back() == '\n') body.remove_suffix(1);
  written.text = head + std::string(body) + tail;
  return written;
}

enum class Examples : uint8_t { kNo, kYes };

/// The strongest thing that was done, in words.
std::string risk_of(Policy policy, const Anatomy& anatomy, const Draft& draft) {
  const auto any = [&](Treatment treatment, Examples which = Examples::kNo) {
    for (size_t m = 0; m < draft.messages.size(); ++m) {
      const bool example = anatomy.message_part(static_cast<int32_t>(m)).kind == PartKind::kFewShot;
      const bool asked = example == (which == Examples::kYes);
      if (asked && draft.messages[m].treatment == treatment) return true;
    }
    return false;
  };
  if (policy == Policy::kTruncateRight) {
    return "the end of the question is missing, where instructions often stand";
  }
  if (any(Treatment::kReplace)) {
    return "of the history only excerpts that share words with the question are seen";
  }
  if (policy == Policy::kHeadTail) return "what was said in the middle is unknown to the model";
  if (any(Treatment::kDrop)) return "goals and facts that only the dropped messages state are gone";
  if (any(Treatment::kSummarize))
    return "details that the summary leaves out are lost to the model";
  if (any(Treatment::kCut)) return "the middle of long texts is missing";
  if (any(Treatment::kMask) || any(Treatment::kSupersede)) {
    return "old tool results are stubs, so the model may call tools again";
  }
  if (any(Treatment::kDrop, Examples::kYes)) {
    return "the answer may take another form without the examples";
  }
  return "what was left out is unknown to the model";
}

std::string why_of(const Part& part, Treatment treatment, const std::string& summary) {
  switch (treatment) {
    case Treatment::kDrop:
      return part.kind == PartKind::kFewShot ? "example" : "oldest first";
    case Treatment::kSummarize:
      return summary + ", lossy";
    case Treatment::kReplace:
      return "excerpts stand before the question";
    case Treatment::kMask:
      return "old tool result";
    case Treatment::kSupersede:
      return "a later call has the same arguments";
    case Treatment::kCut:
      return part.kind == PartKind::kQuestion ? "nothing else was left to cut" : "the largest";
    case Treatment::kKeep:
      break;
  }
  return "";
}

/// What reports call a chunk.
std::string chunk_id(const Sources& sources, int32_t chunk) {
  const size_t excerpts = sources.chunks.size() - sources.anatomy.part_of_chunk.size();
  const bool excerpt = static_cast<size_t>(chunk) < excerpts;
  return excerpt ? fmt::format("excerpt#{}", chunk) : "rag#" + sources.chunks[chunk].id;
}

/// Builds the rows of a report from the prompt that came of a plan.
class Reporter {
 public:
  Reporter(const Planner& planner, const KeepPlan& plan, const Realized& realized,
           const CountedPrompt& prompt)
      : s_(planner.sources()), a_(planner.anatomy()), plan_(plan), realized_(realized) {
    of_part_.assign(a_.parts.size(), 0);
    of_insertion_.assign(realized.chat.insertions.size(), 0);
    for (size_t i = 0; i < prompt.tokens.size(); ++i) count(prompt.source(i));
  }

  std::vector<PartReport> rows(const WrittenSummary& summary) {
    std::vector<PartReport> rows;
    bool summary_shown = false;
    const std::string handle =
        plan_.draft.summarized_groups.empty() ? "" : summary_handle(s_, plan_.draft);
    for (size_t p = 0; p < a_.parts.size(); ++p) {
      const Part& part = a_.parts[p];
      if (part.message) {
        const bool in_summary =
            plan_.draft.messages[*part.message].treatment == Treatment::kSummarize;
        if (in_summary && !summary_shown) rows.push_back(summary_row(handle, summary));
        summary_shown |= in_summary;
        rows.push_back(message_row(part, of_part_[p], handle));
      } else if (part.tokens > 0 || of_part_[p] > 0) {
        if (!is_chunk(p)) rows.push_back(plain_row(part, of_part_[p]));
      }
    }
    add_chunk_rows(rows);
    return rows;
  }

 private:
  void count(const PromptSource& source) {
    switch (source.kind) {
      case Kind::kMessage:
        ++of_part_[a_.part_of_message[realized_.original[source.message]]];
        break;
      case Kind::kInsertion:
        ++of_insertion_[source.message];
        break;
      case Kind::kTools:
        ++of_part_[1];
        break;
      case Kind::kDocuments:
        ++of_part_[2];
        break;
      case Kind::kTemplate:
      case Kind::kKwargs:
        ++of_part_[0];
        break;
    }
  }

  bool is_chunk(size_t part) const {
    return std::ranges::count(a_.part_of_chunk, static_cast<int32_t>(part)) > 0;
  }

  static PartReport plain_row(const Part& part, int64_t after) {
    return {.part = part.id,
            .kind = part.kind,
            .before = part.tokens,
            .after = after,
            .action = part.kind == PartKind::kTemplate ? "kept" : "pinned",
            .handle = {},
            .why = {}};
  }

  PartReport message_row(const Part& part, int64_t after, const std::string& summary) const {
    const Draft::Message& draft = plan_.draft.messages[*part.message];
    PartReport row{.part = part.id,
                   .kind = part.kind,
                   .before = part.tokens,
                   .after = after,
                   .action = std::string(name(draft.treatment)),
                   .handle = {},
                   .why = why_of(part, draft.treatment, summary)};
    if (draft.treatment == Treatment::kKeep) {
      if (part.pin || part.kind == PartKind::kQuestion) row.action = "pinned";
      if (draft.without_thinking) {
        row.action = "thinking_removed";
        row.why = "reasoning of an old answer";
        row.handle = handle_of(a_, *part.message);
      }
    } else {
      row.handle =
          draft.treatment == Treatment::kSummarize ? summary : handle_of(a_, *part.message);
    }
    return row;
  }

  PartReport summary_row(const std::string& handle, const WrittenSummary& summary) const {
    int64_t tokens = 0;
    for (size_t i = 0; i < realized_.inserted.size(); ++i) {
      if (!realized_.inserted[i]) tokens += of_insertion_[i];
    }
    return {.part = "summary",
            .kind = PartKind::kSummary,
            .before = 0,
            .after = tokens,
            .action = "added",
            .handle = handle,
            .why = fmt::format("by {}, lossy: keeps {:.0f} % of the numbers, {:.0f} % of the names",
                               summary.summary.method, 100 * summary.summary.numbers_kept,
                               100 * summary.summary.names_kept)};
  }

  void add_chunk_rows(std::vector<PartReport>& rows) const {
    const size_t excerpts = s_.chunks.size() - a_.part_of_chunk.size();
    for (size_t c = 0; c < s_.chunks.size(); ++c) {
      const Chunk& chunk = s_.chunks[c];
      const bool kept = plan_.draft.chunk_kept[c];
      const bool excerpt = c < excerpts;
      if (excerpt && !kept) continue;  // it was never part of the request
      int64_t after = 0;
      for (size_t i = 0; i < realized_.inserted.size(); ++i) {
        if (realized_.inserted[i] == static_cast<int32_t>(c)) after = of_insertion_[i];
      }
      rows.push_back({.part = chunk_id(s_, static_cast<int32_t>(c)),
                      .kind = PartKind::kRag,
                      .before = excerpt ? 0 : a_.parts[a_.part_of_chunk[c - excerpts]].tokens,
                      .after = after,
                      .action = excerpt ? "added"
                                : kept  ? "kept"
                                        : "dropped",
                      .handle = excerpt || kept ? std::string() : chunk.id,
                      .why = excerpt ? "from " + chunk.source
                             : kept  ? chunk.source
                                     : "scores lowest"});
    }
  }

  const Sources& s_;
  const Anatomy& a_;
  const KeepPlan& plan_;
  const Realized& realized_;
  std::vector<int64_t> of_part_;
  std::vector<int64_t> of_insertion_;
};

Json kept_json(const PartReport& row) {
  Json json;
  json.set("part", row.part);
  json.set("tokens", row.after);
  return json;
}

Json dropped_json(const PartReport& row) {
  Json json;
  json.set("part", row.part);
  json.set("tokens", row.before - row.after);
  json.set("action", row.action);
  if (!row.handle.empty()) json.set("handle", row.handle);
  if (!row.why.empty()) json.set("why", row.why);
  return json;
}

bool is_change(const PartReport& row) {
  return row.action != "kept" && row.action != "pinned" && row.action != "added";
}

}  // namespace

void decide_output(const WindowPolicy& policy, Report& report) {
  report.max_tokens = policy.max_tokens;
  const int64_t left = report.limits.window - report.prompt_tokens;
  if (policy.output != Output::kShrink || !policy.max_tokens || *policy.max_tokens <= left) return;
  report.max_tokens_before = policy.max_tokens;
  report.max_tokens = left;
  report.notes.push_back(fmt::format(
      "max_tokens {} is more than the window has left: lowered to {}", *policy.max_tokens, left));
  if (report.status == KeepPlan::Status::kFits) report.risk = "the answer may be cut off";
}

std::string_view name(KeepPlan::Status status) {
  switch (status) {
    case KeepPlan::Status::kFits:
      return "fits";
    case KeepPlan::Status::kChanged:
      return "changed";
    case KeepPlan::Status::kRefused:
      return "refused";
  }
  return "";
}

std::string Fitted::part_at(int64_t token) const {
  if (token >= prompt.count()) return "the end";
  const PromptSource& source = prompt.source(static_cast<size_t>(token));
  switch (source.kind) {
    case Kind::kMessage:
      return message_ids[source.message];
    case Kind::kInsertion:
      return insertion_ids[source.message];
    case Kind::kTools:
      return "tools";
    case Kind::kDocuments:
      return "documents";
    case Kind::kTemplate:
    case Kind::kKwargs:
      break;
  }
  return "template";
}

Cost cost_of(const Fitted& fitted, std::span<const TokenId> cached) {
  Cost cost;
  cost.reused = common_tokens(cached, fitted.prompt.tokens);
  // The last token's logits are needed, so it is always read.
  cost.reused = std::max<int64_t>(std::min(cost.reused, fitted.prompt.count() - 1), 0);
  cost.reprefilled = fitted.prompt.count() - cost.reused;
  cost.first_divergence = fitted.part_at(common_tokens(cached, fitted.prompt.tokens));
  return cost;
}

Result<Fitted> carry_out(const Planner& planner, const KeepPlan& plan, Summarizer* summarizer) {
  const Sources& sources = planner.sources();
  QUIRE_TRY(WrittenSummary summary, write_summary(sources, plan.draft, summarizer));
  Fitted fitted;
  Realized realized;
  // Tokens may merge otherwise at the seams of what was written: then a little less is said.
  while (true) {
    realized = realize(sources, plan.draft, summary.text);
    QUIRE_TRY(fitted.prompt,
              count_prompt(sources.text.tokenizer, sources.text.chat_template, realized.chat));
    if (fitted.prompt.count() <= plan.budget.usable || summary.text.empty()) break;
    const int64_t most = count_text(sources.text.tokenizer, summary.text) - 16;
    summary.text = std::string(first_tokens(sources.text.tokenizer, summary.text, most));
  }
  Report& report = fitted.report;
  report.status = plan.status;
  report.policy = planner.request().policy.policy;
  report.limits = plan.limits;
  report.budget = plan.budget;
  report.tokens_before = plan.tokens_before;
  report.prompt_tokens = fitted.prompt.count();
  report.parts = Reporter(planner, plan, realized, fitted.prompt).rows(summary);
  report.notes = summary.summary.notes;
  decide_output(planner.request().policy, report);
  if (plan.status == KeepPlan::Status::kChanged) {
    report.step_tokens = plan.step_tokens;
    report.risk = risk_of(report.policy, planner.anatomy(), plan.draft);
  }
  for (const int32_t m : realized.original) {
    fitted.message_ids.push_back(planner.anatomy().message_part(m).id);
  }
  for (const std::optional<int32_t>& chunk : realized.inserted) {
    fitted.insertion_ids.push_back(chunk ? chunk_id(sources, *chunk) : "summary");
  }
  fitted.messages = merged_messages(realized.chat);
  fitted.chat = std::move(realized.chat);
  return fitted;
}

Result<Fitted> fit(const Planner& planner, const Limits& limits, Summarizer* summarizer) {
  const KeepPlan plan = planner.plan(limits);
  if (plan.status == KeepPlan::Status::kRefused) return overflow_error(planner, plan);
  return carry_out(planner, plan, summarizer);
}

Json context_json(const Report& report) {
  const bool changed =
      report.status == KeepPlan::Status::kChanged || report.max_tokens_before.has_value();
  Json json;
  json.set("status", changed ? "changed" : "fits");
  json.set("policy", name(report.policy));
  json.set("limit", report.limits.by);
  json.set("window", report.limits.window);
  json.set("prompt_tokens", report.prompt_tokens);
  json.set("prompt_tokens_before", report.tokens_before);
  // Without a maximum an answer under reject may take all that is left.
  const int64_t open_end = report.policy == Policy::kReject
                               ? report.limits.window - report.prompt_tokens
                               : report.budget.reserve;
  json.set("reserve", std::max(report.budget.reserve, report.max_tokens.value_or(open_end)));
  if (report.max_tokens) json.set("max_tokens", *report.max_tokens);
  if (report.max_tokens_before) json.set("max_tokens_before", *report.max_tokens_before);
  if (changed) json.set("step", report.step_tokens);
  Json kept(Json::Array{}), dropped(Json::Array{});
  for (const PartReport& row : report.parts) {
    if (row.after > 0) kept.push_back(kept_json(row));
    if (is_change(row)) dropped.push_back(dropped_json(row));
  }
  json.set("kept", std::move(kept));
  json.set("dropped", std::move(dropped));
  json.set("risk", report.risk);
  if (!report.notes.empty()) {
    Json notes(Json::Array{});
    for (const std::string& note : report.notes) notes.push_back(note);
    json.set("notes", std::move(notes));
  }
  return json;
}

std::string one_line_of(const Report& report) {
  if (report.status == KeepPlan::Status::kFits) {
    return fmt::format("context: fits ({} of {} tokens, {} left)", report.prompt_tokens,
                       report.limits.window, report.limits.window - report.prompt_tokens);
  }
  const auto count = [&](std::string_view action) {
    return std::ranges::count(report.parts, action, &PartReport::action);
  };
  std::string what;
  for (const std::string_view action :
       {"masked", "superseded", "thinking_removed", "summarized", "replaced", "cut", "dropped"}) {
    const auto times = count(action);
    if (times > 0) what += fmt::format("{}{} {}", what.empty() ? "" : ", ", times, action);
  }
  return fmt::format(
      "context: changed by {}: {} of {} prompt tokens sent, {} reserved; parts: {}; risk: {}",
      name(report.policy), report.prompt_tokens, report.tokens_before, report.budget.reserve, what,
      report.risk);
}

}  // namespace quire::context::window
