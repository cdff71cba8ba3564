// Stored conversations: `chat --conversation`, `run --conversation` and `quire history`.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>

#include "cli/run_quire.h"

namespace quire::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

/// Each test has conversations of its own.
class History : public ::testing::Test {
 protected:
  History() {
    static int count = 0;
    home_ = scratch_path("home-" + std::to_string(++count));
  }
  RunResult quire(std::vector<std::string> args, const std::string& in = "") const {
    return run_quire(args, {.in = in, .env = {{"QUIRE_HOME", home_}}});
  }
  RunResult chat(const std::string& name, const std::string& in,
                 std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"chat", tiny("llama_tied"), "--conversation", name, "-n", "8"};
    args.insert(args.end(), more.begin(), more.end());
    return quire(args, in);
  }
  /// Contents of the branch that is gone on with, or of all.
  std::vector<std::string> contents(const std::string& name,
                                    std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"history", "show", name, "--json"};
    args.insert(args.end(), more.begin(), more.end());
    const formats::Json json = quire(args).json();
    std::vector<std::string> out;
    for (const formats::Json& message : *at(json, "messages").as_array()) {
      out.push_back(*at(message, "content").as_string());
    }
    return out;
  }
  std::string home_;
};

TEST_F(History, GoesOnInANewProcessWithTheSameAnswers) {
  const RunResult at_once = chat("one", "hello\nand again\nmore\n");
  ASSERT_EQ(at_once.exit_code, 0) << at_once.err;
  std::string parted;
  for (const std::string turn : {"hello\n", "and again\n", "more\n"})
    parted += chat("two", turn).out;
  EXPECT_EQ(parted, at_once.out);
  EXPECT_EQ(contents("one"), contents("two"));
  EXPECT_THAT(contents("one"), SizeIs(6));
}

TEST_F(History, RunAnswersTheNextTurn) {
  const RunResult at_once = chat("one", "hello\nand again\n");
  const std::vector<std::string> run = {"run", tiny("llama_tied"), "-n",
                                        "8",   "--conversation",   "two"};
  std::vector<std::string> first = run, second = run;
  first.insert(first.end(), {"-p", "hello"});
  second.insert(second.end(), {"-p", "and again", "--json"});
  EXPECT_EQ(quire(first).exit_code, 0);
  const formats::Json json = quire(second).json();
  EXPECT_EQ(contents("two"), contents("one"));
  EXPECT_EQ(*at(at(json, "conversation"), "name").as_string(), "two");
  EXPECT_EQ(at(json, "prompt_tokens").as_int().has_value(), true);
}

TEST_F(History, EditRetryAndUndoBeginBranchesAndLoseNothing) {
  chat("talk", "first\nsecond\n/retry\n/edit third\n/undo\nfourth\n", {"--temp", "1"});
  const auto kept = contents("talk");
  ASSERT_THAT(kept, SizeIs(4));
  EXPECT_EQ(kept[2], "fourth");
  const auto all = contents("talk", {"--all"});
  for (const std::string text : {"first", "second", "third", "fourth"}) {
    EXPECT_THAT(all, ::testing::Contains(text));
  }
  EXPECT_THAT(all, SizeIs(9)) << "two answers to the second message";
  const formats::Json shown = quire({"history", "show", "talk", "--json"}).json();
  EXPECT_EQ(at(shown, "branches").as_int(), 4);
  const formats::Json end = at(shown, "other_branches").as_array()->front();
  const auto other = contents("talk", {"--at", std::to_string(*end.as_int())});
  EXPECT_EQ(other[2], "second");
}

TEST_F(History, ClearAndAnotherSystemMessageKeepTheOldBranch) {
  chat("talk", "first\n/clear\n/system brief\nsecond\n");
  EXPECT_THAT(contents("talk"), ElementsAre("brief", "second", ::testing::_));
  EXPECT_THAT(contents("talk", {"--all"}), ::testing::Contains("first"));
}

