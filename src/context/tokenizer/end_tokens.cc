#include "context/tokenizer/end_tokens.h"

#include <algorithm>
#include <array>

namespace quire::context {
namespace {

constexpr auto kNames = std::to_array<std::string_view>({
    "<|eot_id|>",                               // Llama 3
    "<|eom_id|>",                               // Llama 3, before a tool call
    "<|im_end|>",                               // ChatML: Qwen, SmolLM
    "<end_of_turn>",                            // Gemma
    "<|endoftext|>",                            // GPT-2 and many after it
    "<|end_of_text|>",                          // Llama 3, Granite
    "<EOT>",                                    // Code Llama
    "<end_of_utterance>",                       // SmolVLM
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",  // DeepSeek
    "<|return|>",                               // gpt-oss
    "<|call|>",                                 // gpt-oss, before a tool call
});

/// Ends an answer of Phi-3, but only a message of gpt-oss, whose answers end with "<|return|>".
constexpr std::string_view kEnd = "<|end|>";

}  // namespace

bool is_end_token_name(std::string_view name) {
  return std::ranges::find(kNames, name) != kNames.end();
}

std::vector<int32_t> end_tokens(std::span<const AddedToken> added) {
  std::vector<int32_t> ids;
  const bool ends_messages = std::ranges::any_of(
      added, [](const AddedToken& token) { return token.content == "<|return|>"; });
  for (const AddedToken& token : added) {
    if (is_end_token_name(token.content) || (token.content == kEnd && !ends_messages)) {
      ids.push_back(token.id);
    }
  }
  return ids;
}

}  // namespace quire::context
