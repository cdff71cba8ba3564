// generate: the smallest useful program on top of Quire: a model, one question, an answer that
// streams.
//
//   generate MODEL 'What is a quire?'
//
// MODEL is a GGUF file or a Hugging Face folder. Errors are one sentence on stderr and exit code 1.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/file_system.h"
#include "base/machine.h"
#include "base/result.h"
#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/generate.h"
#include "engine/model.h"
#include "engine/prompt.h"

namespace {

/// A model with a chat template gets the question as a user's message; any other continues the
/// text.
quire::Result<quire::engine::Prompt> make_prompt(const quire::engine::Model& model,
                                                 const std::string& question) {
  using namespace quire::engine;
  if (model.chat_template() == nullptr) {
    return raw_prompt(model.tokenizer(), question, RawText::kPlain, AddSpecial::kAsModel);
  }
  Conversation conversation(model.tokenizer(), *model.chat_template());
  conversation.add("user", question);
  return conversation.prompt();
}

quire::Result<void> answer(const std::string& path, const std::string& question) {
  using namespace quire::engine;
  QUIRE_TRY(const std::unique_ptr<Model> model,
            Model::load(quire::real_file_system(), path, ModelOptions()));

  // An engine owns the KV pages and the threads. The memory it may use is a ceiling, not a wish.
  const quire::Machine machine = quire::inspect_machine(quire::real_file_system());
  EngineOptions options;
  options.threads = machine.default_threads;
  options.memory_bytes = machine.available_memory_bytes / 2;
  QUIRE_TRY(const std::unique_ptr<Engine> engine, Engine::create(*model, options));

  QUIRE_TRY(const Prompt prompt, make_prompt(*model, question));
  GenerateOptions generation;
  generation.sampling.temperature = 0.0;  // the likeliest token, always
  generation.max_tokens = std::clamp<int64_t>(
      engine->window().tokens - static_cast<int64_t>(prompt.tokens.size()), 1, 128);

  // A sequence holds tokens with their keys and values; a next question would reuse them.
  Sequence sequence = engine->create_sequence();
  GenerateEvents events;
  events.on_text = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return std::fflush(stdout) == 0;
  };
  QUIRE_TRY(const Generated generated,
            generate(*engine, sequence, prompt.tokens, generation, events));
  std::fprintf(stderr, "\n%zu prompt tokens, %zu generated (%s)\n", prompt.tokens.size(),
               generated.tokens.size(), std::string(name(generated.finish)).c_str());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s MODEL QUESTION\n", argv[0]);
    return 2;
  }
  const quire::Result<void> done = answer(argv[1], argv[2]);
  if (!done.ok()) std::fprintf(stderr, "%s: %s\n", argv[0], done.error().message.c_str());
  return done.ok() ? 0 : 1;
}
