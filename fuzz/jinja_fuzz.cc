// jinja_fuzz.cc: any text as a chat template ends in an error or in text whose every byte has an
// origin. Parsing and execution share the harness: what parses is rendered with a fixed
// conversation.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "context/jinja/from_json.h"
#include "context/jinja/template.h"
#include "formats/json.h"

namespace {

using namespace quire::context;

const jinja::Variables& variables() {
  static const jinja::Variables values = [] {
    constexpr std::string_view kMessages =
        R"([{"role": "system", "content": "S"}, {"role": "user", "content": "h\u00e9 <|im_end|>"},
            {"role": "assistant", "content": "", "tool_calls": [{"function":
            {"name": "f", "arguments": {"x": [1, 2.5, null, true]}}}]}])";
    const auto json = quire::formats::Json::parse(kMessages, "the messages").value();
    jinja::Variables out;
    out.emplace_back("messages", jinja::from_json(json, 1).value());
    out.emplace_back("add_generation_prompt", jinja::Value(true));
    out.emplace_back("tools", jinja::Value());
    return out;
  }();
  return values;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto compiled = jinja::Template::parse(source);
  if (!compiled.ok()) {
    const std::string& message = compiled.error().message;
    QUIRE_CHECK(message.rfind("line ", 0) == 0, "a syntax error names its line");
    return 0;
  }
  const jinja::Limits limits{
      .max_steps = 50'000, .max_output_bytes = 1 << 20, .max_live_bytes = 4 << 20};
  const auto rendered = compiled->render(variables(), {}, limits);
  if (!rendered.ok()) {
    QUIRE_CHECK(rendered.error().message.rfind("line ", 0) == 0, "an error names its line");
    return 0;
  }
  size_t begin = 0;
  for (const jinja::OriginRun& run : rendered->text.runs()) {
    QUIRE_CHECK_LT(begin, run.end);
    begin = run.end;
  }
  QUIRE_CHECK_EQ(begin, rendered->text.size());
  return 0;
}
