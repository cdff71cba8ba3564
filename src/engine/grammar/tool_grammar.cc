#include "engine/grammar/tool_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/grammar/json_schema.h"
#include "formats/printable.h"

namespace quire::engine::grammar {
namespace {

using context::ToolCallFormat;
using formats::Json;

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

struct Tool {
  std::string name;
  RuleId arguments;
};

bool is_plain_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

/// The schema of a function's arguments, which are always an object.
Result<Json> arguments_schema(const Json& function, std::string_view name) {
  const Json* parameters = function.find("parameters");
  Json schema{Json::Object{}};
  if (parameters == nullptr || parameters->is_null()) {
    schema.set("additionalProperties", false);
  } else if (parameters->is_object()) {
    schema = *parameters;
  } else {
    return usage(fmt::format("the parameters of the tool {} must be a JSON schema",
                             formats::printable(name)));
  }
  const Json* type = schema.find("type");
  if (type == nullptr) {
    schema.set("type", "object");
  } else if (*type != Json("object")) {
    return usage(fmt::format("the parameters of the tool {} must have type object",
                             formats::printable(name)));
  }
  return schema;
}

/// Those of `tools` that may be called.
Result<std::vector<Tool>> callable_tools(JsonRules& rules, const Json& tools,
                                         const ToolChoice& choice) {
  if (!tools.is_array()) return usage("tools must be an array");
  std::vector<Tool> callable;
  for (const Json& entry : *tools.as_array()) {
    const Json* function = entry.find("function");
    const Json& definition = function != nullptr ? *function : entry;
    const Json* name = definition.find("name");
    if (name == nullptr || !name->is_string()) return usage("a tool needs a function with a name");
    if (choice.name && *choice.name != *name->as_string()) continue;
    if (!is_plain_name(*name->as_string())) {
      return usage(fmt::format("the tool name {} may hold letters, digits, _, - and . only",
                               formats::printable(*name->as_string())));
    }
    QUIRE_TRY(const Json schema, arguments_schema(definition, *name->as_string()));
    auto arguments = json_schema_rule(rules, schema);
    if (!arguments.ok()) {
      return usage(fmt::format("the parameters of the tool {}: {}", *name->as_string(),
                               arguments.error().message));
    }
    callable.push_back({*name->as_string(), *arguments});
  }
  if (!callable.empty()) return callable;
  if (choice.name) {
    return usage(fmt::format("tool_choice names {}, which is none of the tools",
                             formats::printable(*choice.name)));
  }
  return usage("tool_choice asks for a call, but there are no tools");
}

/// Writes calls from their ends.
class CallWriter {
 public:
  CallWriter(JsonRules& rules, const CallWriting& writing, std::vector<Tool> tools)
      : builder_(rules.builder()), writing_(writing), tools_(std::move(tools)) {}

  Result<RuleId> write(int32_t most_calls) {
    const NodeId done = builder_.done();
    switch (writing_.format) {
      case ToolCallFormat::kNone:
        return unsupported("this model's chat template has no format for calls of tools");
      case ToolCallFormat::kTagged:
        if (mentions("<function=") || mentions("<arg_key>")) {
          return unsupported(
              "this model writes the arguments of a call as tags, which cannot be forced yet");
        }
        return separated("", "\n", "", most_calls, [&](NodeId next) { return tagged(next); });
      case ToolCallFormat::kLlama3:
        return builder_.rule(object("name", "parameters", done));
      case ToolCallFormat::kMistral:
        if (mentions("[ARGS]")) {
          return separated("", "", "", most_calls, [&](NodeId next) {
            return marker("[TOOL_CALLS]",
                          named(
                              "", [&](NodeId rest) { return marker("[ARGS]", rest); }, next));
          });
        }
        return builder_.rule(marker("[TOOL_CALLS]", array("[", "]", most_calls)));
      case ToolCallFormat::kDeepSeek:
        return deepseek(most_calls);
      case ToolCallFormat::kFunctools:
        return builder_.rule(builder_.literal("functools", array("[", "]", most_calls)));
      case ToolCallFormat::kCommandR:
        return builder_.rule(command_r(most_calls));
      case ToolCallFormat::kHarmony:
        return builder_.rule(harmony());
    }
    return unsupported("this model's format for calls of tools is not known");
  }

 private:
  static Error unsupported(const char* why) {
    return {ErrorCode::kUnsupported,
            fmt::format("tool_choice cannot ask for a call: {}; leave it at \"auto\"", why)};
  }

  bool mentions(std::string_view text) const {
    return writing_.template_source.find(text) != std::string_view::npos;
  }

