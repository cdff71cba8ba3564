// jinja_peer.cc: renders templates, line by line, for compare_jinja.py.
//
// Each line of stdin is {"template": ..., "variables": {...}}; each line of stdout is {"text": ...}
// or {"error": ...}.
#include <chrono>
#include <iostream>
#include <string>

#include "context/jinja/from_json.h"
#include "context/jinja/template.h"
#include "formats/json.h"

namespace {

using namespace quire;
using formats::Json;

Result<std::string> render(const Json& request) {
  QUIRE_TRY(const auto compiled,
            context::jinja::Template::parse(*request.find("template")->as_string()));
  context::jinja::Variables variables;
  for (const auto& [name, json] : *request.find("variables")->as_object()) {
    QUIRE_TRY(auto value, context::jinja::from_json(json, 1));
    variables.emplace_back(name, std::move(value));
  }
  // compare_jinja.py pins the same moment.
  const std::chrono::sys_seconds now(std::chrono::seconds(1721997296));
  QUIRE_TRY(const auto rendered, compiled.render(variables, now));
  return std::string(rendered.text.bytes());
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    Json answer;
    const auto request = Json::parse(line, "the request");
    if (!request.ok()) {
      answer.set("error", request.error().message);
    } else if (const auto text = render(*request); text.ok()) {
      answer.set("text", *text);
    } else {
      answer.set("error", text.error().message);
    }
    std::cout << answer.dump() << std::endl;
  }
}
