// `quire needles`: planted facts, and what is found of them.
#include <gmock/gmock.h>

#include <set>

#include "cli/needle_report.h"
#include "cli/run_quire.h"

namespace quire::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

int64_t count_words(std::string_view text) {
  return std::ranges::count(text, ' ');
}

NeedleRules rules(std::vector<NeedleTask> tasks) {
  return {.tasks = std::move(tasks), .lengths = {200, 400}, .depths = {0.0, 0.5, 1.0}};
}

const std::vector<NeedleTask> kAllTasks = {NeedleTask::kSingle, NeedleTask::kMulti,
                                           NeedleTask::kKeyValue, NeedleTask::kDistractors,
                                           NeedleTask::kTwoHop};

TEST(NeedleTasks, PlantTheAnswerOnceAndNoWrongAnswerAsTheRightOne) {
  const auto prompts = make_needle_prompts(rules(kAllTasks), count_words).value();
  ASSERT_THAT(prompts, SizeIs(2 * (3 + 4 + 4 + 3 + 3)));
  for (const NeedlePrompt& prompt : prompts) {
    const size_t at = prompt.text.find(prompt.answer);
    ASSERT_NE(at, std::string::npos) << prompt.text;
    EXPECT_EQ(prompt.text.find(prompt.answer, at + 1), std::string::npos);
    EXPECT_LE(count_words(prompt.text), prompt.length);
    EXPECT_GE(count_words(prompt.text), prompt.length - 40);
    const std::set<std::string> others(prompt.others.begin(), prompt.others.end());
    EXPECT_THAT(others, SizeIs(prompt.others.size()));
    EXPECT_FALSE(others.contains(prompt.answer));
  }
}

TEST(NeedleTasks, PlantAtTheDepthThatWasAskedFor) {
  const auto prompts = make_needle_prompts(rules({NeedleTask::kSingle}), count_words).value();
  for (const NeedlePrompt& prompt : prompts) {
    const size_t end = prompt.text.find("\n\nQuestion");
    const double place =
        static_cast<double>(prompt.text.find(prompt.answer)) / static_cast<double>(end);
    EXPECT_NEAR(place, prompt.depth, 0.08);
  }
}

TEST(NeedleTasks, AskNothingThatTheQuestionAnswers) {
  const auto prompts = make_needle_prompts(rules(kAllTasks), count_words).value();
  for (const NeedlePrompt& prompt : prompts) {
    EXPECT_THAT(prompt.text.substr(prompt.text.find("\n\nQuestion")),
                Not(HasSubstr(prompt.answer)));
  }
}

TEST(NeedleTasks, KeepTheTwoFactsOfAHopApart) {
  const auto prompts = make_needle_prompts(rules({NeedleTask::kTwoHop}), count_words).value();
  const NeedlePrompt& prompt = prompts.front();
  const size_t question = prompt.text.find("keeps the key of ");
  const std::string place =
      prompt.text.substr(question + 17, prompt.text.find('?') - question - 17);
  const size_t first = prompt.text.find("The key of " + place);
  const size_t second = prompt.text.find(prompt.answer);
  ASSERT_NE(first, std::string::npos);
  EXPECT_GT(second - first, question / 2);
}

TEST(NeedleTasks, AreMadeFromTheSeedAlone) {
  const auto texts = [](uint64_t seed) {
    NeedleRules with = rules(kAllTasks);
    with.seed = seed;
    std::vector<std::string> out;
    const auto prompts = make_needle_prompts(with, count_words).value();
    for (const NeedlePrompt& prompt : prompts) out.push_back(prompt.text);
    return out;
  };
  EXPECT_EQ(texts(1), texts(1));
  EXPECT_NE(texts(1), texts(2));
}

TEST(NeedleTasks, RefuseALengthWithoutRoom) {
  NeedleRules small = rules({NeedleTask::kKeyValue});
  small.lengths = {64};
  EXPECT_THAT(make_needle_prompts(small, count_words).error().message,
              HasSubstr("no room for the facts of 'kv'"));
}