  /// A token of its own where the vocabulary has one, else its text.
  NodeId marker(std::string_view text, NodeId next) {
    const auto token = writing_.tokenizer->find(text);
    const bool whole = token && writing_.tokenizer->kind(*token) != context::TokenKind::kNormal;
    return whole ? builder_.token(*token, next) : builder_.literal(text, next);
  }

  NodeId arguments(const Tool& tool, NodeId next) {
    return builder_.call_deeper(tool.arguments, next);
  }

  /// {"name": NAME, "arguments": {...}}
  NodeId object(std::string_view name_key, std::string_view arguments_key, NodeId next) {
    std::vector<NodeId> ways;
    for (const Tool& tool : tools_) {
      const NodeId rest = builder_.literal(fmt::format(", \"{}\": ", arguments_key),
                                           arguments(tool, builder_.literal("}", next)));
      ways.push_back(builder_.literal(fmt::format("{{\"{}\": \"{}\"", name_key, tool.name), rest));
    }
    return builder_.choice(ways);
  }

  /// `before`, NAME, what `between` writes, {...}
  template <class Between>
  NodeId named(std::string_view before, const Between& between, NodeId next) {
    std::vector<NodeId> ways;
    for (const Tool& tool : tools_) {
      ways.push_back(builder_.literal(tool.name, between(arguments(tool, next))));
    }
    return builder_.literal(before, builder_.choice(ways));
  }

  /// One to `most` of what `one` writes.
  template <class One>
  RuleId separated(std::string_view open, std::string_view between, std::string_view close,
                   int32_t most, const One& one) {
    const NodeId done = builder_.done();
    const RuleId more = builder_.rule(builder_.literal(between, one(done)));
    const NodeId end = builder_.literal(close, done);
    return builder_.rule(builder_.literal(open, one(builder_.repeat(more, 0, most - 1, end))));
  }

  NodeId array(std::string_view open, std::string_view close, int32_t most) {
    const RuleId calls = separated(open, ", ", close, most,
                                   [&](NodeId next) { return object("name", "arguments", next); });
    return builder_.call(calls, builder_.done());
  }

  NodeId tagged(NodeId next) {
    const NodeId close = builder_.literal("\n", marker("</tool_call>", next));
    return marker("<tool_call>", builder_.literal("\n", object("name", "arguments", close)));
  }

  RuleId deepseek(int32_t most) {
    const bool in_block = mentions("```json");
    const NodeId end = marker("<｜tool▁calls▁end｜>", builder_.done());
    const auto one = [&](NodeId next) {
      const NodeId close = marker("<｜tool▁call▁end｜>", next);
      NodeId call;
      if (in_block) {
        const NodeId named_call = named(
            "", [&](NodeId rest) { return builder_.literal("\n```json\n", rest); },
            builder_.literal("\n```", close));
        call = builder_.literal("function", marker("<｜tool▁sep｜>", named_call));
      } else {
        call = named(
            "", [&](NodeId rest) { return marker("<｜tool▁sep｜>", rest); }, close);
      }
      return marker("<｜tool▁call▁begin｜>", call);
    };
    const RuleId calls = separated("", in_block ? "\n" : "", "", most, one);
    return builder_.rule(marker("<｜tool▁calls▁begin｜>", builder_.call(calls, end)));
  }

  NodeId command_r(int32_t most) {
    const RuleId calls =
        separated("Action: ```json\n[\n", ",\n", "\n]\n```", most,
                  [&](NodeId next) { return object("tool_name", "parameters", next); });
    return builder_.call(calls, builder_.done());
  }

  /// One call: it ends the answer. // OpenAI harmony response format
  NodeId harmony() {
    const auto call = writing_.tokenizer->find("<|call|>");
    const bool ends = call && writing_.tokenizer->is_end_of_generation(*call);
    const NodeId end = ends ? builder_.done() : marker("<|call|>", builder_.done());
    const NodeId to = named(
        "commentary to=functions.",
        [&](NodeId rest) {
          return builder_.literal(
              " ", marker("<|constrain|>", builder_.literal("json", marker("<|message|>", rest))));
        },
        end);
    return marker("<|channel|>", to);
  }

  ProgramBuilder& builder_;
  const CallWriting& writing_;
  std::vector<Tool> tools_;
};

}  // namespace

Result<RuleId> tool_calls_rule(JsonRules& rules, const CallWriting& writing, const Json& tools,
                               const ToolChoice& choice) {
  constexpr int32_t kMostCalls = 64;
  if (choice.most_calls < 1 || choice.most_calls > kMostCalls) {
    return usage(fmt::format("at most {} calls can be asked for", kMostCalls));
  }
  QUIRE_TRY(std::vector<Tool> callable, callable_tools(rules, tools, choice));
  return CallWriter(rules, writing, std::move(callable)).write(choice.most_calls);
}

}  // namespace quire::engine::grammar
