// Random templates and what jinja2 made of them (tools/oracle/compare_jinja.py --goldens).
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "context/jinja/from_json.h"
#include "context/jinja/template.h"

namespace quire::context::jinja {
namespace {

using formats::Json;

Result<std::string> render(const std::string& source, const Variables& variables) {
  QUIRE_TRY(const Template compiled, Template::parse(source));
  QUIRE_TRY(const Rendered rendered, compiled.render(variables, {}));
  return std::string(rendered.text.bytes());
}

TEST(JinjaGolden, RendersRandomTemplatesAsJinja2Does) {
  std::ifstream file(QUIRE_TEST_DATA "/jinja/random.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const Json header = Json::parse(line, "the goldens").value();
  Variables variables;
  for (const auto& [name, json] : *header.find("variables")->as_object()) {
    variables.emplace_back(name, from_json(json, kTemplateOrigin).value());
  }
  int num_rendered = 0, num_failing = 0;
  while (std::getline(file, line)) {
    const Json golden = Json::parse(line, "the goldens").value();
    const std::string& source = *golden.find("template")->as_string();
    const Result<std::string> text = render(source, variables);
    if (const Json* expected = golden.find("text")) {
      ++num_rendered;
      ASSERT_TRUE(text.ok()) << source << "\n" << text.error().message;
      EXPECT_EQ(*text, *expected->as_string()) << source;
    } else {
      ++num_failing;
      EXPECT_FALSE(text.ok()) << source << "\n" << *text;
    }
  }
  EXPECT_GT(num_rendered, 400);
  EXPECT_GT(num_failing, 50);
}

}  // namespace
}  // namespace quire::context::jinja
