// answer_fuzz.cc: whatever a model writes, the events do not depend on how it was cut into pieces,
// and arguments of calls are JSON objects. The first byte chooses the format, the second the
// pieces.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "context/answer_parser.h"
#include "formats/json.h"

namespace {

using namespace quire::context;

void append(AnswerEvents& events, AnswerEvents more) {
  for (AnswerEvent& event : more) {
    const bool continues = !events.empty() && events.back().kind == event.kind &&
                           event.kind != AnswerEvent::Kind::kToolCall;
    if (continues) {
      events.back().text += event.text;
    } else {
      events.push_back(std::move(event));
    }
  }
}

AnswerEvents parse(const AnswerFormat& format, std::string_view text, size_t piece_bytes) {
  AnswerParser parser(format, "");
  AnswerEvents events;
  for (size_t at = 0; at < text.size(); at += piece_bytes) {
    append(events, parser.push(text.substr(at, piece_bytes)));
  }
  append(events, parser.finish());
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  AnswerFormat format;
  format.tool_calls = static_cast<ToolCallFormat>(data[0] % 8);
  if ((data[0] & 0x80) != 0) format.reasoning_tags = {"<think>", "</think>"};
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  const AnswerEvents whole = parse(format, text, text.size() + 1);
  QUIRE_CHECK(whole == parse(format, text, 1 + data[1] % 16), "pieces change nothing");
  for (const AnswerEvent& event : whole) {
    const bool is_call = event.kind == AnswerEvent::Kind::kToolCall;
    QUIRE_CHECK(is_call != event.call.name.empty(), "calls have names, and they alone");
    if (!is_call) continue;
    const auto arguments = quire::formats::Json::parse(event.call.arguments, "arguments");
    QUIRE_CHECK(arguments.ok() && arguments->is_object(), "arguments are an object");
  }
  return 0;
}
