// window_testing.h: templates, tokenizers and random conversations for the window's tests.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "context/chat_template.h"
#include "context/tokenizer.h"
#include "context/window/keep_plan.h"
#include "context/window/request.h"

namespace quire::context::window {

/// A template of this repository or of the shared ones, and what it can do.
struct NamedTemplate {
  std::string name;
  std::string source;
  std::vector<std::pair<std::string, std::string>> special_tokens;
};
/// The committed ones, then those of ../shared/templates where they are at hand.
const std::vector<NamedTemplate>& all_templates();
ChatTemplate parse_template(const NamedTemplate& named);
/// A committed one: "chatml", "alternating", "systemless".
const NamedTemplate& named_template(const std::string& name);

/// A byte-level tokenizer with few merges: about a token a character.
const Tokenizer& small_tokenizer();

inline formats::Json message(const std::string& role, const std::string& content) {
  formats::Json json;
  json.set("role", role);
  json.set("content", content);
  return json;
}
formats::Json tool_call(const std::string& id, const std::string& tool,
                        const std::string& argument);
formats::Json tool_result(const std::string& id, const std::string& tool, const std::string& text);

/// A request over these messages. Requires well-formed x_context.
WindowRequest request_of(formats::Json::Array messages, Policy policy);

/// A conversation that the template renders: system, examples, turns with calls, a question.
/// Every message holds words of its own ("w17-3"), so that what stands can be told.
WindowRequest random_request(std::mt19937& random, const ChatTemplate& chat_template);

}  // namespace quire::context::window
