// `quire quantize`: what it prints, what it refuses, what it leaves behind.
#include <gmock/gmock.h>

#include <filesystem>

#include "cli/run_quire.h"

namespace quire::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// A path in the scratch folder at which there is nothing.
std::string new_path(std::string_view name) {
  const std::string path = scratch_path(name);
  fs::remove(path);
  return path;
}

TEST(QuantizeCommand, WritesAFileThatRuns) {
  const std::string out = new_path("q8.gguf");
  const RunResult done = run_quire({"quantize", tiny("llama_tied"), out, "--type", "q8_0"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith(out + ": "));
  EXPECT_THAT(done.out, HasSubstr("q8_0"));
  EXPECT_THAT(done.err, IsEmpty());

  const RunResult answer =
      run_quire({"run", out, "--raw", "-p", "Once upon", "-n", "4", "--temp", "0", "--json"});
  EXPECT_EQ(answer.exit_code, 0) << answer.err;
}

TEST(QuantizeCommand, PrintsOneJsonDocument) {
  const std::string out = new_path("json.gguf");
  const RunResult done =
      run_quire({"quantize", tiny("llama_tied"), out, "--type", "Q4_0", "--json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const formats::Json json = done.json();
  EXPECT_EQ(at(json, "path").as_string() != nullptr ? *at(json, "path").as_string() : "", out);
  EXPECT_EQ(at(json, "file_bytes").as_int(), static_cast<int64_t>(fs::file_size(out)));
  EXPECT_EQ(at(at(json, "tensors"), "q8_0").as_int(), 1);  // the embedding is the head too
}

TEST(QuantizeCommand, KeepsAFileThatExistsUnlessForced) {
  const std::string out = scratch_file("taken.gguf", "precious");
  const RunResult refused = run_quire({"quantize", tiny("llama_tied"), out, "--type", "f16"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("exists already; --force replaces it"));
  EXPECT_EQ(refused.error_lines(), 1);
  EXPECT_EQ(file_content(out), "precious");

  EXPECT_EQ(run_quire({"quantize", tiny("llama_tied"), out, "--type", "f16", "--force"}).exit_code,
            0);
  EXPECT_THAT(file_content(out), StartsWith("GGUF"));
}

TEST(QuantizeCommand, RefusesToWriteOntoTheModel) {
  const std::string in = scratch_path("own.gguf");
  fs::copy_file(tiny("llama_gguf/f16.gguf"), in, fs::copy_options::overwrite_existing);
  const std::string link = new_path("link.gguf");
  fs::create_symlink(in, link);
  const std::string before = file_content(in);
  for (const std::string& out : {in, link}) {
    const RunResult refused = run_quire({"quantize", in, out, "--type", "q8_0", "--force"});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr("is the model that is read"));
  }
  EXPECT_EQ(file_content(in), before);
}

TEST(QuantizeCommand, NamesWhatIsWrongWithItsArguments) {
  const std::string model = tiny("llama_tied");
  const std::string out = new_path("never.gguf");
  const auto refuse = [&](const std::vector<std::string>& args, int code,
                          const std::string& sentence) {
    const RunResult refused = run_quire(args);
    EXPECT_EQ(refused.exit_code, code) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(sentence));
    EXPECT_EQ(refused.error_lines(), 1) << refused.err;
  };
  refuse({"quantize", model}, 2, "quire quantize IN OUT");
  refuse({"quantize", model, out}, 2, "as what? --type");
  refuse({"quantize", model, out, "--type", "q2_k"}, 2, "f16, q8_0, q4_0 or q4_1");
  refuse({"quantize", model, out, "--type", "f32"}, 2, "f16, q8_0, q4_0 or q4_1");
  refuse({"quantize", "./nope", out, "--type", "f16"}, 3, "./nope");
  refuse({"quantize", model, "/no/such/folder/x", "--type", "f16"}, 3, "/no/such/folder/x");
  refuse({"quantize", model, scratch_path(""), "--type", "f16"}, 2, "is a folder");
  EXPECT_FALSE(fs::exists(out));
}

TEST(QuantizeCommand, NamesTheTensorThatIsNoNumber) {
  std::string content = file_content(tiny("llama_gguf/f32.gguf"));
  content.replace(content.size() / 2 / 4 * 4, 4, "\xFF\xFF\xFF\xFF");  // within a matrix
  const std::string damaged = scratch_file("nan.gguf", content);
  const std::string out = new_path("from_nan.gguf");
  const RunResult refused = run_quire({"quantize", damaged, out, "--type", "q8_0"});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, HasSubstr("not a number"));
  EXPECT_FALSE(fs::exists(out));
}

TEST(QuantizeCommand, ShowsABarOnATerminal) {
  const std::string out = new_path("bar.gguf");
  TerminalRun run({"quantize", tiny("llama_tied"), out, "--type", "q4_1"});
  EXPECT_EQ(run.exit_code(), 0) << run.screen();
  EXPECT_THAT(run.screen(), HasSubstr("quantizing \u2588"));
}

}  // namespace
}  // namespace quire::cli
