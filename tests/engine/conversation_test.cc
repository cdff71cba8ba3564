// A conversation's prompts: what stays known from turn to turn, also where the template rewrites
// it.
#include "engine/conversation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/generate.h"
#include "engine/tiny_models.h"

namespace quire::engine {
namespace {

// Drops the reasoning of all answers but those after the last question, as Qwen3's template does.
constexpr std::string_view kDropsOldReasoning =
    "{%- set ns = namespace(last=0) -%}"
    "{%- for m in messages -%}{%- if m.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- "
    "endif "
    "-%}{%- endfor -%}"
    "{%- for m in messages -%}"
    "{{- '<|im_start|>' + m.role + '\n' -}}"
    "{%- if m.role == 'assistant' and loop.index0 < ns.last and '</think>' in m.content -%}"
    "{{- m.content.split('</think>')[-1] -}}"
    "{%- else -%}{{- m.content -}}{%- endif -%}"
    "{{- '<|im_end|>\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}";

class ConversationTest : public testing::Test {
 protected:
  void SetUp() override {
    model_ = load_or_die(QUIRE_TEST_DATA "/tiny/llama_tied");
    auto parsed = context::ChatTemplate::parse(kDropsOldReasoning);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    template_.emplace(std::move(*parsed));
    conversation_.emplace(model_->tokenizer(), *template_);
    engine_ = engine_or_die(*model_, {});
  }

  std::vector<TokenId> answer_tokens(std::string_view text) {
    std::vector<TokenId> tokens = model_->tokenizer().encode(text, context::Special::kPlain);
    tokens.push_back(model_->tokenizer().find("<|im_end|>").value());
    return tokens;
  }

  /// One turn whose answer is `answer`, computed as if the model had chosen it.
  Reuse turn(std::string_view question, std::string_view answer) {
    conversation_->add("user", std::string(question));
    const Prompt prompt = conversation_->prompt().value();
    Sequence sequence = engine_->create_sequence();
    const Reuse reuse = engine_->resume(sequence, prompt.tokens);
    const auto read = [&](std::span<const TokenId> tokens) {
      ASSERT_TRUE(engine_->append(sequence, tokens).ok());
    };
    read(std::span<const TokenId>(prompt.tokens).subspan(static_cast<size_t>(reuse.cached_tokens)));
    engine_->publish(sequence, PublishPoint::kGoesOn);
    const std::vector<TokenId> tokens = answer_tokens(answer);
    read(std::span(tokens).first(tokens.size() - 1));
    engine_->publish(sequence, PublishPoint::kEnds);
    conversation_->add_answer(prompt, answer, tokens);
    last_prompt_ = prompt;
    return reuse;
  }

  int64_t last_prompt_tokens() const { return static_cast<int64_t>(last_prompt_.tokens.size()); }

  std::unique_ptr<Model> model_;
  std::optional<context::ChatTemplate> template_;
  std::optional<Conversation> conversation_;
  std::unique_ptr<Engine> engine_;
  Prompt last_prompt_;
};

TEST_F(ConversationTest, RunsCoverThePromptAndNameTheMessages) {
  turn("one question", "an answer");
  turn("another question", "more");
  int64_t at = 0;
  for (const PromptRun& run : last_prompt_.runs) {
    EXPECT_EQ(run.begin, at);
    EXPECT_LT(run.begin, run.end);
    at = run.end;
  }
  EXPECT_EQ(at, last_prompt_tokens());
  const auto names = [&](std::string_view what) {
    return std::ranges::count(last_prompt_.runs, what, &PromptRun::what);
  };
  EXPECT_EQ(names("message[0] user"), 1);
  EXPECT_EQ(names("message[1] assistant"), 1);
  EXPECT_EQ(names("message[2] user"), 1);
  EXPECT_EQ(what_at(last_prompt_, last_prompt_tokens()), "");
}

TEST_F(ConversationTest, ReusesTheWholeTurnWhereNothingIsRewritten) {
  turn("one question", "an answer");
  const int64_t before =
      last_prompt_tokens() + static_cast<int64_t>(answer_tokens("an answer").size());
  const Reuse reuse = turn("another question", "more");
  // All but the token that ended the answer had run.
  EXPECT_EQ(reuse.cached_tokens, before - 1);
}

TEST_F(ConversationTest, ReusesAllBeforeTheReasoningThatTheTemplateDrops) {
  turn("one question", "<think>let me see</think>an answer");
  const int64_t first_prompt = last_prompt_tokens();
  const Reuse reuse = turn("another question", "more");
  EXPECT_EQ(reuse.cached_tokens, first_prompt);
  ASSERT_TRUE(reuse.miss.has_value());
  EXPECT_EQ(reuse.miss->reason, kv::MissReason::kTokenDiffers);
  EXPECT_EQ(what_at(last_prompt_, reuse.miss->token_index), "message[1] assistant");
}

TEST_F(ConversationTest, AnswersBeforeARewrittenOneStayAsTheyWereChosen) {
  // Letter by letter, as no tokenizer would: only the ids themselves can be found again.
  const auto& tokenizer = model_->tokenizer();
  conversation_->add("user", "one question");
  const Prompt first = conversation_->prompt().value();
  std::vector<TokenId> letters;
  for (const char* letter : {"t", "h", "e", "t", "h", "e"}) {
    letters.push_back(tokenizer.find(letter).value());
  }
  ASSERT_NE(letters, tokenizer.encode("thethe", context::Special::kPlain));
  letters.push_back(tokenizer.find("<|im_end|>").value());
  conversation_->add_answer(first, "thethe", letters);
  std::vector<TokenId> known = first.tokens;
  known.insert(known.end(), letters.begin(), letters.end());

  turn("another question", "<think>hm</think>more");
  conversation_->add("user", "a third");
  const Prompt third = conversation_->prompt().value();
  ASSERT_GT(third.tokens.size(), known.size());
  EXPECT_TRUE(std::equal(known.begin(), known.end(), third.tokens.begin()));
  // What was rewritten is tokenized as a whole.
  const std::string text = tokenizer.decode(third.tokens, context::SpecialText::kShow);
  EXPECT_EQ(text, third.text);
}

TEST_F(ConversationTest, AQuestionTakenBackLeavesWhatWasBefore) {
  turn("one question", "an answer");
  turn("another question", "more");
  conversation_->truncate(2);
  const int64_t kept = last_prompt_tokens();
  const Reuse reuse = turn("a different question", "else");
  EXPECT_GT(reuse.cached_tokens, 0);
  EXPECT_LT(reuse.cached_tokens, kept);
  ASSERT_TRUE(reuse.miss.has_value());
  EXPECT_EQ(what_at(last_prompt_, reuse.miss->token_index), "message[2] user");
}

TEST_F(ConversationTest, AnEditedFirstMessageIsNamed) {
  turn("one question", "an answer");
  conversation_->truncate(0);
  const Reuse reuse = turn("two questions", "an answer");
  ASSERT_TRUE(reuse.miss.has_value());
  EXPECT_EQ(reuse.miss->reason, kv::MissReason::kTokenDiffers);
  EXPECT_EQ(what_at(last_prompt_, reuse.miss->token_index), "message[0] user");
}

}  // namespace
}  // namespace quire::engine
