#include "cli/batch_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace quire::cli {
namespace {

using formats::Json;

constexpr std::array<std::string_view, 8> kFields = {"id",
                                                     "prompt",
                                                     "messages",
                                                     "max_tokens",
                                                     "tools",
                                                     "documents",
                                                     "chat_template_kwargs",
                                                     "add_generation_prompt"};

Error usage(const std::string& where, std::string_view what) {
  return {ErrorCode::kUsage, fmt::format("{}: {}", where, what)};
}

Result<std::optional<int64_t>> parse_max_tokens(const Json& line, const std::string& where) {
  const Json* value = line.find("max_tokens");
  if (value == nullptr || value->is_null()) return std::optional<int64_t>();
  const auto count = value->as_int();
  if (!count || *count < 1) return usage(where, "max_tokens is no positive number");
  return std::optional(*count);
}

Result<BatchLine> parse_object(const Json& line, const std::string& where) {
  for (const auto& [field, value] : *line.as_object()) {
    if (std::ranges::count(kFields, field) > 0) continue;
    return usage(where, fmt::format("the field \"{}\" is not known; known are {}", field,
                                    fmt::join(kFields, ", ")));
  }
  BatchLine parsed{.prompt = {.name = where, .content = line}, .id = {}, .max_tokens = {}};
  if (const Json* id = line.find("id")) parsed.id = *id;
  QUIRE_TRY(parsed.max_tokens, parse_max_tokens(line, where));
  const Json* prompt = line.find("prompt");
  if ((prompt != nullptr) == (line.find("messages") != nullptr)) {
    return usage(where, "an object has either \"prompt\" or \"messages\"");
  }
  if (prompt == nullptr) return parsed;
  if (!prompt->is_string()) return usage(where, "\"prompt\" is no text");
  parsed.prompt.content = *prompt;
  return parsed;
}

Result<BatchLine> parse_line(std::string_view text, const std::string& where) {
  QUIRE_TRY(const Json line, Json::parse(text, where));
  if (line.is_object()) return parse_object(line, where);
  if (line.is_string() || line.is_array()) {
    return BatchLine{.prompt = {.name = where, .content = line}, .id = {}, .max_tokens = {}};
  }
  return usage(where, "a line is a text, an array of messages, or an object");
}

}  // namespace

Result<std::vector<BatchLine>> parse_batch(std::string_view text, const std::string& file) {
  std::vector<BatchLine> lines;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    QUIRE_TRY(BatchLine parsed, parse_line(line, fmt::format("{}, line {}", file, number)));
    lines.push_back(std::move(parsed));
  }
  if (lines.empty()) return usage(file, "no prompts; each line holds one");
  return lines;
}

}  // namespace quire::cli
