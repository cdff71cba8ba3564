// request_fuzz.cc: whatever body a client sends, each API's parameters are read or refused in a
// sentence. What one reads is within the limits that the engine relies on.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/chat_params.h"
#include "server/fields.h"
#include "server/generation_params.h"
#include "server/ollama_params.h"
#include "server/responses_params.h"
#include "server/tools_as_text.h"

namespace {

using namespace quire::server;

constexpr int32_t kVocab = 1000;

void check(const Fields& fields, const GenerationParams& params) {
  if (fields.error()) {
    QUIRE_CHECK(!fields.error()->message.empty(), "an error says what is wrong");
    QUIRE_CHECK(fields.error()->status >= 400 && fields.error()->status < 500, "a 4xx");
    return;
  }
  QUIRE_CHECK(quire::engine::check_sampling(params.options.sampling, kVocab).ok(),
              "sampling that was read can be used");
  QUIRE_CHECK_LE(params.options.stop.size(), kMostStops);
  QUIRE_CHECK(params.choices >= 1 && params.choices <= kMostChoices, "choices within their range");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  ApiResult<quire::formats::Json> json = parse_body(body);
  if (!json.ok()) return 0;
  GenerationDefaults defaults;
  defaults.vocab = kVocab;
  {
    Fields fields(*json);
    const ChatParams chat = read_chat(fields);
    check(fields, read_generation(fields, defaults));
    if (fields.ok()) with_tools_as_text(chat.messages, chat.tools);
  }
  {
    Fields fields(*json);
    check(fields, read_responses(fields, defaults, Keeps::kConversations).params);
  }
  {
    Fields fields(*json);
    check(fields, read_ollama_chat(fields, defaults).params);
  }
  {
    Fields fields(*json);
    check(fields, read_ollama_generate(fields, defaults).params);
  }
  return 0;
}
