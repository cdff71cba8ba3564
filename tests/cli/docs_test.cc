// `quire docs` and `run --docs`.
#include <gmock/gmock.h>

#include <filesystem>

#include "cli/run_quire.h"

namespace quire::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Docs : public ::testing::Test {
 protected:
  Docs() {
    static int count = 0;
    home_ = scratch_path("docs-home-" + std::to_string(++count));
  }
  RunResult quire(const std::vector<std::string>& args) const {
    return run_quire(args, {.in = "", .env = {{"QUIRE_HOME", home_}}});
  }
  RunResult ask(std::vector<std::string> more) const {
    std::vector<std::string> args = {"run", tiny("llama_tied"), "-n", "2", "--json", "--docs"};
    args.insert(args.end(), more.begin(), more.end());
    return quire(args);
  }
  std::string home_;
  std::string model_ = tiny("llama_tied");
  std::string english_ =
      scratch_file("pages.txt", "A page holds slots.\n\nThe tree finds prefixes.\n");
  std::string chinese_ = scratch_file("zh.txt", "引擎把键值缓存页放在内存里。\n");
};

TEST_F(Docs, AreAddedListedFoundAndRemoved) {
  const RunResult added = quire({"docs", model_, "add", english_, chinese_});
  EXPECT_EQ(added.exit_code, 0) << added.err;
  EXPECT_THAT(quire({"docs", model_, "add", english_}).out, HasSubstr("unchanged"));
  const formats::Json listed = quire({"docs", "ls", "--json"}).json();
  EXPECT_THAT(*at(listed, "documents").as_array(), SizeIs(2));
  EXPECT_EQ(*at(listed, "embeddings").as_string(), "absent");

  const formats::Json found = quire({"docs", "search", "缓存", "--json"}).json();
  ASSERT_THAT(*at(found, "chunks").as_array(), SizeIs(1));
  EXPECT_THAT(*at(at(found, "chunks").as_array()->front(), "source").as_string(),
              HasSubstr("zh.txt"));

  EXPECT_EQ(quire({"docs", "rm", chinese_}).exit_code, 0);
  EXPECT_THAT(*at(quire({"docs", "search", "缓存", "--json"}).json(), "chunks").as_array(),
              IsEmpty());
}

TEST_F(Docs, StandBeforeTheQuestion) {
  quire({"docs", model_, "add", english_, "--chunk-tokens", "24"});
  const formats::Json answer = ask({"-p", "What does the tree find?"}).json();
  const formats::Json& chunks = at(at(answer, "documents"), "chunks");
  ASSERT_THAT(*chunks.as_array(), SizeIs(1));
  EXPECT_EQ(*at(chunks.as_array()->front(), "text").as_string(), "The tree finds prefixes.");

  // The same prompt, written by hand.
  const std::string label = "[" + std::filesystem::absolute(english_).string() + ", line 3]";
  const RunResult by_hand =
      quire({"run", model_, "-n", "2", "--json", "-p",
             label + "\nThe tree finds prefixes.\n\nWhat does the tree find?"});
  EXPECT_EQ(at(by_hand.json(), "tokens"), at(answer, "tokens"));
  EXPECT_EQ(at(by_hand.json(), "prompt_tokens"), at(answer, "prompt_tokens"));
}

TEST_F(Docs, ArePartsThatAreNamedByTheirSourceAndChosenAnewWhenTheyDoNotFit) {
  std::string text;
  for (int i = 0; i < 12; ++i) text += "Tree fact " + std::to_string(i) + " holds.\n\n";
  const std::string file = scratch_file("facts.txt", text);
  quire({"docs", model_, "add", file, "--chunk-tokens", "24"});
  const std::string name = "rag#" + std::filesystem::absolute(file).string() + ":";
  const auto named = [&](const formats::Json& answer, const char* list) {
    int count = 0;
    for (const formats::Json& row : *at(at(answer, "context"), list).as_array()) {
      count += at(row, "part").as_string()->starts_with(name);
    }
    return count;
  };
  const formats::Json one = ask({"-p", "tree fact", "--docs-tokens", "120"}).json();
  EXPECT_EQ(*at(at(one, "context"), "status").as_string(), "fits");
  EXPECT_GT(named(one, "kept"), 0);

  const RunResult all =
      ask({"-p", "tree fact", "--docs-tokens", "5000", "--overflow", "auto", "--ctx", "128"});
  ASSERT_EQ(all.exit_code, 0) << all.err;
  EXPECT_EQ(*at(at(all.json(), "context"), "status").as_string(), "changed");
  EXPECT_GT(named(all.json(), "kept"), 0);
  EXPECT_GT(named(all.json(), "dropped"), 0);
}

TEST_F(Docs, AreJudgedByTheModelIfAsked) {
  quire({"docs", model_, "add", english_, "--chunk-tokens", "24"});
  const formats::Json once = ask({"-p", "tree page", "--rerank"}).json();
  EXPECT_EQ(*at(at(once, "documents"), "ranking").as_string(), "question likelihood");
  EXPECT_THAT(*at(at(once, "documents"), "chunks").as_array(), SizeIs(2));
  for (const formats::Json& chunk : *at(at(once, "documents"), "chunks").as_array()) {
    EXPECT_LT(*at(chunk, "score").as_double(), 0.0) << "a log-probability";
  }
  EXPECT_EQ(at(ask({"-p", "tree page", "--rerank"}).json(), "documents"), at(once, "documents"));
}

TEST_F(Docs, SayWhenNothingWasFound) {
  const RunResult none = ask({"-p", "anything"});
  EXPECT_EQ(none.exit_code, 0) << none.err;
  EXPECT_THAT(none.err, HasSubstr("no document holds a word of the question"));
  quire({"docs", model_, "add", english_});
  EXPECT_EQ(ask({"-p", std::string(3000, 'x')}).exit_code, 4) << "no window for the question alone";
  EXPECT_THAT(ask({"-p", "tree", "--docs-tokens", "1"}).err, HasSubstr("fits into --docs-tokens"));
}

TEST_F(Docs, RefuseWhatCannotBe) {
  struct Case {
    std::vector<std::string> args;
    int exit_code;
    std::string sentence;
  };
  const std::vector<Case> cases = {
      {{"docs"}, 2, "docs MODEL add FILE"},
      {{"docs", model_, "add"}, 2, "docs MODEL add FILE"},
      {{"docs", "search", "?!"}, 2, "no letter or digit"},
      {{"docs", "rm", "absent"}, 3, "no document absent"},
      {{"docs", model_, "add", scratch_path("")}, 3, "is a folder"},
      {{"docs", model_, "add", "absent.txt"}, 3, "absent.txt"},
      {{"docs", model_, "add", scratch_file("empty.txt", " \n")}, 2, "holds no text"},
      {{"docs", model_, "add", scratch_file("zero.bin", std::string("a\0b", 3))}, 3, "no text has"},
      {{"docs", "absent-model", "add", english_}, 3, "absent-model"},
      {{"run", model_, "-p", "x", "--rerank"}, 2, "--docs"},
      {{"run", model_, "-p", "x", "--docs", "--raw"}, 2, "--raw"},
      {{"run", model_, "--docs", "--batch", "x"}, 2, "--batch"},
  };
  for (const Case& wrong : cases) {
    const RunResult result = quire(wrong.args);
    EXPECT_EQ(result.exit_code, wrong.exit_code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(wrong.sentence));
    EXPECT_EQ(result.error_lines(), 1) << result.err;
  }
}

}  // namespace
}  // namespace quire::cli
