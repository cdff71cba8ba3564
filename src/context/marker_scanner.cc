#include <algorithm>
#include <optional>

#include "context/answer_scanner.h"

namespace quire::context {
namespace {

using Kind = AnswerEvent::Kind;

constexpr std::string_view kBlanks = " \n\r\t";

/// Where a tool call ends.
enum class Ending : uint8_t {
  kMarker,     // at Opener::closer
  kJson,       // with its JSON value
  kAnswerEnd,  // with the answer
};

struct Opener {
  enum class Opens : uint8_t { kReasoning, kCall, kNothing };  // nothing: a marker to drop
  std::string marker;
  Opens opens = Opens::kCall;
  Ending ending = Ending::kMarker;
  std::string closer = {};
  ToolCalls (*read)(std::string_view text) = nullptr;
  size_t kept = 0;        // bytes at the marker's end that belong to the call's text
  bool at_start = false;  // only where no content has come yet
};

std::vector<Opener> call_openers(ToolCallFormat format) {
  using Opens = Opener::Opens;
  switch (format) {
    case ToolCallFormat::kTagged:
      return {{"<tool_call>", Opens::kCall, Ending::kMarker, "</tool_call>", read_tagged_call}};
    case ToolCallFormat::kLlama3:
      return {{"<|python_tag|>", Opens::kCall, Ending::kAnswerEnd, "", read_python_tag},
              {"{", Opens::kCall, Ending::kJson, "", read_json_calls, 1, true}};
    case ToolCallFormat::kMistral:
      return {{"[TOOL_CALLS]", Opens::kCall, Ending::kJson, "", read_mistral_calls}};
    case ToolCallFormat::kDeepSeek:
      return {{"<｜tool▁calls▁begin｜>", Opens::kNothing},
              {"<｜tool▁calls▁end｜>", Opens::kNothing},
              {"<｜tool▁call▁begin｜>", Opens::kCall, Ending::kMarker, "<｜tool▁call▁end｜>",
               read_deepseek_call}};
    case ToolCallFormat::kFunctools:
      return {{"functools[", Opens::kCall, Ending::kJson, "", read_json_calls, 1}};
    case ToolCallFormat::kCommandR:
      return {{"Action:\n```json", Opens::kCall, Ending::kJson, "```", read_json_calls},
              {"Action: ```json", Opens::kCall, Ending::kJson, "```", read_json_calls},
              {"Action:```json", Opens::kCall, Ending::kJson, "```", read_json_calls}};
    case ToolCallFormat::kHarmony:
    case ToolCallFormat::kNone:
      break;
  }
  return {};
}

class MarkerScanner final : public AnswerScanner {
 public:
  MarkerScanner(const AnswerFormat& format, std::string_view prompt_tail)
      : openers_(call_openers(format.tool_calls)) {
    const auto& tags = format.reasoning_tags;
    if (!tags || tags->first.empty() || tags->second.empty()) return;
    openers_.push_back({tags->first, Opener::Opens::kReasoning, Ending::kMarker, tags->second});
    if (without_trailing_blanks(prompt_tail).ends_with(without_trailing_blanks(tags->first))) {
      open_ = openers_.back();
      skips_blanks_ = true;
    }
  }

 private:
  bool step() override {
    if (skips_blanks_ && !skip_blanks()) return false;
    if (!open_) return step_content();
    return open_->opens == Opener::Opens::kReasoning ? step_reasoning() : step_call();
  }

  void end() override {
    if (!open_) {
      if (calls_ == 0 || !held_.empty()) emit(Kind::kContent, blanks_);
      emit(Kind::kContent, held_);
    } else if (open_->opens == Opener::Opens::kReasoning) {
      emit(Kind::kReasoning, without_trailing_blanks(blanks_ + held_));
    } else {
      close_call(held_.size(), 0);
    }
    held_.clear();
    blanks_.clear();
  }

  /// Drops blanks at the start of held_, and what may follow a call. False when there may be more.
  bool skip_blanks() {
    held_.erase(0, std::min(held_.find_first_not_of(skipped_), held_.size()));
    if (held_.empty()) return false;
    if (!trailer_.empty() && held_.starts_with(trailer_)) {
      held_.erase(0, std::exchange(trailer_, {}).size());
      return skip_blanks();
    }
    if (!trailer_.empty() && trailer_.starts_with(held_)) return false;
    trailer_.clear();
    skips_blanks_ = false;
    return true;
  }

  /// Text of one kind up to a place that may still become a marker; blanks before that wait.
  void stream(Kind kind, size_t bytes) {
    blanks_ += take(bytes);
    const size_t solid = without_trailing_blanks(blanks_).size();
    if (solid == 0) return;
    if (kind == Kind::kContent) has_content_ = true;
    emit(kind, std::string_view(blanks_).substr(0, solid));
    blanks_.erase(0, solid);
  }

