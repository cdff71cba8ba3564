// stored_turn.h: one turn of a stored conversation, for `run --conversation`.
//
// The question is stored before it is answered and the answer when it is whole, so that a crash
// loses no more than the answer. Use from one thread.
#pragma once
#include <memory>

#include "cli/environment.h"
#include "cli/output.h"
#include "cli/run_options.h"
#include "cli/session.h"
#include "cli/stored_conversation.h"
#include "context/window/summarizer.h"
#include "engine/conversation.h"
#include "engine/generate.h"
#include "formats/json.h"

namespace quire::cli {

/// kUsage for options that cannot go with --conversation.
Result<void> check_turn_options(const RunOptions& options);

class StoredTurn {
 public:
  /// Reads the question and what the conversation holds. References must outlive it.
  static Result<std::unique_ptr<StoredTurn>> begin(const Environment& env, const std::string& name,
                                                   const PromptOptions& prompt,
                                                   const LoadedModel& loaded, Output& output);

  /// Of the conversation, or of what compaction leaves of it.
  Result<engine::Prompt> prompt(const engine::Engine& engine, const GenerationOptions& options,
                                context::window::Summarizer* summarizer, Output& output);
  /// Of what a window policy leaves of the conversation.
  Result<engine::Prompt> prompt_of(const context::ChatRequest& request) const {
    return conversation_.prompt_of(request);
  }
  Result<void> keep_question();
  Result<void> keep_answer(const engine::Prompt& prompt, const engine::Generated& generated);
  /// {name, id, message}: the id of the last message.
  formats::Json to_json() const;

 private:
  StoredTurn(StoredConversation stored, const engine::Model& model)
      : stored_(std::move(stored)), conversation_(model.tokenizer(), *model.chat_template()) {}
  Result<void> add_question(const Environment& env, PromptOptions options, Output& output);

  StoredConversation stored_;
  engine::Conversation conversation_;
};

}  // namespace quire::cli
