#include <algorithm>
#include <array>

#include "context/answer_scanner.h"
#include "formats/json.h"

namespace quire::context {
namespace {

using Kind = AnswerEvent::Kind;

constexpr std::string_view kStart = "<|start|>";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kChannel = "<|channel|>";
/// A message ends here; what starts the next one ends it too.
constexpr auto kEnds =
    std::to_array<std::string_view>({"<|end|>", "<|call|>", "<|return|>", kStart});
/// No header is longer: text without one is content.
constexpr size_t kMostHeaderBytes = 512;

/// What follows `key` in a header, up to a blank or a marker.
std::string_view word_after(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = header.substr(at + key.size());
  return rest.substr(0, rest.find_first_of(" \n\r\t<"));
}

/// "functions.NAME" is a tool of the caller's; any other recipient is built in ("python").
ToolCall call_of(std::string_view recipient, std::string_view body) {
  constexpr std::string_view kFunctions = "functions.";
  ToolCall call;
  const bool is_function = recipient.starts_with(kFunctions) && recipient != kFunctions;
  call.name = is_function ? recipient.substr(kFunctions.size()) : recipient;
  const auto json = formats::Json::parse(body, "arguments");
  if (json.ok() && json->is_object()) {
    call.arguments = body;
    return call;
  }
  formats::Json code;
  code.set("code", body);
  call.arguments = code.dump();
  return call;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \n\r\t");
  return first == std::string_view::npos ? std::string_view()
                                         : without_trailing_blanks(text.substr(first));
}

class HarmonyScanner final : public AnswerScanner {
 public:
  explicit HarmonyScanner(std::string_view prompt_tail) {
    const size_t start = prompt_tail.rfind(kStart);
    const size_t message = prompt_tail.rfind(kMessage);
    const bool in_header =
        start != std::string_view::npos && (message == std::string_view::npos || message < start);
    if (in_header || start == std::string_view::npos) return;
    open_message(prompt_tail.substr(start, message - start));
  }

 private:
  bool step() override { return in_message_ ? step_message() : step_header(); }

  void end() override {
    if (in_message_) {
      close_message(held_.size());
    } else if (!held_.starts_with("<|")) {
      emit(Kind::kContent, trimmed(held_));  // a cut header shows nothing
    }
    held_.clear();
  }

  /// Headers consist of markers, the sender, a recipient and the content's type.
  static bool is_header(std::string_view text) {
    const std::string_view first = trimmed(text);
    return text.size() <= kMostHeaderBytes &&
           (first.empty() || first.starts_with("<|") || first.starts_with("to="));
  }

  /// Whether this, which holds no end of a header, may be the beginning of one.
  static bool may_become_header(std::string_view text) {
    const std::string_view first = trimmed(text);
    return text.size() <= kMostHeaderBytes + kMessage.size() &&
           (first.empty() || first.starts_with("<|") || first.starts_with("to=") ||
            std::string_view("<|").starts_with(first) ||
            std::string_view("to=").starts_with(first));
  }

  bool step_header() {
    const size_t at = held_.find(kMessage);
    if (at == std::string::npos && may_become_header(held_)) return false;
    const std::string_view header = std::string_view(held_).substr(0, at);
    if (at != std::string::npos && is_header(header)) {
      open_message(header);
      held_.erase(0, at + kMessage.size());
    } else {
      open_message({});
    }
    return true;
  }

  void open_message(std::string_view header) {
    in_message_ = true;
    recipient_ = word_after(header, "to=");
    kind_ = word_after(header, kChannel) == "analysis" ? Kind::kReasoning : Kind::kContent;
  }

  bool step_message() {
    size_t at = held_.size();
    size_t end_bytes = 0;
    size_t begun = 0;
    for (const std::string_view end : kEnds) {
      const size_t found = held_.find(end);
      if (found < at) {
        at = found;
        end_bytes = end == kStart ? 0 : end.size();
      }
      begun = std::max(begun, begun_marker(held_, end));
    }
    if (at < held_.size()) {
      close_message(at);
      held_.erase(0, end_bytes);
      return true;
    }
    if (recipient_.empty()) emit(kind_, take(held_.size() - begun));
    return false;
  }

  void close_message(size_t bytes) {
    const std::string text = take(bytes);
    if (recipient_.empty()) {
      emit(kind_, text);
    } else {
      emit({call_of(recipient_, trimmed(text))});
    }
    in_message_ = false;
    recipient_.clear();
  }

  bool in_message_ = false;
  std::string recipient_;
  Kind kind_ = Kind::kContent;
};

}  // namespace

std::unique_ptr<AnswerScanner> make_harmony_scanner(std::string_view prompt_tail) {
  return std::make_unique<HarmonyScanner>(prompt_tail);
}

}  // namespace quire::context
