#include "server/completion_params.h"

#include <fmt/format.h>

#include "server/generation_params.h"

namespace quire::server {
namespace {

using engine::Prompt;
using formats::Json;

Prompt text_prompt(const context::Tokenizer& tokenizer, const std::string& text) {
  return engine::raw_prompt(tokenizer, text, engine::RawText::kParse, engine::AddSpecial::kAsModel);
}

std::optional<Prompt> token_prompt(Fields& fields, const context::Tokenizer& tokenizer,
                                   const Json::Array& tokens) {
  Prompt prompt;
  prompt.tokens.reserve(tokens.size());
  for (const Json& token : tokens) {
    const std::optional<int64_t> id = token.as_int();
    if (!id || *id < 0 || *id >= tokenizer.vocab_size()) {
      fields.fail("prompt",
                  fmt::format("its token ids must be from 0 to {}.", tokenizer.vocab_size() - 1));
      return std::nullopt;
    }
    prompt.tokens.push_back(TokenId{static_cast<int32_t>(*id)});
  }
  const auto count = static_cast<int64_t>(prompt.tokens.size());
  prompt.runs.push_back({0, count, "tokens"});
  prompt.parts.push_back({"tokens", count});
  prompt.text = tokenizer.decode(prompt.tokens, context::SpecialText::kShow);
  return prompt;
}

}  // namespace

std::vector<Prompt> read_prompts(Fields& fields, const context::Tokenizer& tokenizer) {
  std::vector<Prompt> prompts;
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) {
    fields.fail("prompt", "it is missing.");
    return prompts;
  }
  if (const std::string* text = prompt->as_string()) {
    prompts.push_back(text_prompt(tokenizer, *text));
    return prompts;
  }
  const Json::Array* array = prompt->as_array();
  if (array == nullptr || array->empty()) {
    fields.fail("prompt", "it must be a string, an array of strings or an array of tokens.");
    return prompts;
  }
  if (array->front().is_number()) {
    if (auto tokens = token_prompt(fields, tokenizer, *array))
      prompts.push_back(*std::move(tokens));
    return prompts;
  }
  if (array->size() > kMostPrompts) {
    fields.fail("prompt", fmt::format("it must hold at most {} prompts.", kMostPrompts));
    return prompts;
  }
  for (const Json& each : *array) {
    if (const std::string* text = each.as_string()) {
      prompts.push_back(text_prompt(tokenizer, *text));
    } else if (each.is_array()) {
      auto tokens = token_prompt(fields, tokenizer, *each.as_array());
      if (!tokens) return prompts;
      prompts.push_back(*std::move(tokens));
    } else {
      fields.fail("prompt", fmt::format("its elements must be strings or arrays of tokens, not {}.",
                                        kind_of(each)));
      return prompts;
    }
  }
  return prompts;
}

std::optional<int32_t> read_completion_logprobs(Fields& fields) {
  const Json* logprobs = fields.find("logprobs");
  if (logprobs == nullptr) return std::nullopt;
  if (logprobs->is_bool()) {  // as llama-server and the chat route have it
    return *logprobs->as_bool() ? std::optional<int32_t>(0) : std::nullopt;
  }
  const auto top = fields.integer("logprobs", 0, kMostTopLogprobs);
  return top ? std::optional(static_cast<int32_t>(*top)) : std::nullopt;
}

}  // namespace quire::server
