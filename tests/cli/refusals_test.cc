// What cannot be done is answered by one sentence and the right exit code.
#include <gmock/gmock.h>

#include "cli/run_quire.h"

namespace quire::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Refusal {
  std::vector<std::string> args;
  int exit_code;
  std::string sentence;  // a part of it
};

void expect_refused(const Refusal& refusal) {
  const RunResult result = run_quire(refusal.args);
  const std::string called = ::testing::PrintToString(refusal.args);
  EXPECT_EQ(result.exit_code, refusal.exit_code) << called;
  EXPECT_THAT(result.out, IsEmpty()) << called;
  EXPECT_THAT(result.err, HasSubstr(refusal.sentence)) << called;
  EXPECT_EQ(result.error_lines(), 1) << called << result.err;
}

TEST(Refusals, NameTheCommandOrTheOption) {
  const std::string model = tiny("llama_tied");
  expect_refused({{"frobnicate"}, 2, "unknown command 'frobnicate'; commands: run, chat, tokens"});
  expect_refused({{"frobnicate", model}, 2, "unknown command 'frobnicate'"});
  expect_refused({{"run"}, 2, "which model?"});
  expect_refused({{"run", model, "--tmp", "0"}, 2, "did you mean --temp?"});
  expect_refused({{"run", model, "-n"}, 2, "-n needs a value"});
  expect_refused({{"run", model, "-n", "0"}, 2, "-n wants a whole number of at least 1"});
  expect_refused({{"run", model, "--temp", "warm"}, 2, "--temp wants a number"});
  expect_refused({{"run", model, "-p", "x", "--top-p", "7"}, 2, "top-p"});
  expect_refused({{"run", model, "--logit-bias", "5"}, 2, "TOKEN_ID=BIAS"});
  expect_refused({{"run", model, "--act", "f8"}, 2, "int8 or f32"});
  expect_refused({{"score", model, "-p", "x", "--temp", "0.5"}, 2, "never draws"});
  expect_refused({{"chat", model, "--json"}, 2, "quire run --json"});
}

TEST(Refusals, NameImpossibleCombinations) {
  const std::string model = tiny("llama_tied");
  const std::string messages = scratch_file("m.json", R"([{"role":"user","content":"hello"}])");
  expect_refused({{"run", model, "--raw", "--template", "-p", "x"}, 2, "--template contradicts"});
  expect_refused({{"run", model, "--raw", "--system", "x", "-p", "x"}, 2, "--system needs"});
  expect_refused({{"run", model, "--messages", messages, "-p", "x"}, 2, "leave out -p"});
  expect_refused(
      {{"run", model, "--messages", messages, "--system", "x"}, 2, "exclude each other"});
  expect_refused({{"run", model, "--no-special", "-p", "x"}, 2, "--no-special needs --raw"});
  expect_refused({{"run", model, model, "-p", "x"}, 2, "one argument too many"});
  expect_refused({{"run", model, "-m", model, "-p", "x"}, 2, "one model at a time"});
}

TEST(Refusals, SayWhatToUseInsteadOfWhatIsNotSupportedYet) {
  const std::string model = tiny("llama_tied");
  const auto refuse = [&](std::vector<std::string> options, const std::string& sentence) {
    options.insert(options.begin(), {"run", model, "-p", "x"});
    expect_refused({options, 2, sentence});
  };
  refuse({"--cache", "quantized"}, "--kv");
  refuse({"--cache", "paged"}, "what every cache is already");
  refuse({"--cache", "prefix"}, "--choices");
  refuse({"--cache", "magic"}, "'magic' is none of them");
  refuse({"--cache", "sliding:0"}, "not '0'");
  refuse({"--cache", "offloaded:1G", "--spill-dir", "/tmp"}, "may be written to by everyone");
  refuse({"--cache", "static,offloaded:1G"}, "static sets all pages aside");
  refuse({"--kv", "f8"}, "such as q6/q4, not 'f8'");
  refuse({"--overflow", "magic"}, "retrieve, auto, not 'magic'");
  for (const char* stretch : {"yarn", "yarn:1", "linear:x", "ntk:2", "yarn:1e9", "yarn:2x"}) {
    refuse({"--rope-scaling", stretch}, "such as yarn:4");
  }
  refuse({"-ngl", "99"}, "CPU only");
  refuse({"--lora", "a.gguf"}, "adapters are not supported");
}

TEST(Refusals, NameTheFile) {
  const std::string junk = scratch_file("junk.bin", "this is no model");
  const std::string empty = scratch_file("empty.gguf", "");
  expect_refused({{"run", junk, "-p", "x"}, 3, junk});
  expect_refused({{"run", empty, "-p", "x"}, 3, empty});
  expect_refused({{"run", "./nope.gguf", "-p", "x"}, 3, "./nope.gguf"});
  expect_refused({{"run", tiny("llama_tied"), "-f", "./nope.txt"}, 3, "./nope.txt"});
  expect_refused({{"run", tiny("llama_tied"), "-f", tiny("llama_tied")}, 3, "is a folder"});
  expect_refused({{"run", tiny("llama_tied"), "-p", "x", "--chat-template", "nope"}, 3, "nope"});
  expect_refused({{"tokens", tiny("llama_tied"), "--messages", junk}, 3, junk});
}

TEST(Refusals, NameTheMessageThatIsNone) {
  const std::string no_role = scratch_file("no_role.json", R"([{"content":"hello"}])");
  const std::string object = scratch_file("object.json", R"({"message":[]})");
  expect_refused({{"run", tiny("llama_tied"), "--messages", no_role}, 2, "message 0"});
  expect_refused({{"run", tiny("llama_tied"), "--messages", object}, 2, "\"messages\""});
}

TEST(Refusals, TellWhereATemplateIsMissing) {
  const std::string model = model_without_template();
  expect_refused({{"chat", model}, 2, "--chat-template FILE"});
  expect_refused({{"run", model, "--template", "-p", "x"}, 2, "--chat-template FILE"});
  expect_refused({{"run", model, "--system", "s", "-p", "x"}, 2, "--chat-template FILE"});
}

TEST(Refusals, LeaveNothingBehindOfATruncatedModel) {
  std::string bytes = file_content(tiny("llama_gguf/f32.gguf"));
  bytes.resize(bytes.size() - 100);
  const std::string cut = scratch_file("cut.gguf", bytes);
  expect_refused({{"run", cut, "-p", "x"}, 3, "tensor"});
  const RunResult info = run_quire({"info", cut, "--json"});
  EXPECT_EQ(info.exit_code, 0) << info.err;
  const formats::Json json = info.json();
  EXPECT_EQ(at(json, "layers"), formats::Json(2));
  EXPECT_THAT(at(json, "warnings").dump(), HasSubstr("cut off"));
}

TEST(Help, ShowsAnExampleForEveryCommand) {
  for (const std::string command :
       {"run", "chat", "tokens", "score", "info", "inspect", "verify", "bench"}) {
    const RunResult result = run_quire({command, "--help"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, HasSubstr("example:\n  quire " + command));
    EXPECT_THAT(result.err, IsEmpty());
  }
  EXPECT_THAT(run_quire({"--version"}).out, HasSubstr("quire 0."));
  EXPECT_EQ(run_quire({}).exit_code, 2);
}

}  // namespace
}  // namespace quire::cli
