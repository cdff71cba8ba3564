// ollama_params.h: what Ollama's /api/chat and /api/generate are asked, as the others' parameters.
//
// Pure.
#pragma once
#include <optional>
#include <string>

#include "server/chat_params.h"
#include "server/generation_params.h"

namespace quire::server {

struct OllamaRequest {
  ChatParams chat;
  GenerationParams params;
  std::optional<int64_t> num_ctx;
  bool raw = false;         // no template
  bool only_loads = false;  // nothing is asked: the model is to be loaded
  std::string prompt;       // of /api/generate
};

OllamaRequest read_ollama_chat(Fields& fields, const GenerationDefaults& defaults);
OllamaRequest read_ollama_generate(Fields& fields, const GenerationDefaults& defaults);

}  // namespace quire::server
