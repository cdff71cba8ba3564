#include "context/window/moving_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/byte_size.h"
#include "formats/printable.h"

namespace quire::context::window {
namespace {

constexpr size_t kMostLines = 16;
constexpr size_t kMostLineBytes = 120;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// Whether `text` has `shape` at `at`: 'd' a digit, 'x' a hexadecimal one, else itself.
bool has_shape(std::string_view text, size_t at, std::string_view shape) {
  if (text.size() - at < shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    const char c = text[at + i];
    const bool matches = shape[i] == 'd'   ? is_digit(c)
                         : shape[i] == 'x' ? is_hex(c)
                                           : c == shape[i];
    if (!matches) return false;
  }
  const bool begins = at == 0 || !is_digit(text[at - 1]);
  const size_t end = at + shape.size();
  return begins && (end >= text.size() || !is_digit(text[end]));
}

/// "November 30", "30 Nov".
bool has_month(std::string_view text) {
  constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  for (const std::string_view month : kMonths) {
    for (size_t at = text.find(month); at != std::string_view::npos;
         at = text.find(month, at + 1)) {
      size_t end = at;
      while (end < text.size() && (std::isalpha(static_cast<unsigned char>(text[end])) != 0)) ++end;
      if (end < text.size() && text[end] == '.') ++end;
      const bool after = end + 1 < text.size() && text[end] == ' ' && is_digit(text[end + 1]);
      const bool before = at >= 2 && text[at - 1] == ' ' && is_digit(text[at - 2]);
      if (end - at <= 10 && (after || before)) return true;
    }
  }
  return false;
}

/// First token of a message, in the request as it came; the prompt's end if it shows none.
int64_t first_token_of(const Anatomy& anatomy, int32_t message) {
  const CountedPrompt& prompt = anatomy.prompt;
  for (size_t i = 0; i < prompt.tokens.size(); ++i) {
    const PromptSource& source = prompt.source(i);
    const bool own = source.kind == PromptSource::Kind::kMessage && source.message == message;
    // What stands before the question belongs to its end of the prompt.
    const bool inserted = source.kind == PromptSource::Kind::kInsertion;
    if (own || (inserted && message == anatomy.question)) return static_cast<int64_t>(i);
  }
  return prompt.count();
}

/// First token whose bytes reach beyond `byte`.
int64_t token_at_byte(const CountedPrompt& prompt, size_t byte) {
  const auto found = std::ranges::partition_point(
      prompt.ranges, [&](const ByteRange& range) { return range.end <= byte; });
  return found - prompt.ranges.begin();
}

std::string_view line_around(std::string_view text, size_t byte) {
  const size_t before = byte == 0 ? std::string_view::npos : text.rfind('\n', byte - 1);
  const size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return text.substr(begin, std::min(text.find('\n', begin), text.size()) - begin);
}

std::string shortened(std::string_view line) {
  const std::string shown = formats::printable(line.substr(0, kMostLineBytes));
  return line.size() > kMostLineBytes ? shown + "..." : shown;
}

std::string part_at(const Anatomy& anatomy, int64_t token) {
  if (token >= anatomy.prompt.count()) return "the end";
  const PromptSource& source = anatomy.prompt.source(static_cast<size_t>(token));
  switch (source.kind) {
    case PromptSource::Kind::kMessage:
      return anatomy.message_part(source.message).id;
    case PromptSource::Kind::kInsertion:
      return anatomy.parts[anatomy.part_of_chunk[source.message]].id;
    case PromptSource::Kind::kTools:
      return "tools";
    case PromptSource::Kind::kDocuments:
      return "documents";
    case PromptSource::Kind::kTemplate:
    case PromptSource::Kind::kKwargs:
      break;
  }
  return "template";
}

bool stands_still(const Part& part) {
  return part.stability == Stability::kStatic || part.stability == Stability::kSession;
}

/// Lines of one span of the prompt.
void scan_span(const Anatomy& anatomy, const PromptSpan& span, const std::string& part,
               int64_t question, std::vector<MovingLine>& found) {
  const std::string_view text = std::string_view(anatomy.prompt.rendered.text);
  for (size_t at = span.begin; at < span.end && found.size() < kMostLines;) {
    const size_t end = std::min(text.find('\n', at), span.end);
    const std::string_view line = text.substr(at, end - at);
    const int64_t cost = question - token_at_byte(anatomy.prompt, at);
    if (looks_moving(line) && cost > 0) {
      found.push_back({part, shortened(line), false, cost,
                       "put what changes into the last message, or pin it for the session"});
    }
    at = end + 1;
  }
}

}  // namespace

bool looks_moving(std::string_view line) {
  constexpr std::array<std::string_view, 10> kShapes = {
      "dddd-dd-dd", "dddd/dd/dd",
      "dd.dd.dddd", "dd/dd/dddd",
      "d:dd",       "dd:dd",
      "dd:dd:dd",   "1ddddddddd",
      "dddd年d",    "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"};
  for (size_t at = 0; at < line.size(); ++at) {
    const auto here = [&](std::string_view shape) { return has_shape(line, at, shape); };
    if (std::ranges::any_of(kShapes, here) || here("dddd年dd")) return true;
  }
  return has_month(line);
}

std::vector<MovingLine> lines_that_look_moving(const Planner& planner) {
  const Anatomy& anatomy = planner.anatomy();
  const int64_t question = first_token_of(anatomy, anatomy.question);
  std::vector<MovingLine> found;
  for (const PromptSpan& span : anatomy.prompt.rendered.spans) {
    if (span.source.kind == PromptSource::Kind::kMessage) {
      const Part& part = anatomy.message_part(span.source.message);
      if (stands_still(part)) scan_span(anatomy, span, part.id, question, found);
    } else if (span.source.kind == PromptSource::Kind::kTemplate &&
               anatomy.prompt.rendered.used_clock) {
      scan_span(anatomy, span, "template", question, found);
    }
  }
  return found;
}

int64_t common_tokens(std::span<const TokenId> cached, std::span<const TokenId> now) {
  return std::ranges::mismatch(cached, now).in1 - cached.begin();
}

std::optional<MovingLine> line_that_moved(const Planner& before, const Planner& now) {
  const Anatomy& old = before.anatomy();
  const Anatomy& current = now.anatomy();
  const int64_t same = common_tokens(old.prompt.tokens, current.prompt.tokens);
  // What both hold behind the difference: the old log, as far as its question.
  const int64_t cost =
      std::min(first_token_of(old, old.question), first_token_of(current, current.question)) - same;
  if (cost <= 0) return std::nullopt;
  const size_t byte = current.prompt.ranges[same].begin;
  const PromptSpan& span = current.prompt.rendered.spans[current.prompt.owners[same]];
  const std::string_view own = std::string_view(current.prompt.rendered.text).substr(0, span.end);
  MovingLine moved{part_at(current, same), shortened(line_around(own, byte)), true, cost,
                   "put what changes into the last message"};
  const std::string_view was = line_around(old.prompt.rendered.text, old.prompt.ranges[same].begin);
  if (was.size() >= 8 && current.prompt.rendered.text.find(was, byte) != std::string::npos) {
    moved.advice = fmt::format(
        "'{}' stood here before and has moved on: keep it where it was, and "
        "repeat it in the last message",
        shortened(was));
  }
  return moved;
}

std::string describe(const MovingLine& moving) {
  return fmt::format("{} costs {} tokens of re-prefill each turn: '{}' in {}; {}",
                     moving.observed ? "this line" : "if it changes, this line",
                     format_count(moving.reprefill_tokens), moving.line, moving.part,
                     moving.advice);
}

}  // namespace quire::context::window