TEST_F(History, AQuestionSurvivesAKillDuringItsAnswer) {
  std::filesystem::create_directories(home_);
  {
    TerminalRun run({"chat", tiny("llama_tied"), "--conversation", "killed", "--temp", "0",
                     "--cache", "none", "--logit-bias", "67=1000"});
    ASSERT_TRUE(run.wait_for("> ")) << run.screen();
    run.type("hello\r");
    ASSERT_TRUE(run.wait_for("aaaa")) << run.screen();
  }
  // The terminal's own home.
  const RunResult shown = run_quire({"history", "show", "killed"});
  EXPECT_THAT(shown.out, HasSubstr("hello"));
  const RunResult again = run_quire(
      {"chat", tiny("llama_tied"), "--conversation", "killed", "-n", "4"}, {.in = "/retry\n"});
  EXPECT_THAT(again.err, HasSubstr("the last has no answer"));
  const formats::Json stored = run_quire({"history", "show", "killed", "--json"}).json();
  EXPECT_THAT(*at(stored, "messages").as_array(), SizeIs(2));
}

TEST_F(History, AMessageThatDoesNotFitIsNotStored) {
  const RunResult result = chat("talk", "hello\n" + std::string(2000, 'x') + "\n");
  EXPECT_THAT(result.err, HasSubstr("does not fit"));
  EXPECT_THAT(contents("talk", {"--all"}), SizeIs(2));
}

std::string turns(int first, int count) {
  std::string in;
  for (int i = first; i < first + count; ++i) {
    in += "question " + std::to_string(i) + " " + std::string(20, 'q') + "\n";
  }
  return in;
}

TEST_F(History, CompactionAddsAViewAndLosesNothing) {
  const std::vector<std::string> window = {"--ctx", "256", "--overflow", "truncate_left"};
  const RunResult long_one = chat("long", turns(0, 10), window);
  ASSERT_EQ(long_one.exit_code, 0) << long_one.err;
  EXPECT_THAT(long_one.err, HasSubstr("compacted by truncate_left"));
  EXPECT_THAT(contents("long"), SizeIs(20));
  const formats::Json shown = quire({"history", "show", "long", "--json"}).json();
  EXPECT_EQ(*at(at(shown, "view"), "policy").as_string(), "truncate_left");
  const std::string view = quire({"history", "show", "long", "--view"}).out;
  EXPECT_THAT(view, Not(HasSubstr("question 0 ")));
  EXPECT_THAT(view, HasSubstr("question 9 "));
  EXPECT_THAT(quire({"history", "show", "long"}).out, HasSubstr("question 0 "));
}

TEST_F(History, AQuestionThatIsCutIsNoCompaction) {
  const RunResult cut =
      chat("talk", std::string(400, 'x') + "\n", {"--ctx", "256", "--overflow", "auto"});
  EXPECT_THAT(cut.err, HasSubstr("changed by auto"));
  const formats::Json shown = quire({"history", "show", "talk", "--json"}).json();
  EXPECT_TRUE(at(shown, "view").is_null());
  EXPECT_THAT(quire({"history", "show", "talk", "--view"}).err, HasSubstr("as they are"));
}

TEST_F(History, ACompactedConversationGoesOnFromItsViewAndReadsOnlyWhatIsNew) {
  const std::vector<std::string> window = {"--ctx", "256", "--overflow", "truncate_left"};
  chat("long", turns(0, 10), window);
  const auto view_of = [&] {
    const formats::Json shown = quire({"history", "show", "long", "--json"}).json();
    return *at(at(shown, "view"), "id").as_int();
  };
  const int64_t before = view_of();
  const RunResult again = chat("long", "hi\nho\n/stats\n");
  EXPECT_EQ(view_of(), before);
  EXPECT_THAT(again.err, Not(HasSubstr("compacted")));
  // A copy has no view: the whole log is beyond the window.
  quire({"history", "fork", "long", "copy"});
  const auto run = [&](const std::string& name) {
    return quire({"run", tiny("llama_tied"), "--conversation", name, "-n", "4", "-p", "hey"});
  };
  EXPECT_EQ(run("long").exit_code, 0);
  EXPECT_EQ(run("copy").exit_code, 4);

  const std::string handle = "v" + std::to_string(before);
  EXPECT_THAT(chat("long", "/undo v999\n").err, HasSubstr("is sent as " + handle));
  const RunResult undone = chat("long", "/undo " + handle + "\n");
  EXPECT_THAT(undone.err, HasSubstr(handle + " is undone"));
  EXPECT_THAT(contents("long"), SizeIs(26));
}

