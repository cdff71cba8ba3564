#include "engine/summary_writer.h"

#include <algorithm>

#include "engine/generate.h"
#include "engine/prompt.h"

namespace quire::engine {
namespace {

/// Room for the instruction and what the template writes.
constexpr int64_t kInstructionTokens = 160;

}  // namespace

bool writes_summaries_well(const Model& model) {
  const model::ModelConfig& c = model.config();
  const int64_t hidden = c.hidden;
  const int64_t a_layer = 4 * hidden * hidden + 3 * hidden * int64_t{c.ffn};
  return model.chat_template() != nullptr &&
         a_layer * int64_t{c.num_layers} + hidden * int64_t{c.vocab} >= kLeastParametersToSummarise;
}

int64_t SummaryWriter::most_input_tokens() const {
  // A quarter of what it reads comes out again.
  return std::max<int64_t>((engine_.window().tokens - kInstructionTokens) * 3 / 4, 16);
}

Result<std::string> SummaryWriter::write(std::string_view instruction, std::string_view text,
                                         int64_t max_tokens) {
  context::ChatRequest request;
  formats::Json message;
  message.set("role", "user");
  message.set("content", std::string(instruction) + "\n\n" + std::string(text));
  request.messages.push_back(std::move(message));
  const auto special = model_.tokenizer().special_tokens();
  request.special_tokens = {special.begin(), special.end()};
  QUIRE_TRY(const Prompt prompt, chat_prompt(model_.tokenizer(), *model_.chat_template(), request));
  GenerateOptions options;
  options.sampling.temperature = 0.0;
  options.max_tokens = max_tokens;
  Sequence sequence = engine_.create_sequence();
  const GenerateEvents events{.on_prefill = [this](int64_t, int64_t) { return go_on_(); },
                              .on_text = [this](std::string_view) { return go_on_(); }};
  QUIRE_TRY(Generated generated, generate(engine_, sequence, prompt.tokens, options, events));
  if (generated.finish == FinishReason::kInterrupted) return Error{ErrorCode::kInterrupted, ""};
  const auto& tags = model_.chat_template()->traits().reasoning_tags;
  const size_t thought = tags ? generated.text.find(tags->second) : std::string::npos;
  if (thought != std::string::npos) generated.text.erase(0, thought + tags->second.size());
  return std::move(generated.text);
}

}  // namespace quire::engine
