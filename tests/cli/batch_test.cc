// `quire run --batch`, and what `reuse` says.
#include <gmock/gmock.h>

#include "cli/run_quire.h"

namespace quire::cli {
namespace {

using formats::Json;
using ::testing::HasSubstr;

std::vector<std::string> batch(const std::string& file, std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"run", tiny("llama_tied"), "--batch", file, "--temp", "0", "-n",
                                   "6"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    lines.push_back(
        Json::parse(std::string_view(text).substr(begin, end - begin), "a line").value());
    begin = end + 1;
  }
  return lines;
}

int64_t cached_tokens(const Json& json) {
  return *at(at(json, "reuse"), "cached_tokens").as_int();
}

std::string long_text() {
  std::string text;
  for (int i = 0; i < 12; ++i) text += "The quire was bound page by page. ";
  return text;
}

TEST(Batch, AnswersEachLineAsRunDoes) {
  const std::string file =
      scratch_file("lines.jsonl",
                   "\"hello\"\n"
                   "\n"
                   "{\"prompt\": \"and you\", \"id\": \"b\", \"max_tokens\": 3}\r\n"
                   "[{\"role\": \"user\", \"content\": \"a third\"}]");
  const RunResult result = run_quire(batch(file));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<Json> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 3u);
  const char* prompts[] = {"hello", "and you", "a third"};
  const char* counts[] = {"6", "3", "6"};
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(at(lines[i], "index"), Json(static_cast<int64_t>(i)));
    const Json alone = run_quire({"run", tiny("llama_tied"), "-p", prompts[i], "--temp", "0", "-n",
                                  counts[i], "--json"})
                           .json();
    EXPECT_EQ(at(lines[i], "tokens"), at(alone, "tokens")) << prompts[i];
    EXPECT_EQ(at(lines[i], "text"), at(alone, "text"));
    EXPECT_EQ(at(lines[i], "finish_reason"), at(alone, "finish_reason"));
  }
  EXPECT_EQ(at(lines[1], "id"), Json("b"));
  EXPECT_TRUE(at(lines[0], "id").is_null());
}

TEST(Batch, ReadsTheCommonDocumentOnce) {
  const std::string document = scratch_file("document.txt", long_text());
  const std::string file = scratch_file("questions.jsonl", "\"Who?\"\n\"When?\"\n\"Where?\"\n");
  for (const char* model : {"llama_tied", "gemma3"}) {
    const RunResult result = run_quire({"run", tiny(model), "--batch", file, "--prefix-file",
                                        document, "--temp", "0", "-n", "4", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json json = result.json();
    const auto& results = *at(json, "results").as_array();
    ASSERT_EQ(results.size(), 3u);
    const int64_t prompt = *at(results[0], "prompt_tokens").as_int();
    ASSERT_GT(prompt, 130) << model;  // beyond the windows of these models
    EXPECT_EQ(cached_tokens(results[0]), 0);
    for (size_t i = 1; i < 3; ++i) {
      EXPECT_GT(cached_tokens(results[i]), prompt - 30) << model;
      const Json& miss = at(at(results[i], "reuse"), "miss");
      EXPECT_EQ(at(miss, "message"), Json("message[0] user")) << model;
      EXPECT_EQ(*at(miss, "cost_tokens").as_int(),
                *at(results[i], "prompt_tokens").as_int() - cached_tokens(results[i]));
    }
    EXPECT_EQ(*at(at(json, "reuse"), "cached_tokens").as_int(),
              cached_tokens(results[1]) + cached_tokens(results[2]));
  }
}

TEST(Batch, NamesTheBadLineBeforeAnythingIsLoaded) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"\"fine\"\n{\"prompt\": \"x\"", "line 2"},
      {"17", "line 1: a line is a text, an array of messages, or an object"},
      {"{\"prompt\": \"x\", \"messages\": []}", "either \"prompt\" or \"messages\""},
      {"{\"id\": 1}", "either \"prompt\" or \"messages\""},
      {"{\"prompt\": \"x\", \"temperature\": 1}", "the field \"temperature\" is not known"},
      {"{\"prompt\": \"x\", \"max_tokens\": 0}", "max_tokens is no positive number"},
      {"{\"prompt\": 5}", "\"prompt\" is no text"},
      {"[{\"content\": \"x\"}]", "is no object with a \"role\""},
      {"\n \n", "no prompts"}};
  for (const auto& [content, sentence] : bad) {
    const RunResult result = run_quire(batch(scratch_file("bad.jsonl", content)));
    EXPECT_EQ(result.exit_code, sentence == "line 2" ? result.exit_code : 2) << content;
    EXPECT_NE(result.exit_code, 0) << content;
    EXPECT_THAT(result.err, HasSubstr(sentence));
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.error_lines(), 1) << result.err;
  }
}

TEST(Batch, RefusesPromptsBesideTheFile) {
  const std::string file = scratch_file("one.jsonl", "\"hello\"\n");
  EXPECT_EQ(run_quire(batch(file, {"-p", "hi"})).exit_code, 2);
  EXPECT_EQ(run_quire(batch(file, {"--choices", "2"})).exit_code, 2);
  EXPECT_EQ(run_quire(batch(file, {"--beams", "2"})).exit_code, 2);
  EXPECT_NE(run_quire(batch("/nonexistent.jsonl")).exit_code, 0);
}

TEST(Batch, AnswersTheOthersWhenOneLineDoesNotFit) {
  std::string words;
  for (int i = 0; i < 400; ++i) words += "page ";
  const std::string file =
      scratch_file("long.jsonl", "\"hello\"\n\"" + words + "\"\n\"and you\"\n");
  const RunResult result = run_quire(batch(file, {"--ctx", "100"}));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("line 2"));
  const std::vector<Json> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_NE(lines[0].find("text"), nullptr);
  EXPECT_THAT(*at(lines[1], "error").as_string(),
              HasSubstr("This model's maximum context length is 100 tokens. However,"));
  EXPECT_NE(lines[2].find("text"), nullptr);
}

TEST(Batch, DoesNotAskWhatAPolicyRefused) {
  std::string words;
  for (int i = 0; i < 20; ++i) words += "page ";
  // It would fit, but for the room that a policy keeps for the answer.
  const std::string file =
      scratch_file("pinned.jsonl", "[{\"role\":\"system\",\"content\":\"" + words +
                                       "\"},{\"role\":\"user\",\"content\":\"hi\"}]\n\"hello\"\n");
  const RunResult result = run_quire({"run", tiny("llama_tied"), "--batch", file, "--ctx", "64",
                                      "--overflow", "truncate_left", "--temp", "0"});
  EXPECT_EQ(result.exit_code, 4) << result.out;
  const std::vector<Json> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(*at(lines[0], "error").as_string(), HasSubstr("truncate_left"));
  EXPECT_NE(lines[1].find("text"), nullptr);
  EXPECT_FALSE(at(lines[1], "context").find("kept")->as_array()->empty());
}

TEST(Batch, ContinuesTextsWithoutATemplate) {
  const std::string file = scratch_file("raw.jsonl", "\"once upon\"\n\"a time\"\n");
  const RunResult result = run_quire(batch(file, {"--raw"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json alone = run_quire({"run", tiny("llama_tied"), "--raw", "-p", "a time", "--temp", "0",
                                "-n", "6", "--json"})
                         .json();
  EXPECT_EQ(at(lines_of(result.out).at(1), "tokens"), at(alone, "tokens"));
}

}  // namespace
}  // namespace quire::cli
