#include "context/chat_template.h"

#include <fmt/format.h>

#include <ctime>

#include "context/chat_adapters.h"
#include "context/chat_renderer.h"
#include "context/chat_traits.h"
#include "context/jinja/template.h"

namespace quire::context {
namespace {

Result<void> check_messages(const formats::Json& messages) {
  const formats::Json::Array* array = messages.as_array();
  if (array == nullptr) return Error{ErrorCode::kUsage, "messages must be an array"};
  for (size_t i = 0; i < array->size(); ++i) {
    if (!(*array)[i].is_object()) {
      return Error{ErrorCode::kUsage, fmt::format("messages[{}] must be an object", i)};
    }
  }
  return {};
}

}  // namespace

struct ChatTemplate::Impl {
  jinja::Template compiled;
  TemplateProfile profile;
};

Result<ChatTemplate> ChatTemplate::parse(
    std::string_view source, std::vector<std::pair<std::string, std::string>> special_tokens) {
  auto compiled = jinja::Template::parse(source);
  if (!compiled.ok()) {
    Error error = std::move(compiled).error();
    error.message = "chat template, " + error.message;
    return error;
  }
  TemplateProfile profile = profile_template(*compiled, source, special_tokens);
  return ChatTemplate(std::make_shared<const Impl>(Impl{*std::move(compiled), std::move(profile)}));
}

Result<RenderedPrompt> ChatTemplate::render(const ChatRequest& request) const {
  QUIRE_TRY_VOID(check_messages(request.messages));
  return render_conversation(impl_->compiled, request,
                             adapt(request.messages, impl_->profile.adapters));
}

Result<RenderedPrompt> ChatTemplate::render_verbatim(const ChatRequest& request) const {
  QUIRE_TRY_VOID(check_messages(request.messages));
  return render_conversation(impl_->compiled, request, unadapted(request.messages));
}

const TemplateTraits& ChatTemplate::traits() const {
  return impl_->profile.traits;
}

std::chrono::sys_seconds local_wall_clock() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return std::chrono::sys_seconds(std::chrono::seconds(now + local.tm_gmtoff));
}

}  // namespace quire::context
