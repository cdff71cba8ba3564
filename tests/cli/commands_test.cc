// tokens, score, info and bench, as scripts call them.
#include <gmock/gmock.h>

#include <sched.h>

#include <algorithm>
#include <set>
#include <string>

#include "cli/run_quire.h"
#include "kernels/kernel_set.h"

namespace quire::cli {
namespace {

using formats::Json;
using ::testing::HasSubstr;
using ::testing::Not;

Json call(std::vector<std::string> args, const RunSetup& setup = {}) {
  args.emplace_back("--json");
  const RunResult result = run_quire(args, setup);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.json();
}

int64_t sum_of_parts(const Json& json) {
  int64_t sum = 0;
  for (const Json& part : *at(json, "parts").as_array()) sum += *at(part, "tokens").as_int();
  return sum;
}

TEST(Tokens, AddUpPartByPart) {
  const Json json = call({"tokens", tiny("llama_tied"), "--system", "be brief", "-p", "hello you"});
  EXPECT_EQ(Json(sum_of_parts(json)), at(json, "count"));
  EXPECT_EQ(at(json, "ids").as_array()->size(), at(json, "pieces").as_array()->size());
  EXPECT_EQ(*at(json, "window").as_int() - *at(json, "count").as_int(), *at(json, "left").as_int());
  EXPECT_THAT(*at(json, "prompt").as_string(), HasSubstr("<|im_start|>system\nbe brief"));
  EXPECT_THAT(at(json, "parts").dump(), HasSubstr("\"system\""));
}

TEST(Tokens, KeepEveryByte) {
  const std::string bytes("\xEF\xBB\xBF a\0b\r\n\xE7", 10);
  const Json json = call({"tokens", tiny("llama_tied"), "--plain"}, {.in = bytes});
  EXPECT_EQ(at(json, "bytes"), Json(10));
  const Json empty =
      call({"tokens", tiny("llama_tied"), "--raw", "--no-special", "-f", "/dev/null"});
  EXPECT_EQ(at(empty, "count"), Json(0));
}

TEST(Tokens, ParseControlTokensInRawTextOnly) {
  const auto count = [](const char* how) {
    return *at(call({"tokens", tiny("llama_tied"), how, "--no-special", "-p", "<|im_end|>"}),
               "count")
                .as_int();
  };
  EXPECT_EQ(count("--raw"), 1);
  EXPECT_GT(count("--plain"), 1);
}

TEST(Tokens, NeedOnlyTokenizerFiles) {
  for (const std::string name : {"tokenizer.json", "tokenizer_config.json"}) {
    scratch_file("tok/" + name, file_content(tiny("llama_tied/") + name));
  }
  const Json json = call({"tokens", scratch_path("tok"), "-p", "hello"});
  EXPECT_EQ(at(json, "ids"), at(call({"tokens", tiny("llama_tied"), "-p", "hello"}), "ids"));
  EXPECT_TRUE(at(json, "window").is_null());
}

TEST(Tokens, CompareSeveralModelsOnOneStdin) {
  const Json json = call({"tokens", tiny("llama_tied"), tiny("gemma3")}, {.in = "hello there"});
  const Json::Array& models = *at(json, "models").as_array();
  ASSERT_EQ(models.size(), 2u);
  for (const Json& model : models) {
    EXPECT_THAT(*at(model, "prompt").as_string(), HasSubstr("hello there"));
  }
}

TEST(Tokens, SayHowMuchMoreEachModelNeedsThanTheMostFrugal) {
  const RunResult result =
      run_quire({"tokens", tiny("llama_tied"), tiny("gemma3")}, {.in = "hello there"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("more"));
  EXPECT_THAT(result.out, HasSubstr(" 0 %"));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
}

TEST(Tokens, AreColouredOnATerminalAndControlTokensStandOut) {
  TerminalRun run({"tokens", tiny("llama_tied"), "--raw", "-p", "hello\nyou<|im_end|>"});
  EXPECT_TRUE(run.wait_for("\x1b[30;46m"));
  EXPECT_TRUE(run.wait_for("\u21b5\x1b[0m"));
  EXPECT_TRUE(run.wait_for("\x1b[1;37;41m<|im_end|>"));
  EXPECT_TRUE(run.wait_for("tokens, "));
  EXPECT_EQ(run.exit_code(), 0);
}

TEST(Score, GivesEachTokenThoseBefore) {
  const Json json = call({"score", tiny("llama_tied"), "-p", "hello there"});
  const Json::Array& logprobs = *at(json, "logprobs").as_array();
  ASSERT_EQ(Json(static_cast<int64_t>(logprobs.size())), at(json, "tokens"));
  EXPECT_TRUE(logprobs.front().is_null());
  double sum = 0.0;
  for (size_t i = 1; i < logprobs.size(); ++i) sum -= *logprobs[i].as_double();
  EXPECT_NEAR(*at(json, "nll").as_double(), sum / static_cast<double>(logprobs.size() - 1), 1e-12);
}

TEST(Score, ComparesWithLogitsItWrote) {
  const std::string file = scratch_path("logits.npy");
  const std::string model = tiny("llama_gguf/q4_0.gguf");
  call({"score", model, "-p", "hello there", "--logits", file});
  const Json same = call({"score", model, "-p", "hello there", "--compare", file});
  EXPECT_EQ(at(same, "identical"), Json(true));
  EXPECT_EQ(at(at(same, "kl"), "max").as_double(), 0.0);
  EXPECT_EQ(at(same, "top1_agreement").as_double(), 1.0);
  const Json other = call({"score", model, "-p", "hello there", "--compare", file, "--act", "f32"});
  EXPECT_EQ(at(other, "identical"), Json(false));
  EXPECT_GT(*at(at(other, "kl"), "mean").as_double(), 0.0);
}

TEST(Score, RefusesLogitsOfAnotherText) {
  const std::string file = scratch_path("other.npy");
  call({"score", tiny("llama_tied"), "-p", "hello there", "--logits", file});
  const RunResult result =
      run_quire({"score", tiny("llama_tied"), "-p", "hello", "--compare", file});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr(file));
}

TEST(Info, SaysWhatAModelIs) {
  const Json llama = call({"info", tiny("llama_tied")});
  EXPECT_EQ(at(llama, "architecture"), Json("llama"));
  EXPECT_EQ(at(llama, "layers"), Json(2));
  EXPECT_EQ(at(llama, "context"), Json(512));
  // 2 layers x 2 kv heads x 16 dims x (2 + 2) bytes.
  EXPECT_EQ(at(llama, "kv_bytes_per_token"), Json(256));
  EXPECT_EQ(at(llama, "warnings"), Json(Json::Array{}));
  EXPECT_EQ(at(call({"info", tiny("llama_tied"), "--kv", "f32"}), "kv_bytes_per_token"), Json(512));
  EXPECT_EQ(at(llama, "window_limit"), Json("trained"));
  EXPECT_EQ(at(call({"info", tiny("llama_tied"), "--ctx", "100"}), "window_limit"), Json("ctx"));
  const Json gemma = call({"info", tiny("gemma3")});
  EXPECT_EQ(at(gemma, "window_tokens"), Json(32));
  EXPECT_EQ(at(at(gemma, "tokenizer"), "bos"), Json("<bos>"));
}

TEST(Info, ListsAnArchitectureThatIsNotRun) {
  scratch_file("alien/config.json", R"({"model_type":"alien","hidden_size":8})");
  const Json json = call({"info", scratch_path("alien")});
  EXPECT_EQ(at(json, "architecture"), Json("alien"));
  EXPECT_TRUE(at(json, "layers").is_null());
  EXPECT_THAT(at(json, "warnings").dump(), HasSubstr("'alien' is not one that Quire runs"));
}

TEST(Info, WarnsWhenTemplateAndVocabularyDisagree) {
  for (const std::string file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    scratch_file("odd/" + file, file_content(tiny("llama_tied/") + file));
  }
  scratch_file(
      "odd/chat_template.jinja",
      "{% for m in messages %}<|who|>{{ m['role'] }}: {{ m['content'] }}<|stop|>{% endfor %}");
  EXPECT_THAT(at(call({"info", scratch_path("odd")}), "warnings").dump(),
              HasSubstr("template and vocabulary disagree"));
}

TEST(Bench, PrintsOneResultForEachCombination) {
  const std::vector<std::string> args = {
      "bench", tiny("llama_tied"), "--prefill", "8,16", "--decode", "4", "--depth",
      "0,20",  "--batch",          "1,3",       "-r",   "2"};
  const Json json = call(args);
  const Json::Array& results = *at(json, "results").as_array();
  ASSERT_EQ(results.size(), 8u);
  EXPECT_EQ(at(results[0], "test"), Json("pp8"));
  for (const Json& result : results) {
    EXPECT_GT(*at(result, "read_bytes_per_second").as_double(), 0.0);
    EXPECT_GE(*at(result, "stolen").as_double(), 0.0);
    EXPECT_LE(*at(result, "p10").as_double(), *at(result, "p90").as_double());
  }
  EXPECT_EQ(at(results[3], "test"), Json("tg4"));
  EXPECT_EQ(at(results[3], "batch"), Json(3));
  EXPECT_GT(*at(results[3], "tok_s_median").as_double(), 0.0);
  std::vector<std::string> csv = args;
  csv.insert(csv.end(), {"--format", "csv"});
  const RunResult table = run_quire(csv);
  EXPECT_THAT(table.out, HasSubstr("test,depth,batch,kv,threads,tok_s_median"));
  EXPECT_EQ(std::ranges::count(table.out, '\n'), 9);
}

TEST(Bench, SweepsThreadsAndDrawsDepths) {
  const std::string svg = scratch_path("bench.svg");
  const Json json =
      call({"bench", tiny("llama_tied"), "--prefill", "8", "--decode", "2", "--depth", "0,20,40",
            "--thread-sweep", "1,2", "-r", "1", "--kv", "f16,q8", "--svg", svg});
  const Json::Array& results = *at(json, "results").as_array();
  ASSERT_EQ(results.size(), 2u * 2 * 3 * 2);
  EXPECT_EQ(at(results.front(), "threads"), Json(1));
  EXPECT_EQ(at(results.back(), "threads"), Json(2));
  const std::string drawn = file_content(svg);
  for (const char* line : {"pp8 f16, 1 thread<", "tg2 q8, 2 threads<"}) {
    EXPECT_THAT(drawn, HasSubstr(line));
  }
}

TEST(Threads, AreWarnedOfBeyondTheProcessors) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const std::string many = std::to_string(CPU_COUNT(&allowed) + 1);
  const std::string model = tiny("llama_tied");
  for (const std::vector<std::string>& command : {
           std::vector<std::string>{"run", model, "-p", "a", "-n", "1"},
           {"chat", model},
           {"bench", model, "--prefill", "4", "--decode", "0", "-r", "1"},
           {"serve", model, "--port", "0", "--memory", "1K"},  // ends because that is too little
       }) {
    std::vector<std::string> args = command;
    args.insert(args.end(), {"--threads", many});
    const RunResult warned = run_quire(args);
    EXPECT_THAT(warned.err, HasSubstr("warning: --threads " + many)) << command[0];
    args.back() = "1";
    EXPECT_THAT(run_quire(args).err, Not(HasSubstr("warning"))) << command[0];
  }
}

TEST(Bench, ShowsWhereTheTimeOfEachTestWent) {
  const Json json = call(
      {"bench", tiny("llama_tied"), "--prefill", "8", "--decode", "2", "-r", "1", "--profile"});
  for (const Json& result : *at(json, "results").as_array()) {
    double shares = 0.0;
    std::set<std::string> steps;
    for (const Json& row : *at(result, "profile").as_array()) {
      shares += *at(row, "share").as_double();
      steps.insert(*at(row, "step").as_string());
    }
    EXPECT_NEAR(shares, 1.0, 1e-9);
    EXPECT_THAT(steps, ::testing::IsSupersetOf({"qkv", "attend", "gate and up", "down", "head"}));
  }
}

TEST(Bench, JudgesPrefillByThePeakOfIntegerProductsWhereTheInstructionSetHasThem) {
  const std::vector<std::string> args = {
      "bench", tiny("llama_tied"), "--prefill", "64", "--decode", "0", "-r", "1"};
  const auto with_isa = [&](const char* isa) {
    return call(args, {.in = "", .env = {{"QUIRE_ISA", isa}}});
  };
  const Json scalar = with_isa("scalar");
  EXPECT_TRUE(at(scalar, "int8_operations_per_second").is_null());
  EXPECT_TRUE(at((*at(scalar, "results").as_array())[0], "limit_fraction").is_null());
  if (kernels::kernels_for(kernels::Isa::kAvx2) == nullptr)
    GTEST_SKIP() << "this machine has no AVX2";
  const Json avx2 = with_isa("avx2");
  EXPECT_GT(*at(avx2, "int8_operations_per_second").as_double(), 1e9);
  const double fraction = *at((*at(avx2, "results").as_array())[0], "limit_fraction").as_double();
  EXPECT_GT(fraction, 0.0);
  EXPECT_LT(fraction, 1.0);
}

}  // namespace
}  // namespace quire::cli
