#include "engine/describe.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/printable.h"
#include "model/architecture.h"
#include "model/weights.h"

namespace quire::engine {
namespace {

using context::Tokenizer;
using formats::Json;
using formats::ModelFiles;
using formats::TensorInfo;

std::string architecture_name(const ModelFiles& files) {
  if (files.gguf() != nullptr) {
    const auto name = files.gguf()->get<std::string_view>("general.architecture");
    return name.ok() && *name ? formats::printable(**name) : "";
  }
  const Json* type = files.config() != nullptr ? files.config()->find("model_type") : nullptr;
  return type != nullptr && type->as_string() != nullptr ? formats::printable(*type->as_string())
                                                         : "";
}

void describe_tensors(const ModelFiles& files, ModelDescription& out) {
  std::string unreadable;
  int64_t num_unreadable = 0;
  const TensorInfo* cut_off = nullptr;
  int64_t num_cut_off = 0;
  for (const TensorInfo& tensor : files.tensors()) {
    ++out.tensors[tensor.type_name];
    out.weights_bytes += tensor.num_bytes;
    if (!tensor.type && num_unreadable++ == 0) {
      unreadable = fmt::format("tensor {} is stored as {}", formats::printable(tensor.name),
                               tensor.type_name);
    }
    if (tensor.num_bytes > 0 && tensor.bytes.empty() && num_cut_off++ == 0) cut_off = &tensor;
  }
  if (num_unreadable > 0) {
    out.warnings.push_back(fmt::format("{}, which Quire does not read ({} of {} tensors)",
                                       unreadable, num_unreadable, files.tensors().size()));
  }
  if (num_cut_off > 0) {
    out.warnings.push_back(
        fmt::format("the file ends before the data of tensor {} ({} of {} tensors are cut off): "
                    "download it again",
                    formats::printable(cut_off->name), num_cut_off, files.tensors().size()));
  }
  if (!files.missing().empty()) out.warnings.push_back(files.missing());
  if (files.tensors().empty() && files.missing().empty()) {
    out.warnings.push_back("there are no weights here");
  }
}

/// tokenizer_config.json promises a length that the model was not trained for. Absurd lengths stand
/// for "no limit".
void compare_lengths(const ModelFiles& files, const model::ModelConfig& config,
                     std::vector<std::string>& warnings) {
  constexpr double kNoLimit = 1e9;
  const auto text = files.read_sibling("tokenizer_config.json");
  if (!text.ok() || !*text) return;
  const auto json = Json::parse((*text)->text(), "tokenizer_config.json");
  const Json* length = json.ok() ? json->find("model_max_length") : nullptr;
  const double promised = length != nullptr ? length->as_double().value_or(0) : 0;
  if (promised <= config.context || promised >= kNoLimit) return;
  warnings.push_back(
      fmt::format("tokenizer_config.json speaks of {:.0f} tokens (model_max_length), but the model "
                  "was trained for {}: beyond those its answers fall apart",
                  promised, config.context));
}

void describe_config(const ModelFiles& files, ModelDescription& out) {
  auto described = model::describe(files);
  if (!described.ok()) {
    out.warnings.push_back(described.error().message);
    return;
  }
  out.config = std::move(described->config);
  compare_lengths(files, *out.config, out.warnings);
  if (out.config->vocab > 0 && out.tokenizer && out.tokenizer->vocab > out.config->vocab) {
    out.warnings.push_back(
        fmt::format("the tokenizer has {} tokens but the model only {}: ids beyond that cannot be "
                    "computed",
                    out.tokenizer->vocab, out.config->vocab));
  }
}

TokenizerDescription describe_tokenizer(const Tokenizer& tokenizer) {
  TokenizerDescription out;
  out.kind = tokenizer.description();
  out.vocab = tokenizer.vocab_size();
  const auto spelled = [&](std::optional<TokenId> id) {
    return id ? std::string(tokenizer.piece(*id)) : std::string();
  };
  out.bos = spelled(tokenizer.bos());
  out.eos = spelled(tokenizer.eos());
  for (const TokenId id : tokenizer.end_of_generation()) out.ends.push_back(spelled(id));
  out.adds_bos = tokenizer.add_bos();
  out.adds_eos = tokenizer.add_eos();
  return out;
}

/// A template that ends a turn with text the vocabulary has no control token for lets the model
/// talk on and on.
void compare_with_template(const Tokenizer& tokenizer, const context::TemplateTraits& traits,
                           std::vector<std::string>& warnings) {
  if (traits.prints_bos && tokenizer.add_bos()) {
    warnings.push_back(
        "the chat template prints the BOS token and the tokenizer would add one more; Quire keeps "
        "the template's only");
  }
  for (const std::string& after : traits.after_answer) {
    const auto ids = tokenizer.encode(after, context::Special::kParse);
    if (std::ranges::any_of(ids, [&](TokenId id) { return tokenizer.is_control(id); })) return;
  }
  if (traits.after_answer.empty()) return;
  warnings.push_back(fmt::format(
      "template and vocabulary disagree: after an answer the template writes '{}', in which the "
      "vocabulary has no control token; give another template with --chat-template FILE",
      formats::printable(traits.after_answer.front())));
}

void describe_text(const ModelFiles& files, ModelDescription& out) {
  auto text = load_model_text(files, std::nullopt);
  if (!text.ok()) {
    out.warnings.push_back(text.error().message);
    return;
  }
  const Tokenizer& tokenizer = *text->tokenizer;
  out.tokenizer = describe_tokenizer(tokenizer);
  out.sampling = text->sampling;
  if (tokenizer.end_of_generation().empty()) {
    out.warnings.push_back(
        "no token ends an answer: generation stops only at -n, --stop or the window's end");
  }
  if (!text->template_problem.empty()) {
    out.warnings.push_back("the chat template cannot be used: " + text->template_problem);
  }
  if (!text->chat_template) return;
  out.chat_template = text->chat_template->traits();
  compare_with_template(tokenizer, *out.chat_template, out.warnings);
}

}  // namespace

ModelDescription describe_model(const ModelFiles& files) {
  ModelDescription out;
  out.path = files.path();
  out.format = files.kind() == ModelFiles::Kind::kGguf ? "gguf" : "huggingface";
  out.architecture = architecture_name(files);
  out.files = files.files();
  out.file_bytes = files.total_bytes();
  out.parameters = model::count_parameters(files);
  describe_tensors(files, out);
  describe_text(files, out);
  describe_config(files, out);
  return out;
}

Result<ModelDescription> describe_model(FileSystem& file_system, const std::string& path) {
  QUIRE_TRY(const ModelFiles files,
            ModelFiles::open(file_system, path, formats::OpenMode::kMetadataOnly));
  return describe_model(files);
}

std::optional<int64_t> trained_context(const formats::ModelFiles& files) {
  const auto described = model::describe(files);
  if (!described.ok()) return std::nullopt;
  return described->config.context;
}

}  // namespace quire::engine