  bool step_content() {
    const Opener* first = nullptr;
    size_t at = held_.size();
    size_t begun = 0;
    for (const Opener& opener : openers_) {
      if (opener.at_start && !may_start(opener)) continue;
      const size_t found = held_.find(opener.marker);
      if (found < at) {
        at = found;
        first = &opener;
      }
      begun = std::max(begun, begun_marker(held_, opener.marker));
    }
    if (first == nullptr) {
      stream(Kind::kContent, held_.size() - begun);
      return false;
    }
    stream(Kind::kContent, at);
    held_.erase(0, first->marker.size() - first->kept);
    if (first->opens == Opener::Opens::kNothing) {
      blanks_.clear();
      skips_blanks_ = true;
      return true;
    }
    open_ = *first;
    searched_ = 0;
    extent_ = JsonExtent();
    inside_value_ = false;
    before_call_ = std::exchange(blanks_, {});
    skips_blanks_ = open_->opens == Opener::Opens::kReasoning;
    return true;
  }

  /// Only blanks may stand before a call that has no marker.
  bool may_start(const Opener& opener) const {
    if (has_content_) return false;
    const size_t first = held_.find_first_not_of(kBlanks);
    return first == std::string::npos || held_[first] == opener.marker[0];
  }

  bool step_reasoning() {
    const size_t at = held_.find(open_->closer);
    if (at == std::string::npos) {
      stream(Kind::kReasoning, held_.size() - begun_marker(held_, open_->closer));
      return false;
    }
    stream(Kind::kReasoning, at);
    held_.erase(0, open_->closer.size());
    blanks_.clear();
    open_.reset();
    skips_blanks_ = true;
    return true;
  }

  bool step_call() {
    switch (open_->ending) {
      case Ending::kAnswerEnd:
        return false;
      case Ending::kMarker:
        return step_to_closer();
      case Ending::kJson:
        return step_through_json();
    }
    return false;
  }

  bool step_to_closer() {
    size_t at = held_.find(open_->closer, searched_);
    while (at != std::string::npos && ends_in_string(std::string_view(held_).substr(0, at))) {
      at = held_.find(open_->closer, at + 1);
    }
    if (at == std::string::npos) {
      searched_ = held_.size() - begun_marker(held_, open_->closer);
      return false;
    }
    close_call(at, open_->closer.size());
    return true;
  }

  /// A closer inside a JSON string of the call is part of that string.
  static bool ends_in_string(std::string_view text) {
    const size_t start = text.find_first_not_of(" \n\r\t");
    if (start == std::string_view::npos || text[start] != '{') return false;
    JsonExtent extent;
    for (const char c : text.substr(start)) {
      if (extent.feed(c)) return false;
    }
    return extent.in_string();
  }

  bool step_through_json() {
    for (; searched_ < held_.size(); ++searched_) {
      const char c = held_[searched_];
      if (!inside_value_) {
        if (c == '[' && searched_ + 1 == held_.size()) return false;
        // Not the bracket of a marker: "[ARGS]", "[CALL_ID]".
        const bool opens_array =
            c == '[' && !(held_[searched_ + 1] >= 'A' && held_[searched_ + 1] <= 'Z');
        inside_value_ = c == '{' || opens_array;
        if (!inside_value_) continue;
      }
      if (!extent_.feed(c)) continue;
      close_call(searched_ + 1, 0);
      return true;
    }
    return false;
  }

  /// The call's text is the first `bytes` of held_; then its closer.
  void close_call(size_t bytes, size_t closer_bytes) {
    const Opener opener = *std::exchange(open_, std::nullopt);
    const std::string text = take(bytes);
    const std::string closer = take(closer_bytes);
    ToolCalls calls = opener.read(text);
    if (!calls) {
      emit(Kind::kContent, before_call_);
      emit(Kind::kContent, opener.marker.substr(0, opener.marker.size() - opener.kept));
      emit(Kind::kContent, text);
      emit(Kind::kContent, closer);
      has_content_ = true;
      return;
    }
    calls_ += calls->size();
    emit(*std::move(calls));
    if (opener.ending == Ending::kJson) trailer_ = opener.closer;
    if (opener.at_start) skipped_ = " \n\r\t;";  // Llama 3.2 puts a semicolon between calls
    skips_blanks_ = true;
  }

  std::vector<Opener> openers_;
  std::optional<Opener> open_;
  std::string blanks_;       // streamed, but perhaps to be dropped
  std::string before_call_;  // such blanks before the open call
  std::string trailer_;      // may follow the call that was just closed
  std::string_view skipped_ = kBlanks;
  bool skips_blanks_ = false;
  bool has_content_ = false;
  size_t calls_ = 0;
  size_t searched_ = 0;  // bytes of held_ in which the open call does not end
  JsonExtent extent_;
  bool inside_value_ = false;
};

}  // namespace

std::unique_ptr<AnswerScanner> make_marker_scanner(const AnswerFormat& format,
                                                   std::string_view prompt_tail) {
  return std::make_unique<MarkerScanner>(format, prompt_tail);
}

}  // namespace quire::context
