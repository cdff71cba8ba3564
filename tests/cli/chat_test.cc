// `quire chat` over pipes and on a terminal.
#include <gmock/gmock.h>

#include "cli/run_quire.h"

namespace quire::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> chat(std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"chat", tiny("llama_tied"), "--temp", "0", "-n", "8"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(Chat, ReadsOnlyNewTokensEachTurn) {
  const RunResult result = run_quire(chat(), {.in = "hello\nand again\n/stats\n"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  // Turn 2 reads fewer tokens than its prompt has: turn, prompt, cached, prefilled.
  EXPECT_THAT(result.out, ContainsRegex("1 +[0-9]+ +0 +[0-9]+"));
  EXPECT_THAT(result.out, ContainsRegex("2 +[0-9]+ +[1-9][0-9]+ +[0-9]+"));
}

TEST(Chat, TakesSeveralLinesBetweenThreeQuotes) {
  const std::string file = scratch_path("saved.json");
  const RunResult result =
      run_quire(chat(), {.in = "\"\"\"one\ntwo\nthree\"\"\"\n/save " + file + "\n"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string text = file_content(file);
  EXPECT_THAT(text, HasSubstr("one\\ntwo\\nthree"));
}

TEST(Chat, UndoesRetriesAndEdits) {
  const std::string file = scratch_path("edited.json");
  const RunResult result = run_quire(
      chat({"--system", "brief"}),
      {.in = "first\n/retry\n/edit second\nthird\n/undo\n/save " + file + "\n/clear\n/undo\n"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string text = file_content(file);
  EXPECT_THAT(text, HasSubstr("brief"));
  EXPECT_THAT(text, HasSubstr("second"));
  EXPECT_THAT(text, Not(HasSubstr("first")));
  EXPECT_THAT(text, Not(HasSubstr("third")));
  EXPECT_THAT(result.err, HasSubstr("there is no message to take back"));
}

TEST(Chat, GoesOnWithASavedConversation) {
  const std::string file = scratch_path("again.json");
  run_quire(chat(), {.in = "hello\n/save " + file + "\n"});
  const RunResult direct = run_quire(chat(), {.in = "hello\nmore\n"});
  const RunResult loaded = run_quire(chat({"--messages", file}), {.in = "more\n"});
  ASSERT_EQ(loaded.exit_code, 0) << loaded.err;
  EXPECT_TRUE(direct.out.ends_with(loaded.out)) << direct.out << "\n---\n" << loaded.out;
}

TEST(Chat, RefusesATurnThatDoesNotFitAndKeepsTheConversation) {
  const std::string file = scratch_path("kept.json");
  const std::string large(2000, 'x');
  const RunResult result =
      run_quire(chat(), {.in = "hello\n" + large + "\n/save " + file + "\nstill here\n"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("does not fit"));
  const std::string text = file_content(file);
  EXPECT_THAT(text, HasSubstr("hello"));
  EXPECT_THAT(text, Not(HasSubstr("xxxx")));
}

TEST(Chat, NamesAnUnknownSlashCommand) {
  EXPECT_THAT(run_quire(chat(), {.in = "/frob\n"}).err, HasSubstr("there is no command /frob"));
}

/// Types once the prompt is there: before, the terminal is not the editor's.
void type_at_prompt(TerminalRun& run, std::string_view keys) {
  ASSERT_TRUE(run.wait_for("> ")) << run.screen();
  run.type(keys);
}

TEST(Chat, EditsOnATerminalByGrapheme) {
  const std::string file = scratch_path("typed.json");
  TerminalRun run(chat());
  type_at_prompt(run, "caf日e\xCC\x81\x7f");  // the accented letter goes as a whole
  run.type("\x1b[D\x1b[D\x1b[3~e");           // left over 日 and f; delete f; type e
  run.type("\r");
  ASSERT_TRUE(run.wait_for("[cut off")) << run.screen();
  type_at_prompt(run, "\x1b[200~/frob\rpasted\x1b[201~\r");
  ASSERT_TRUE(run.wait_for("no command /frob")) << run.screen();
  type_at_prompt(run, "/save " + file + "\r");
  ASSERT_TRUE(run.wait_for("saved to")) << run.screen();
  type_at_prompt(run, "\x04");
  EXPECT_EQ(run.exit_code(), 0) << run.screen();
  const std::string text = file_content(file);
  EXPECT_THAT(text, HasSubstr("\"cae日\""));
}

TEST(Chat, RemembersWhatWasTypedBefore) {
  TerminalRun run(chat());
  type_at_prompt(run, "/window\r");
  ASSERT_TRUE(run.wait_for("left (limit: trained)")) << run.screen();
  type_at_prompt(run, "\x1b[A\r");
  EXPECT_TRUE(run.wait_for("left (limit: trained)")) << run.screen();
  type_at_prompt(run, "/exit\r");
  EXPECT_EQ(run.exit_code(), 0);
}

TEST(Chat, TakesWhatWasTypedWhileItAnswered) {
  TerminalRun run({"chat", tiny("llama_tied"), "--temp", "0", "--cache", "none", "-n", "200",
                   "--logit-bias", "67=1000"});
  type_at_prompt(run, "hello\r");
  ASSERT_TRUE(run.wait_for("aaaa")) << run.screen();
  run.type("/window\r");
  EXPECT_TRUE(run.wait_for("left (limit: trained)")) << run.screen();
  type_at_prompt(run, "/exit\r");
  EXPECT_EQ(run.exit_code(), 0);
}

TEST(Chat, CtrlCStopsTheAnswerNotTheProgram) {
  // A bias makes it say "a" up to the window's end, recomputing everything at each step: long
  // enough to be stopped.
  TerminalRun run(
      {"chat", tiny("llama_tied"), "--temp", "0", "--cache", "none", "--logit-bias", "67=1000"});
  type_at_prompt(run, "hello\r");
  ASSERT_TRUE(run.wait_for("aaaa")) << run.screen();
  run.type("\x03");
  ASSERT_TRUE(run.wait_for("[stopped]")) << run.screen();
  type_at_prompt(run, "/stats\r");
  EXPECT_TRUE(run.wait_for("seed 0")) << run.screen();
  type_at_prompt(run, "\x03");
  EXPECT_TRUE(run.wait_for("Ctrl-D or /exit leaves")) << run.screen();
  type_at_prompt(run, "\x04");
  EXPECT_EQ(run.exit_code(), 0);
}

}  // namespace
}  // namespace quire::cli
