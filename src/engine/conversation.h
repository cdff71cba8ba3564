// conversation.h: the messages of a chat and the tokens that stand for them.
//
// Generated ids are kept as they were chosen: the next turn's prompt is the tokens so far and the
// ids of what the template puts after them, so that only new tokens are prefilled. Where a template
// rewrites history (drops old reasoning, say), what follows the last answer that it left as it was
// is tokenized anew. Plain state without an Engine. One thread at a time.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "context/chat_template.h"
#include "context/tokenizer.h"
#include "engine/prompt.h"

namespace quire::engine {

class Conversation {
 public:
  struct Message {
    std::string role;
    std::string content;
    std::vector<TokenId> tokens = {};  // of a generated answer, as they were chosen
  };

  /// Both must outlive it.
  Conversation(const context::Tokenizer& tokenizer, const context::ChatTemplate& chat_template);

  const std::vector<Message>& messages() const { return messages_; }
  void add(std::string role, std::string content);
  void add(Message message) { messages_.push_back(std::move(message)); }
  /// Replaces or, for an empty text, removes the leading system message.
  void set_system(std::string content);
  /// Replaces all messages. Answers go on standing for the tokens that were chosen, as long as this
  /// tokenizer reads them as their text. `sent`: what became of request() when it was answered, if
  /// that was not sent as it is.
  using Sent = std::function<context::ChatRequest(context::ChatRequest request)>;
  Result<void> restore(std::vector<Message> messages, const Sent& sent = nullptr);
  /// Forgets messages from `count` on.
  void truncate(size_t count);
  void set_template_kwargs(formats::Json kwargs) { kwargs_ = std::move(kwargs); }

  /// The prompt for an answer to the messages so far.
  Result<Prompt> prompt() const { return prompt_of(request()); }
  /// What prompt() renders.
  context::ChatRequest request() const;
  /// The prompt of what is left of request(): tokens that are known stay as they are.
  Result<Prompt> prompt_of(const context::ChatRequest& request) const;
  /// Notes the answer to `prompt`: its text becomes an assistant message, its tokens are kept.
  void add_answer(const Prompt& prompt, std::string_view text, std::span<const TokenId> tokens);

 private:
  /// Where the tokens so far may be cut: behind an answer that ended by itself, so that the text
  /// after it is tokenized as it would be in one piece.
  struct Cut {
    size_t text_bytes = 0;
    size_t tokens = 0;
  };
  const Cut* last_cut_within(std::string_view text) const;
  std::vector<PromptRun> known_runs(size_t tokens) const;

  const context::Tokenizer* tokenizer_;
  const context::ChatTemplate* template_;
  formats::Json kwargs_;
  std::vector<Message> messages_;
  std::string known_text_;             // what known_tokens_ stand for
  std::vector<TokenId> known_tokens_;  // prompt and answer of the last turn
  std::vector<PromptRun> known_runs_;  // what they are part of
  std::vector<Cut> cuts_;              // ascending; the last is the whole
};

}  // namespace quire::engine
