// Summaries: extraction, and a scripted model whose answers are checked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "base/utf8.h"
#include "context/window/cut_text.h"
#include "context/window/map_reduce_summarizer.h"
#include "context/window/window_testing.h"

namespace quire::context::window {
namespace {

using testing::HasSubstr;

SummaryInput input_of(int pieces, int64_t max_tokens) {
  SummaryInput input;
  for (int i = 0; i < pieces; ++i) {
    input.pieces.push_back({"history#" + std::to_string(i), i % 2 == 0 ? "user" : "assistant",
                            "We talked about the weather at length and said nothing much of use. "
                            "Invoice " +
                                std::to_string(4700 + i) + " of Acme was settled by Ms. Okafor."});
    if (i % 2 == 1) input.group_ends.push_back(input.pieces.size());
  }
  input.max_tokens = max_tokens;
  return input;
}

/// Answers what it was told to, and keeps what it was asked.
class Scripted : public TextWriter {
 public:
  Scripted(std::deque<std::string> answers, int64_t most)
      : answers_(std::move(answers)), most_(most) {}

  Result<std::string> write(std::string_view, std::string_view text, int64_t max_tokens) override {
    asked.emplace_back(text);
    limits.push_back(max_tokens);
    if (fails) return *fails;
    std::string answer = answers_.front();
    if (answers_.size() > 1) answers_.pop_front();
    return answer;
  }
  int64_t most_input_tokens() const override { return most_; }

  std::vector<std::string> asked;
  std::vector<int64_t> limits;
  std::optional<Error> fails;

 private:
  std::deque<std::string> answers_;
  int64_t most_;
};

TEST(ExtractiveSummaries, KeepSentencesWithNumbersAndNamesInTheirOrder) {
  ExtractiveSummarizer summarizer(small_tokenizer());
  const SummaryInput input = input_of(4, 150);
  const Summary summary = summarizer.summarize(input).value();
  EXPECT_EQ(summary.method, "extraction");
  EXPECT_LE(count_text(small_tokenizer(), summary.text), 150);
  EXPECT_THAT(summary.text, HasSubstr("user: Invoice 4700 of Acme was settled by Ms. Okafor."));
  EXPECT_GT(summary.numbers_kept, 0.2);
  EXPECT_EQ(summarizer.summarize(input).value().text, summary.text);
}

TEST(ExtractiveSummaries, SayNothingRatherThanTooMuch) {
  ExtractiveSummarizer summarizer(small_tokenizer());
  for (const int64_t most : {1, 5, 40, 1000}) {
    const Summary summary = summarizer.summarize(input_of(6, most)).value();
    EXPECT_LE(count_text(small_tokenizer(), summary.text), most);
  }
  SummaryInput empty = input_of(2, 50);
  for (auto& piece : empty.pieces) piece.text.clear();
  EXPECT_EQ(summarizer.summarize(empty).value().text, "");
}

TEST(ModelSummaries, AreTakenWhenTheyPassTheChecks) {
  Scripted writer({"Invoices 4700 to 4703 of Acme are settled."}, 100000);
  MapReduceSummarizer summarizer(small_tokenizer(), writer);
  const Summary summary = summarizer.summarize(input_of(4, 120)).value();
  EXPECT_EQ(summary.method, "model");
  EXPECT_EQ(summary.text, "Invoices 4700 to 4703 of Acme are settled.");
  EXPECT_TRUE(summary.notes.empty());
  EXPECT_EQ(writer.asked.size(), 1U);
}

TEST(ModelSummaries, ThatWillNotDoGiveWayToExtractionAndSayWhy) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"  \n", "empty"},
      {std::string(2000, 'x'), "too long"},
      {"it is so it is so it is so it is so it is so", "loop"},
  };
  for (const auto& [answer, why] : bad) {
    Scripted writer({answer}, 100000);
    MapReduceSummarizer summarizer(small_tokenizer(), writer);
    const Summary summary = summarizer.summarize(input_of(4, 150)).value();
    EXPECT_EQ(summary.method, "extraction") << why;
    ASSERT_FALSE(summary.notes.empty()) << why;
    EXPECT_THAT(summary.notes.front(), HasSubstr(why));
    EXPECT_THAT(summary.text, HasSubstr("Invoice"));
  }
}

TEST(ModelSummaries, ThatDropTheNumbersAreThrownAway) {
  Scripted writer({"They settled some invoices."}, 100000);
  MapReduceSummarizer summarizer(small_tokenizer(), writer);
  const Summary summary = summarizer.summarize(input_of(24, 400)).value();
  ASSERT_FALSE(summary.notes.empty());
  EXPECT_THAT(summary.notes.front(), HasSubstr("numbers"));
}

TEST(ModelSummaries, ReadWholeGroupsAndReduceUntilItFits) {
  Scripted writer({"Invoice 4700 settled."}, 200);
  MapReduceSummarizer summarizer(small_tokenizer(), writer);
  const SummaryInput input = input_of(8, 60);
  const Summary summary = summarizer.summarize(input).value();
  EXPECT_LE(count_text(small_tokenizer(), summary.text), 60);
  ASSERT_GT(writer.asked.size(), 2U);
  for (size_t i = 0; i < writer.asked.size(); ++i) {
    const int64_t read = count_text(small_tokenizer(), writer.asked[i]);
    EXPECT_LE(writer.limits[i], std::max<int64_t>(read / 4, 1)) << "a quarter of its input at most";
  }
  // The first chunk is whole turns: it does not end within one.
  EXPECT_THAT(writer.asked[0], HasSubstr("Invoice 4701"));
}

TEST(ModelSummaries, WithoutRoomToWriteInStillCompact) {
  Scripted writer({""}, 400);
  writer.fails = Error{ErrorCode::kDoesNotFit, "no room"};
  MapReduceSummarizer summarizer(small_tokenizer(), writer);
  const Summary summary = summarizer.summarize(input_of(4, 150)).value();
  EXPECT_EQ(summary.method, "extraction");
  EXPECT_THAT(summary.notes.front(), HasSubstr("no room"));
  writer.fails = Error{ErrorCode::kInterrupted, ""};
  EXPECT_EQ(summarizer.summarize(input_of(4, 150)).error().code, ErrorCode::kInterrupted);
}

TEST(CutTexts, FallBetweenCharactersAndSayHowMuchIsGone) {
  const std::string text = "缓存缓存缓存缓存 and the end 键值键值键值";
  for (int64_t keep = 1; keep < count_text(small_tokenizer(), text); ++keep) {
    for (const Truncate truncate : {Truncate::kHead, Truncate::kTail, Truncate::kHeadTail}) {
      const std::string cut = cut_text(small_tokenizer(), text, keep, truncate, "h7");
      EXPECT_TRUE(utf8_is_valid(cut)) << cut;
      EXPECT_THAT(cut, HasSubstr("tokens cut here, handle h7"));
    }
  }
  EXPECT_EQ(cut_text(small_tokenizer(), text, 1000, Truncate::kHead, "h7"), text);
}

TEST(FirstTokens, NeverHoldMoreThanTheyMay) {
  const std::string text = "ab缓存 cd键值\n\nef";
  for (int64_t most = 0; most < 40; ++most) {
    const std::string_view first = first_tokens(small_tokenizer(), text, most);
    EXPECT_LE(count_text(small_tokenizer(), first), most);
    EXPECT_TRUE(text.starts_with(first));
    EXPECT_TRUE(utf8_is_valid(first));
  }
}

}  // namespace
}  // namespace quire::context::window
