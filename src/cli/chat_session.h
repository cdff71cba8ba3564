// chat_session.h: a conversation with a model: turns, their undoing, and what they cost.
//
// Pages live from turn to turn, so that only new tokens are read. A turn that fails leaves the
// conversation as it was. A stored conversation is written when a message was accepted and when its
// answer is complete. No terminal here: text comes in, text goes out through a callback. Use from
// one thread.
#pragma once
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/compaction.h"
#include "cli/environment.h"
#include "cli/output.h"
#include "cli/overflow.h"
#include "cli/session.h"
#include "cli/stored_conversation.h"
#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/generate.h"

namespace quire::cli {

struct ChatOptions {
  ModelOptions model;
  PromptOptions prompt;  // --system, --messages, --template-kwargs, --prefix-file
  GenerationOptions generation;
  SamplingChoice sampling;
  CacheOptions cache;
  ComputeOptions compute;
  OutputOptions output;
  bool hide_reasoning = false;
  std::optional<std::string> conversation;  // the name of a stored one
};

/// What a turn cost.
struct TurnStats {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t new_tokens = 0;
  double prefill_ms = 0.0;
  double decode_tok_s = 0.0;
};

class ChatSession {
 public:
  /// Loads the model; kUsage if it has no chat template. References must outlive it.
  static Result<std::unique_ptr<ChatSession>> start(const Environment& env,
                                                    const ChatOptions& options, Output& output);

  /// Told the prompt before the answer begins, then the answer's text as it comes.
  struct Listener {
    std::function<void(std::string_view prompt)> on_prompt;
    std::function<void(std::string_view text)> on_text;
  };
  /// Answers a message. On an error the conversation is as before; an interrupted answer is kept.
  Result<engine::FinishReason> say(std::string message, const Listener& listener);
  /// Answers the last message anew with the next seed. kUsage if there is none.
  Result<engine::FinishReason> retry(const Listener& listener);

  /// Sends what a compaction left out again: `handle` is "v3", or that of a summary ("s3-12").
  Result<std::string> undo_compaction(const std::string& handle);
  /// Takes back the last message and its answer; returns the message. kUsage if there is none.
  Result<std::string> undo();
  void set_system(std::string text);
  /// Forgets all but the system message.
  void clear();
  /// Stores what could not be stored before, if anything: to be called at the end.
  Result<void> finish();
  Result<void> save(const std::string& file) const;
  Result<void> load(const std::string& file);

  const engine::Model& model() const { return *loaded_.model; }
  std::string stats() const;
  /// How full the window is, part by part, of the last turn's prompt.
  std::string window() const;

  /// What to do with turns that no longer fit; kUsage for a name that is none. "" asks.
  Result<std::string> policy(const std::string& name);
  /// Keeps a message (an index as /window shows them) whatever happens; kUsage if there is none.
  Result<std::string> pin(const std::string& index);
  /// Leaves a message's whole turn out of what the model sees; the conversation keeps it.
  Result<std::string> drop(const std::string& index);

 private:
  ChatSession(const Environment& env, const ChatOptions& options, Output& output,
              LoadedModel loaded, std::unique_ptr<engine::Engine> engine);
  Result<void> prepare();
  Result<void> open_stored(const std::string& name);
  /// Makes the stored conversation equal to this one; complains if that fails.
  void keep();
  Result<engine::FinishReason> answer(const Listener& listener);
  /// What is sent of the conversation, compacted if it is a stored one that no longer fits.
  Result<SeenLog> seen(const GenerationOptions& options, context::window::Summarizer* summarizer);
  /// The prompt of what is seen of the conversation, as the window policy leaves it.
  Result<engine::Prompt> fitted_prompt();
  engine::GenerateOptions generate_options() const;
  /// The message that a command names, if there is one.
  Result<size_t> message_at(std::string_view command, const std::string& index) const;
  /// Pins and drops of messages from `count` on end.
  void forget_marks(size_t count);
  /// Index of the last user message, if there is one.
  std::optional<size_t> last_user_message() const;

  const Environment& env_;
  const ChatOptions& options_;
  Output& output_;
  LoadedModel loaded_;
  std::unique_ptr<engine::Engine> engine_;
  engine::Sequence sequence_;  // after engine_: returns its pages first
  engine::Conversation conversation_;
  std::optional<StoredConversation> stored_;
  std::string prefix_;  // of --prefix-file
  uint64_t seed_ = 0;
  std::optional<context::window::Policy> policy_;
  std::set<size_t> pinned_, dropped_;              // indexes of messages
  std::optional<context::window::Report> report_;  // of the last turn
  std::vector<TurnStats> turns_;
};

}  // namespace quire::cli
