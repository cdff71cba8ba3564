// quantize: writes a model as one GGUF file in another weight type.
#include <fmt/format.h>

#include "base/byte_size.h"
#include "base/machine.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/model_path.h"
#include "cli/option_parser.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/quantize.h"

namespace quire::cli {
namespace {

using formats::Json;

struct Arguments {
  std::vector<std::string> paths;  // IN, OUT
  std::optional<ElementType> type;
  std::optional<int64_t> threads;
  bool force = false;
  OutputOptions output;
};

ApplyOption store_type(std::optional<ElementType>& target) {
  return [&target](std::string_view option, std::string_view value) -> Result<void> {
    target = engine::quantize_type_from_name(value);
    if (target) return {};
    return Error{
        ErrorCode::kUsage,
        fmt::format("{} {}: a model is written as f16, q8_0, q4_0 or q4_1", option, value)};
  };
}

void declare(OptionParser& parser, Arguments& arguments) {
  parser.positional(arguments.paths, 2);
  parser.heading("Quantize");
  parser.add({{"--type"},
              "TYPE",
              "f16, q8_0, q4_0 or q4_1: what the weight matrices are stored as",
              store_type(arguments.type)});
  parser.add({{"--force"}, "", "replace OUT if it exists", set(arguments.force)});
  parser.add({{"-t", "--threads"},
              "N",
              "threads (default: one for each physical core)",
              store_int(arguments.threads, 1, 1024)});
  declare(parser, arguments.output);
}

Result<void> check(const Arguments& arguments) {
  if (arguments.paths.size() != 2) {
    return Error{ErrorCode::kUsage,
                 "quantize takes the model and the file to write: 'quire quantize IN OUT --type "
                 "q8_0'"};
  }
  if (!arguments.type) {
    return Error{ErrorCode::kUsage, "as what? --type f16, q8_0, q4_0 or q4_1"};
  }
  return {};
}

/// Writing onto what is being read would destroy it.
Result<void> check_differ(const formats::ModelFiles& files, const std::string& out) {
  for (const std::string& in : files.files()) {
    if (!is_same_file(in, out)) continue;
    return Error{ErrorCode::kUsage,
                 fmt::format("{} is the model that is read: give OUT another name", out)};
  }
  return {};
}

std::string counts(const engine::QuantizeReport& report) {
  std::string text;
  for (const auto& [type, count] : report.tensors) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, type);
  }
  return text;
}

Json to_json(const std::string& path, const engine::QuantizeReport& report) {
  Json json;
  json.set("path", path);
  json.set("file_bytes", report.file_bytes);
  Json tensors(Json::Object{});
  for (const auto& [type, count] : report.tensors) tensors.set(type, count);
  json.set("tensors", std::move(tensors));
  Json remarks(Json::Array{});
  for (const std::string& remark : report.remarks) remarks.push_back(remark);
  json.set("remarks", std::move(remarks));
  return json;
}

Result<void> run_quantize(const Command& self, const Environment& env,
                          std::span<const std::string> args) {
  Arguments arguments;
  OptionParser parser("quire quantize");
  declare(parser, arguments);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};
  QUIRE_TRY_VOID(check(arguments));
  QUIRE_TRY(const std::string in, resolve_model(env, arguments.paths[0]));
  const std::string& out = arguments.paths[1];
  QUIRE_TRY(const formats::ModelFiles files, formats::ModelFiles::open(env.files, in));
  QUIRE_TRY_VOID(check_differ(files, out));
  QUIRE_TRY(const auto file,
            create_file(out, arguments.force ? IfExists::kReplace : IfExists::kRefuse));

  Output output(env, arguments.output);
  const auto progress = [&](double share) {
    output.progress("quantizing", share);
    return !interrupted();
  };
  const int32_t cores = inspect_machine(env.files).default_threads;
  const auto done =
      engine::quantize_model(files,
                             {.type = *arguments.type,
                              .threads = static_cast<int32_t>(arguments.threads.value_or(cores)),
                              .progress = progress},
                             *file);
  output.clear_progress();
  if (!done.ok()) return done.error();
  for (const std::string& remark : done->remarks) output.remark(remark);
  output.text(fmt::format("{}: {}, {}\n", out, format_bytes(static_cast<int64_t>(done->file_bytes)),
                          counts(*done)));
  return output.finish(to_json(out, *done));
}

}  // namespace

const Command kQuantizeCommand = {
    .name = "quantize",
    .arguments = "IN OUT --type TYPE [options]",
    .summary = "write a model as a GGUF file in another weight type",
    .example =
        "  quire quantize ./Llama-3.2-1B-Instruct llama-q8_0.gguf --type q8_0\n"
        "  quire quantize model-f16.gguf model-q4_1.gguf --type q4_1\n",
    .run = run_quantize,
};

}  // namespace quire::cli
