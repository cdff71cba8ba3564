#include "context/window/decompose.h"

#include <fmt/format.h>

#include <algorithm>

#include "context/window/grouping.h"
#include "formats/printable.h"

namespace quire::context::window {
namespace {

using Kind = PromptSource::Kind;

/// Tokens can merge or part where a message goes; never by so many.
constexpr int64_t kSeamTokens = 8;

Part make_part(std::string id, PartKind kind, Stability stability, Trust trust) {
  Part part;
  part.id = std::move(id);
  part.kind = kind;
  part.stability = stability;
  part.trust = trust;
  return part;
}

Part chunk_part(const Chunk& chunk) {
  Part part = make_part("rag#" + chunk.id, PartKind::kRag, Stability::kVolatile, Trust::kDocument);
  part.droppable = true;
  part.retrievable = true;
  return part;
}

/// Index of the part that a source belongs to.
int32_t part_of(const Anatomy& anatomy, const PromptSource& source) {
  switch (source.kind) {
    case Kind::kMessage:
      return anatomy.part_of_message[source.message];
    case Kind::kInsertion:
      return anatomy.part_of_chunk[source.message];
    case Kind::kTools:
      return 1;
    case Kind::kDocuments:
      return 2;
    case Kind::kTemplate:
    case Kind::kKwargs:
      break;
  }
  return 0;
}

/// A run of tokens of one part.
struct Run {
  int32_t part = 0;
  std::optional<int32_t> message;
  int64_t begin = 0;
  int64_t end = 0;
};

std::vector<Run> runs_of(const Anatomy& anatomy) {
  std::vector<Run> runs;
  const CountedPrompt& prompt = anatomy.prompt;
  for (size_t i = 0; i < prompt.tokens.size(); ++i) {
    const int32_t part = part_of(anatomy, prompt.source(i));
    const auto at = static_cast<int64_t>(i);
    if (runs.empty() || runs.back().part != part) {
      runs.push_back({part, anatomy.parts[part].message, at, at});
    }
    runs.back().end = at + 1;
  }
  return runs;
}

void measure(Anatomy& anatomy) {
  const std::vector<Run> runs = runs_of(anatomy);
  const size_t n = anatomy.part_of_message.size();
  anatomy.extent_of_message.assign(n, kSeamTokens);
  anatomy.end_of_message.assign(n, 0);
  for (const Run& run : runs) anatomy.parts[run.part].tokens += run.end - run.begin;
  const int64_t around = anatomy.parts[0].tokens / static_cast<int64_t>(n) + kSeamTokens;
  for (size_t r = 0; r < runs.size(); ++r) {
    if (!runs[r].message) continue;
    int64_t& extent = anatomy.extent_of_message[*runs[r].message];
    extent += runs[r].end - runs[r].begin;
    if (r > 0 && runs[r - 1].part == 0) extent += runs[r - 1].end - runs[r - 1].begin;
    if (r + 1 < runs.size() && runs[r + 1].part == 0) extent += runs[r + 1].end - runs[r + 1].begin;
    anatomy.end_of_message[*runs[r].message] = runs[r].end;
  }
  int64_t end = 0;
  for (size_t m = 0; m < n; ++m) {
    // A message that shows nothing takes along what stands between its neighbours.
    if (anatomy.message_part(static_cast<int32_t>(m)).tokens == 0) {
      anatomy.extent_of_message[m] += 2 * around;
    }
    end = std::max(end, anatomy.end_of_message[m]);
    anatomy.end_of_message[m] = end;
  }
  for (Group& group : anatomy.groups) {
    for (const int32_t m : group.messages) group.tokens += anatomy.message_part(m).tokens;
  }
}

/// Positions count from where the conversation begins, so that they do not move with the lead.
void count_from_conversation(Anatomy& anatomy) {
  int64_t lead = 0;
  for (const Group& group : anatomy.groups) {
    if (group.kind != Group::Kind::kLead && group.kind != Group::Kind::kFewShot) break;
    lead = anatomy.end_of_message[group.messages.back()];
  }
  for (int64_t& end : anatomy.end_of_message) end = std::max<int64_t>(end - lead, 0);
}

Result<void> apply_pins(const std::vector<std::string>& pins, Anatomy& anatomy) {
  for (const std::string& pin : pins) {
    bool found = false;
    for (Part& part : anatomy.parts) {
      if (part.id != pin && !(part.message && std::to_string(*part.message) == pin)) continue;
      found = true;
      part.pin = true;
      if (!part.message) continue;
      Group& group = anatomy.groups[part.group];
      group.droppable = group.summarizable = false;
    }
    if (!found) {
      return Error{ErrorCode::kUsage,
                   fmt::format("context.pin: the request has no part {}", formats::printable(pin))};
    }
  }
  return {};
}

}  // namespace

std::string chunk_text(const Chunk& chunk) {
  if (chunk.source.empty()) return chunk.text + "\n\n";
  return fmt::format("[{}]\n{}\n\n", chunk.source, chunk.text);
}

std::vector<Insertion> chunk_insertions(std::span<const Chunk> chunks, int32_t target) {
  std::vector<Insertion> insertions;
  for (const Chunk& chunk : chunks) insertions.push_back({target, chunk_text(chunk)});
  return insertions;
}

Result<Anatomy> take_apart(const TextModel& text, const WindowRequest& request) {
  Anatomy anatomy;
  Grouping grouping = group_messages(*request.chat.messages.as_array(), request.contexts);
  anatomy.question = grouping.question;
  anatomy.groups = std::move(grouping.groups);
  anatomy.group_of_message = std::move(grouping.group_of_message);
  anatomy.parts = {make_part("template", PartKind::kTemplate, Stability::kStatic, Trust::kOperator),
                   make_part("tools", PartKind::kTools, Stability::kStatic, Trust::kOperator),
                   make_part("documents", PartKind::kRag, Stability::kSession, Trust::kDocument)};
  for (size_t i = 0; i < 3; ++i) anatomy.parts[i].pin = true;
  for (Part& part : grouping.parts) {
    anatomy.part_of_message.push_back(static_cast<int32_t>(anatomy.parts.size()));
    anatomy.parts.push_back(std::move(part));
  }
  for (const Chunk& chunk : request.chunks) {
    anatomy.part_of_chunk.push_back(static_cast<int32_t>(anatomy.parts.size()));
    anatomy.parts.push_back(chunk_part(chunk));
  }
  QUIRE_TRY_VOID(apply_pins(request.policy.pins, anatomy));
  ChatRequest chat = request.chat;
  chat.insertions = chunk_insertions(request.chunks, anatomy.question);
  QUIRE_TRY(anatomy.prompt, count_prompt(text.tokenizer, text.chat_template, chat));
  measure(anatomy);
  count_from_conversation(anatomy);
  return anatomy;
}

}  // namespace quire::context::window
