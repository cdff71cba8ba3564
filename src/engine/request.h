// request.h: one answer that somebody waits for, and how they hear of it.
//
// A Request says what to compute and for whom. A RequestListener is told what becomes of it, on the
// engine's thread: it hands over what it hears and returns at once, so that no slow reader ever
// holds up another's tokens.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "engine/generate.h"
#include "engine/token_constraint.h"

namespace quire::engine {

/// Never reused within an engine loop.
struct RequestId {
  int64_t value = -1;
  friend auto operator<=>(const RequestId&, const RequestId&) = default;
};

/// Whose time it may take.
enum class Priority : uint8_t {
  kForeground,
  /// Runs only while no other request does; one that comes waits for a small step at most.
  kBackground,
};

struct Request {
  /// Whose it is: pages are found within a tenant only, and tenants take turns.
  std::string tenant;
  std::string salt;  // keeps its pages from other requests of the tenant; usually empty
  std::vector<TokenId> prompt;
  GenerateOptions options;
  std::unique_ptr<TokenConstraint> constraint;  // null: anything may be said
  PrefixReuse reuse = PrefixReuse::kOn;         // off: computes all of the prompt
  Priority priority = Priority::kForeground;
};

/// What one token added to an answer.
struct TokenEvent {
  TokenId token;
  std::string_view text;             // whole characters that no stop string can claim; may be empty
  const GeneratedLogprob* logprobs;  // null unless asked for
};

/// Everything is called on the engine's thread, in this order, and nothing after on_done().
class RequestListener {
 public:
  virtual ~RequestListener() = default;
  /// It leaves the queue. Again after a preemption, with the first time's reuse, but never after
  /// the first token.
  virtual void on_start(const Reuse& reuse) = 0;
  /// Tokens of the prompt that are there, those found in the cache included.
  virtual void on_prefill(int64_t done, int64_t total) = 0;
  virtual void on_token(const TokenEvent& event) = 0;
  /// Once, whatever happens. After cancel() it holds what there was, finish kInterrupted.
  virtual void on_done(Result<Generated> answer) = 0;
};

}  // namespace quire::engine
