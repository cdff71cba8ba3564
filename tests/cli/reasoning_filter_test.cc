#include "cli/reasoning_filter.h"

#include <gmock/gmock.h>

namespace quire::cli {
namespace {

using Kind = ReasoningFilter::Piece::Kind;
using Tags = std::pair<std::string, std::string>;

/// Answer, reasoning and tags joined, whatever the pieces.
std::array<std::string, 3> filtered(const std::string& text, size_t step,
                                    std::string_view prompt_tail = "") {
  ReasoningFilter filter(Tags{"<think>", "</think>"}, prompt_tail);
  std::array<std::string, 3> joined;
  const auto add = [&joined](const std::vector<ReasoningFilter::Piece>& pieces) {
    for (const auto& piece : pieces) joined[static_cast<size_t>(piece.kind)] += piece.text;
  };
  for (size_t at = 0; at < text.size(); at += step) add(filter.push(text.substr(at, step)));
  add(filter.finish());
  return joined;
}

TEST(ReasoningFilter, TellsReasoningFromAnswerInAnyPieces) {
  const std::string text = "<think>hm < no</think>yes <thin";
  for (size_t step = 1; step <= text.size(); ++step) {
    EXPECT_EQ(filtered(text, step),
              (std::array<std::string, 3>{"yes <thin", "hm < no", "<think></think>"}))
        << "in pieces of " << step;
  }
}

TEST(ReasoningFilter, BeginsInsideWhenThePromptOpenedTheBlock) {
  EXPECT_EQ(filtered("a</think>b", 2, "<|assistant|><think>\n"),
            (std::array<std::string, 3>{"b", "a", "</think>"}));
}

TEST(ReasoningFilter, HoldsNothingBackWithoutTags) {
  ReasoningFilter filter(std::nullopt, "");
  EXPECT_THAT(filter.push("<think>"),
              ::testing::ElementsAre(ReasoningFilter::Piece{Kind::kAnswer, "<think>"}));
}

}  // namespace
}  // namespace quire::cli
