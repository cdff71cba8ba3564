// jinja_conversation.h: the conversation that the template harnesses render, and what every render
// must be.
//
// A render ends in an error with its line, or in text whose every byte has an origin, within its
// limits. Functions without state but for a conversation that is made once.
#pragma once
#include <string_view>

#include "base/check.h"
#include "context/jinja/from_json.h"
#include "context/jinja/template.h"
#include "formats/json.h"

namespace quire {

inline const context::jinja::Variables& jinja_conversation() {
  using namespace context;
  static const jinja::Variables values = [] {
    constexpr std::string_view kMessages =
        R"([{"role": "system", "content": "S"}, {"role": "user", "content": "h\u00e9 a <|im_end|>"},
            {"role": "assistant", "content": "", "tool_calls": [{"function":
            {"name": "f", "arguments": {"x": [1, 2.5, null, true]}}}]}])";
    const auto json = formats::Json::parse(kMessages, "the messages").value();
    jinja::Variables out;
    out.emplace_back("messages", jinja::from_json(json, 1).value());
    out.emplace_back("add_generation_prompt", jinja::Value(true));
    out.emplace_back("tools", jinja::Value());
    return out;
  }();
  return values;
}

/// Parses and renders; aborts if an error does not name its line or a byte has no origin.
inline void check_jinja_render(std::string_view source) {
  using namespace context;
  const auto compiled = jinja::Template::parse(source);
  if (!compiled.ok()) {
    QUIRE_CHECK(compiled.error().message.rfind("line ", 0) == 0, "a syntax error names its line");
    return;
  }
  // Tight, so that an input which runs into them costs milliseconds under the sanitizers.
  const jinja::Limits limits{
      .max_steps = 4'000, .max_output_bytes = 64 << 10, .max_live_bytes = 1 << 20};
  const auto rendered = compiled->render(jinja_conversation(), {}, limits);
  if (!rendered.ok()) {
    QUIRE_CHECK(rendered.error().message.rfind("line ", 0) == 0, "an error names its line");
    return;
  }
  QUIRE_CHECK_LE(rendered->text.size(), limits.max_output_bytes);
  size_t begin = 0;
  for (const jinja::OriginRun& run : rendered->text.runs()) {
    QUIRE_CHECK_LT(begin, run.end);
    begin = run.end;
  }
  QUIRE_CHECK_EQ(begin, rendered->text.size());
}

}  // namespace quire