TEST_F(History, ACompactedConversationGivesTheSameAnswersInANewProcess) {
  const std::vector<std::string> window = {"--ctx", "256", "--overflow", "head_tail"};
  const RunResult at_once = chat("one", turns(0, 13), window);
  EXPECT_THAT(at_once.err, HasSubstr("compacted"));
  const RunResult first = chat("two", turns(0, 11), window);
  EXPECT_THAT(first.err, HasSubstr("compacted"));
  EXPECT_EQ(
      first.out + chat("two", turns(11, 1), window).out + chat("two", turns(12, 1), window).out,
      at_once.out);
}

TEST_F(History, FindsForksExportsAndRemoves) {
  chat("谈话", "缓存页 in memory\n", {"--system", "brief"});
  const formats::Json hits = quire({"history", "search", "存页", "--json"}).json();
  ASSERT_THAT(*at(hits, "hits").as_array(), SizeIs(1));
  EXPECT_EQ(*at(at(hits, "hits").as_array()->front(), "conversation").as_string(), "谈话");

  EXPECT_EQ(quire({"history", "fork", "谈话", "copy"}).exit_code, 0);
  EXPECT_EQ(contents("copy"), contents("谈话"));
  EXPECT_THAT(quire({"history", "fork", "谈话", "copy"}).err, HasSubstr("already"));

  const std::string file = scratch_path("export.json");
  EXPECT_EQ(quire({"history", "export", "copy", "-o", file}).exit_code, 0);
  const RunResult counted = quire({"tokens", tiny("llama_tied"), "--messages", file, "--json"});
  EXPECT_EQ(counted.exit_code, 0) << counted.err;
  EXPECT_THAT(quire({"history", "export", "copy", "--format", "md"}).out,
              HasSubstr("## user\n\n缓存页"));

  EXPECT_EQ(quire({"history", "rm", "谈话", "copy"}).exit_code, 0);
  EXPECT_THAT(*at(quire({"history", "ls", "--json"}).json(), "conversations").as_array(),
              IsEmpty());
}

TEST_F(History, KeepsItsFolderAndFilesPrivate) {
  std::filesystem::create_directories(home_);
  std::filesystem::permissions(home_, std::filesystem::perms(0755));
  chat("talk", "hello\n");
  struct stat folder {
  }, file{};
  ASSERT_EQ(::stat(home_.c_str(), &folder), 0);
  ASSERT_EQ(::stat((home_ + "/conversations.db").c_str(), &file), 0);
  EXPECT_EQ(folder.st_mode & 0777, 0700);
  EXPECT_EQ(file.st_mode & 0777, 0600);
}

TEST_F(History, RefusesWhatCannotBe) {
  struct Case {
    std::vector<std::string> args;
    int exit_code;
    std::string sentence;
  };
  const std::string model = tiny("llama_tied");
  const std::vector<Case> cases = {
      {{"history"}, 2, "history wants one of"},
      {{"history", "frob"}, 2, "history wants one of"},
      {{"history", "show"}, 2, "history show NAME"},
      {{"history", "show", "absent"}, 3, "no conversation 'absent'"},
      {{"history", "search", "?!"}, 2, "no letter or digit"},
      {{"history", "export", "absent", "--format", "pdf"}, 2, "json or markdown"},
      {{"run", model, "--conversation", "", "-p", "x"}, 2, "cannot be empty"},
      {{"run", model, "--conversation", "a", "--raw", "-p", "x"}, 2, "--raw"},
      {{"run", model, "--conversation", "a", "--choices", "2", "-p", "x"}, 2, "--choices"},
      {{"run", model, "--conversation", "a", "--batch", "x"}, 2, "--batch"},
      {{"run", model_without_template(), "--conversation", "a", "-p", "x"}, 2, "chat template"},
      {{"chat", model, "--conversation", "a", "--messages", "x"}, 2, "--messages"},
  };
  for (const Case& wrong : cases) {
    const RunResult result = quire(wrong.args);
    EXPECT_EQ(result.exit_code, wrong.exit_code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(wrong.sentence));
    EXPECT_EQ(result.error_lines(), 1) << result.err;
  }
}

TEST_F(History, LeavesADamagedStoreAlone) {
  chat("talk", "hello\n");
  const std::string path = home_ + "/conversations.db";
  std::filesystem::resize_file(path, 5000);
  const std::string before = file_content(path);
  const RunResult result = chat("talk", "hello\n");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("is damaged"));
  EXPECT_EQ(file_content(path), before);
}

}  // namespace
}  // namespace quire::cli
