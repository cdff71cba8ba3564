// part.h: what a prompt is made of, and what may be done with each piece of it.
//
// A Part is a message, the template's own text, the tool definitions or an inserted chunk. Parts of
// one group stand and fall together: a turn, or a call with its results. Plain data.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::context::window {

enum class PartKind : uint8_t {
  kTemplate,  // what the template writes by itself
  kTools,
  kSystem,
  kProject,  // a file of instructions that the session shares
  kFewShot,
  kMemory,
  kHistory,
  kToolResult,
  kRag,
  kSummary,
  kState,
  kQuestion,
};

/// How long a part stays as it is. Prompts reuse best when these ascend.
enum class Stability : uint8_t { kStatic, kSession, kLog, kVolatile };

/// Who wrote it.
enum class Trust : uint8_t { kOperator, kUser, kModel, kTool, kDocument };

/// Which end of a part may be kept when it is cut.
enum class Truncate : uint8_t { kNone, kHead, kTail, kHeadTail };

/// "template", "tool_result", ...: as `x_context.kind` spells them.
std::string_view name(PartKind kind);
std::optional<PartKind> part_kind(std::string_view name);
std::string_view name(Stability stability);
std::string_view name(Trust trust);
std::string_view name(Truncate truncate);

/// No group: the template, the tools.
inline constexpr int32_t kNoGroup = -1;

struct Part {
  std::string id;  // "system", "history#3", "tool#8", "rag#2", "question"
  PartKind kind = PartKind::kHistory;
  int32_t group = kNoGroup;
  Stability stability = Stability::kLog;
  Trust trust = Trust::kUser;
  int32_t priority = 0;  // the lowest goes first among few-shots and chunks
  bool pin = false;      // its text is never touched
  bool droppable = false;
  Truncate truncate = Truncate::kNone;
  bool summarizable = false;
  bool retrievable = false;
  int64_t min_tokens = 0;             // a cut leaves at least so many
  std::optional<int64_t> max_tokens;  // kept beyond the window's needs: never more
  int64_t tokens = 0;                 // in the request as it came
  std::string sha;                    // 128 bits of its text, in hexadecimal
  std::string db_ref;                 // where a store keeps the original; may be empty
  std::string handle;                 // by which the original can be asked for again
  std::optional<int32_t> message;     // index into the request's messages
};

/// Parts that are dropped or kept as one, in the order of the request.
struct Group {
  enum class Kind : uint8_t {
    kLead,     // system messages and what else stands before the conversation
    kFewShot,  // an example: question and answer
    kTurn,     // a question and everything up to the next
    kOpen,     // the question that waits for an answer
    kStep,     // after it: a call with its results
  };
  Kind kind = Kind::kTurn;
  std::vector<int32_t> messages;  // ascending
  bool droppable = false;
  bool summarizable = false;
  int32_t priority = 0;
  int64_t tokens = 0;  // of its messages, in the request as it came
};

}  // namespace quire::context::window
