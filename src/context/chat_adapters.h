// chat_adapters.h: a conversation rewritten into the form that one template understands.
//
// Clients send OpenAI's message format; templates differ in what they accept of it. Which rewriting
// a template needs is decided once, by chat_traits.h; applying it is a pure function of messages
// and decision, so that a growing conversation keeps its prefix. Functions without state.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "formats/json.h"

namespace quire::context {

/// How a template wants its input.
struct Adapters {
  enum class Arguments : uint8_t { kObject, kString };
  /// An assistant's content beside tool calls, when the client sent null or nothing.
  enum class NullContent : uint8_t { kEmptyString, kNull, kAbsent };
  enum class Content : uint8_t { kString, kParts };
  enum class System : uint8_t { kOwnMessage, kFoldIntoUser };

  Arguments arguments = Arguments::kObject;
  NullContent null_content = NullContent::kEmptyString;
  Content content = Content::kString;
  System system = System::kOwnMessage;
};

struct AdaptedMessage {
  formats::Json message;
  size_t index = 0;  // of the request's message it was made from
  /// System messages that go before the content: their index and text.
  std::vector<std::pair<size_t, std::string>> folded;
};

struct AdaptedConversation {
  std::vector<AdaptedMessage> messages;
  std::vector<std::string> notes;  // what the adapters changed, one sentence each
  bool keeps_null_content = false;
};

/// Requires an array of objects.
AdaptedConversation adapt(const formats::Json& messages, const Adapters& adapters);
/// The same messages, unchanged.
AdaptedConversation unadapted(const formats::Json& messages);

}  // namespace quire::context