/// A model that was not trained, whose biggest context is small.
std::vector<std::string> needles(std::vector<std::string> more) {
  std::vector<std::string> args = {"needles", tiny("llama_tied"), "--tasks",
                                   "single",  "--depths",         "0,100"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(Needles, PrintTheSameDocumentTwice) {
  const RunResult once = run_quire(needles({"--json"}));
  ASSERT_EQ(once.exit_code, 0) << once.err;
  EXPECT_EQ(run_quire(needles({"--json", "--threads", "1"})).out, once.out);
}

TEST(Needles, FindTheSameWithEveryLosslessWayOfKeeping) {
  const RunResult result = run_quire(needles({"--json", "--cache", "dynamic,static,none"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const formats::Json json = result.json();
  const auto& results = *at(json, "results").as_array();
  ASSERT_THAT(results, SizeIs(3));
  for (const formats::Json& other : results) {
    EXPECT_EQ(at(other, "trials"), at(results[0], "trials"));
  }
  EXPECT_GT(*at(results[0], "reused_tokens").as_int(), 0)
      << "the second text begins like the first";
}

TEST(Needles, CompareCodecsAndWindowsSideBySide) {
  const std::string svg = scratch_path("needles.svg");
  const RunResult result =
      run_quire(needles({"--kv", "f16,q8", "--cache", "dynamic,sliding:64+4", "--svg", svg}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("dynamic, q8:"));
  EXPECT_THAT(result.out, HasSubstr("sliding:64+4, f16:"));
  EXPECT_THAT(result.out, HasSubstr("answered/told from wrong answers by length"));
  const std::string picture = file_content(svg);
  EXPECT_TRUE(picture.starts_with("<svg")) << picture;
  EXPECT_TRUE(picture.ends_with("</svg>\n"));
  EXPECT_THAT(picture, HasSubstr("sliding:64+4, q8"));
}

TEST(Needles, SayWhenTheContextIsStretched) {
  const RunResult result = run_quire(needles({"--rope-scaling", "yarn:2", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(*at(result.json(), "risk").as_string(), "stretched beyond the trained length");
}

TEST(Needles, RefuseWhatCannotBe) {
  EXPECT_THAT(run_quire(needles({"--tasks", "nine"})).err, HasSubstr("two-hop"));
  EXPECT_EQ(run_quire(needles({"--lengths", "100000000"})).exit_code, 4);
  EXPECT_EQ(run_quire(needles({"--lengths", "64"})).exit_code, 2);
  EXPECT_EQ(run_quire(needles({"--depths", "101"})).exit_code, 2);
  EXPECT_EQ(run_quire(needles({"--cache", "frob"})).exit_code, 2);
  EXPECT_EQ(run_quire(needles({"--temp", "1"})).exit_code, 2);
}

NeedleTrial trial(const NeedlePrompt& prompt, bool answered, bool chosen) {
  NeedleTrial out{.prompt = &prompt, .tokens = 10};
  out.answered = answered;
  out.chosen = chosen;
  out.margin = chosen ? 1.0 : -1.0;
  return out;
}

TEST(NeedleReport, CountsByTaskLengthAndDepth) {
  const NeedlePrompt shallow{.task = NeedleTask::kSingle,
                             .length = 512,
                             .depth = 0.0,
                             .text = "",
                             .answer = "1",
                             .others = {"2"}};
  NeedlePrompt deep = shallow;
  deep.depth = 1.0;
  const NeedleRun run{.trials = {trial(shallow, true, true), trial(deep, false, true),
                                 trial(shallow, false, false)}};
  const auto cells = needle_cells(run);
  ASSERT_THAT(cells, SizeIs(2));
  EXPECT_EQ(cells[0].trials, 2);
  EXPECT_EQ(cells[0].answered, 1);
  EXPECT_EQ(cells[0].chosen, 1);
  EXPECT_DOUBLE_EQ(cells[0].margin_sum, 0.0);
  EXPECT_EQ(cells[1].answered, 0);
  const NeedleReport report{
      .model = "m<&>",
      .window = 1024,
      .rope_scaling = "",
      .rules = {.tasks = {NeedleTask::kSingle}, .lengths = {512}, .depths = {0, 1}},
      .results = {{"dynamic", "f16", run}}};
  EXPECT_THAT(for_people(report), HasSubstr("1 of 3 answered, 2 told"));
  EXPECT_THAT(draw_svg(report), HasSubstr("m&lt;&amp;&gt;"));
}

}  // namespace
}  // namespace quire::cli
