// How a chat shows what a model thinks and says.
#include "cli/shown_answer.h"

#include <gmock/gmock.h>

namespace quire::cli {
namespace {

const ShownAnswer::Tags kTags = std::pair<std::string, std::string>("<think>", "</think>");
constexpr Style kPlain = {};
constexpr Style kDims = {.dim = "[D]", .bold = "[B]", .reset = "[R]"};

std::string shown(const std::string& text, size_t step, const Style& style,
                  Reasoning reasoning = Reasoning::kShown, std::string_view prompt = "") {
  ShownAnswer answer(kTags, prompt, style, reasoning);
  std::string out;
  for (size_t at = 0; at < text.size(); at += step) out += answer.push(text.substr(at, step));
  return out + answer.finish();
}

TEST(ShownAnswer, TellsReasoningFromAnswerInAnyPieces) {
  const std::string text = "<think>\nhm < no\n</think>\n\nyes <thin";
  for (size_t step = 1; step <= text.size(); ++step) {
    EXPECT_EQ(shown(text, step, kPlain), text) << "in pieces of " << step;
    EXPECT_EQ(shown(text, step, kDims), "[D]hm < no[R]\n\nyes <thin") << "in pieces of " << step;
    EXPECT_EQ(shown(text, step, kDims, Reasoning::kHidden), "yes <thin") << step;
  }
}

TEST(ShownAnswer, BeginsInsideWhenThePromptOpenedTheBlock) {
  const std::string_view prompt = "<|assistant|><think>\n";
  EXPECT_EQ(shown("a</think>b", 2, kPlain, Reasoning::kShown, prompt), "a\n</think>\n\nb");
  EXPECT_EQ(shown("a</think>b", 2, kDims, Reasoning::kShown, prompt), "[D]a[R]\n\nb");
  EXPECT_EQ(shown("a</think>b", 2, kPlain, Reasoning::kHidden, prompt), "b");
}

TEST(ShownAnswer, EndsDimmingWhereReasoningIsCutOff) {
  EXPECT_EQ(shown("<think>and so", 3, kDims), "[D]and so[R]");
  EXPECT_EQ(shown("<think>and so", 3, kDims, Reasoning::kHidden), "");
}

TEST(ShownAnswer, LeavesBlanksOfAnAnswerAsTheyAre) {
  EXPECT_EQ(shown(" yes \n\n no\n", 1, kDims), " yes \n\n no\n");
}

TEST(ShownAnswer, HoldsNothingBackWithoutTags) {
  ShownAnswer answer(std::nullopt, "", kPlain, Reasoning::kShown);
  EXPECT_EQ(answer.push("<think>"), "<think>");
}

}  // namespace
}  // namespace quire::cli
