// chat_traits.h: finds out what a template can do and how it wants its input, by rendering probes.
//
// A probe is a tiny conversation with unmistakable words; what comes out, or that nothing does,
// shows the trait. Probes run under small limits, and a template that fails them all still has a
// profile. A function without state.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "context/chat_adapters.h"
#include "context/chat_template.h"
#include "context/jinja/template.h"

namespace quire::context {

struct TemplateProfile {
  TemplateTraits traits;
  Adapters adapters;
};

TemplateProfile profile_template(
    const jinja::Template& compiled, std::string_view source,
    const std::vector<std::pair<std::string, std::string>>& special_tokens);

}  // namespace quire::context
