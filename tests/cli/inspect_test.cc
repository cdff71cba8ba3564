// inspect: what is counted is what the formula says, and what is drawn is what was counted.
#include <gmock/gmock.h>

#include <algorithm>

#include "cli/page_picture.h"
#include "cli/run_quire.h"

namespace quire::cli {
namespace {

using formats::Json;
using ::testing::HasSubstr;
using ::testing::Not;

int64_t integer(const Json& json, std::string_view key) {
  return *at(json, key).as_int();
}

/// A text of more than two pages in the tiny vocabularies.
std::string long_text() {
  std::string text;
  for (int i = 0; i < 16; ++i) text += "hello there, number " + std::to_string(i) + ". ";
  return text;
}

Json inspect(std::vector<std::string> options) {
  options.insert(options.begin(), {"inspect"});
  options.emplace_back("--json");
  const RunResult result = run_quire(options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.json();
}

TEST(Inspect, CountsWhatTheFormulaSaysForEveryStrategyAndCodec) {
  const std::string text = long_text();
  for (const char* model : {"llama_tied", "gemma3"}) {
    for (const char* cache : {"dynamic", "static", "sliding:40+4", "sliding:70", "none"}) {
      for (const char* kv : {"f16", "q6/q4"}) {
        SCOPED_TRACE(std::string(model) + " " + cache + " " + kv);
        const Json json = inspect({tiny(model), "-p", text, "-n", "3", "--prefill-chunk", "100",
                                   "--cache", cache, "--kv", kv});
        EXPECT_EQ(at(json, "agrees"), Json(true));
        for (const Json& step : *at(json, "growth").as_array()) {
          EXPECT_EQ(at(step, "bytes_used"), at(step, "formula_used"));
          EXPECT_EQ(at(step, "bytes_held"), at(step, "formula_held"));
          const bool holds = std::string_view(cache) != "none";
          EXPECT_EQ(integer(step, "bytes_used") > 0, holds);
        }
        int64_t sum = 0;
        for (const Json& layer : *at(json, "layers").as_array()) sum += integer(layer, "bytes");
        EXPECT_EQ(sum, integer(at(json, "growth").as_array()->back(), "bytes_used"));
      }
    }
  }
}

TEST(Inspect, GivesDecodingOneTokenAndRecomputingAll) {
  const Json cached = inspect({tiny("llama_tied"), "-p", "hello there you", "-n", "3"});
  const Json::Array& growth = *at(cached, "growth").as_array();
  ASSERT_EQ(growth.size(), 4u);
  EXPECT_EQ(at(growth[0], "phase"), Json("prefill"));
  EXPECT_EQ(at(growth[0], "input_tokens"), at(growth[0], "tokens"));
  EXPECT_TRUE(at(growth[0], "token").is_null());
  const int64_t prompt = integer(growth[0], "tokens");
  for (size_t i = 1; i < growth.size(); ++i) {
    EXPECT_EQ(at(growth[i], "phase"), Json("decode"));
    EXPECT_EQ(at(growth[i], "input_tokens"), Json(1));
    EXPECT_EQ(at(growth[i], "tokens"), Json(prompt + static_cast<int64_t>(i)));
    // 2 layers x 2 kv heads x 16 dims x (2 + 2) bytes.
    EXPECT_EQ(integer(growth[i], "bytes_used") - integer(growth[i - 1], "bytes_used"), 256);
  }
  EXPECT_EQ(at(cached, "formula_bytes_per_token"), Json(256));
  const Json none =
      inspect({tiny("llama_tied"), "-p", "hello there you", "-n", "3", "--cache", "none"});
  const Json::Array& steps = *at(none, "growth").as_array();
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(at(steps[i], "input_tokens"), at(steps[i], "tokens"));
    // The same tokens are chosen.
    EXPECT_EQ(at(steps[i], "token"), at(growth[i], "token"));
  }
}

TEST(Inspect, TellsGlobalFromWindowLayersByTheirShapes) {
  const Json json = inspect({tiny("gemma3"), "-p", long_text(), "-n", "1"});
  const int64_t tokens = integer(at(json, "growth").as_array()->back(), "tokens");
  ASSERT_GT(tokens, 128);
  int windows = 0;
  for (const Json& layer : *at(json, "layers").as_array()) {
    const bool is_window = at(layer, "group") == Json("window");
    windows += is_window ? 1 : 0;
    const Json::Array& shape = *at(layer, "k_shape").as_array();
    ASSERT_EQ(shape.size(), 4u);
    EXPECT_EQ(shape[0], Json(1));
    EXPECT_EQ(shape[2], Json(is_window ? 32 : tokens));
    EXPECT_EQ(at(layer, "v_shape"), at(layer, "k_shape"));
    EXPECT_EQ(at(layer, "dtype"), Json("f16"));
  }
  EXPECT_GT(windows, 0);
  EXPECT_GT(integer(json, "fixed_bytes"), 0);
}

TEST(Inspect, ChoicesShareThePagesOfThePrompt) {
  const Json json = inspect({tiny("llama_tied"), "-p", long_text(), "-n", "2", "--choices", "3"});
  int64_t shared = 0;
  const Json::Array& pages = *at(json, "pages").as_array()->front().as_array();
  for (const Json& page : pages) shared += at(page, "shared") == Json(true) ? 1 : 0;
  EXPECT_EQ(shared, static_cast<int64_t>(pages.size()) - 1);
  // Two copies of the last page, and no more.
  const int64_t one = integer(at(json, "growth").as_array()->back(), "bytes_held");
  EXPECT_EQ(integer(json, "held_apart"), 3 * one);
  EXPECT_EQ(integer(json, "total_held"), one + 2 * one / static_cast<int64_t>(pages.size()));
}

TEST(Inspect, DrawsCellsAndBars) {
  const RunResult result = run_quire({"inspect", tiny("llama_tied"), "-p", long_text(), "-n", "2",
                                      "--kv", "q8", "--choices", "2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("0  OS"));
  EXPECT_THAT(result.out, HasSubstr("So\n"));
  EXPECT_THAT(result.out, HasSubstr("S sealed and shared"));
  EXPECT_THAT(result.out, HasSubstr("███"));
  const RunResult window = run_quire(
      {"inspect", tiny("llama_tied"), "-p", long_text(), "-n", "2", "--cache", "sliding:20"});
  EXPECT_THAT(window.out, HasSubstr("0  ..."));
  EXPECT_THAT(window.out, HasSubstr(". freed behind the window"));
}

TEST(Inspect, DrawsEveryCodecAndStrategyOnOneChart) {
  const std::string file = scratch_path("growth.svg");
  inspect({tiny("gemma3"), "-p", "hello", "-n", "2", "--svg", file});
  const std::string svg = file_content(file);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=")) << svg.substr(0, 40);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const char* name : {"dynamic f32", "dynamic f16", "dynamic q8", "dynamic q6",
                           "dynamic q6/q4", "dynamic q4", "dynamic q3", "static f16", "sliding:",
                           "offloaded to", "none (recomputed)", "measured: dynamic f16"}) {
    EXPECT_THAT(svg, HasSubstr(name));
  }
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(Inspect, RefusesInOneSentence) {
  const std::string model = tiny("llama_tied");
  const auto refused = [](std::vector<std::string> args, int code, const char* sentence) {
    const RunResult result = run_quire(args);
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(sentence));
    EXPECT_EQ(result.error_lines(), 1) << result.err;
  };
  refused({"inspect", model, "--no-special", "-f", "/dev/null"}, 2, "no tokens");
  refused({"inspect", model, "-p", "x", "-n", "100000"}, 4, "100000");
  refused({"inspect", model, "-p", "x", "--svg", "/nowhere/x.svg"}, 3, "/nowhere");
  refused({"inspect", model, "-p", "x", "--choices", "0"}, 2, "--choices");
  refused({"inspect", model, "-p", "x", "--cache", "quantized"}, 2, "--kv");
}

TEST(CoarseCodecs, AreWarnedOfWhereverTheyAreChosen) {
  const std::string model = tiny("llama_tied");
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"inspect", model, "-p", "x", "-n", "1", "--kv", "q2"},
           {"run", model, "-p", "x", "-n", "1", "--kv", "f16/q2"},
           {"score", model, "-p", "hello there", "--kv-k", "q2"},
           {"info", model, "--kv", "q2"},
           {"bench", model, "--prefill", "8", "--decode", "1", "-r", "1", "--kv", "q2"},
           {"verify", model, "-p", "x", "-n", "1", "--kv", "q2", "--lengths", "1"}}) {
    const RunResult result = run_quire(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("2 bits")) << args.front();
  }
  EXPECT_THAT(run_quire({"info", model, "--kv", "q3"}).err, Not(HasSubstr("2 bits")));
}

TEST(PagePicture, NamesRunsOfLayers) {
  EXPECT_EQ(ranges({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(ranges({}), "");
  EXPECT_EQ(bar(0.5, 4), "██░░");
}

}  // namespace
}  // namespace quire::cli
