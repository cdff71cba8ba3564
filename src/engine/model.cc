#include "engine/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked_math.h"
#include "base/machine.h"

namespace quire::engine {
namespace {

using context::ChatTemplate;
using context::Tokenizer;
using formats::Json;
using formats::ModelFiles;

/// The text of a sibling file, or "" if there is none.
Result<std::string> sibling(const ModelFiles& files, std::string_view name) {
  QUIRE_TRY(const auto text, files.read_sibling(name));
  return text ? std::string(text->text()) : std::string();
}

Result<Tokenizer> load_tokenizer(const ModelFiles& files) {
  if (files.gguf() != nullptr) return Tokenizer::from_gguf(*files.gguf());
  QUIRE_TRY(const auto tokenizer_json, files.read_sibling("tokenizer.json"));
  if (!tokenizer_json) {
    return Error{ErrorCode::kNotFound,
                 fmt::format("{} has no tokenizer.json, which Quire needs", files.path())};
  }
  QUIRE_TRY(const std::string config, sibling(files, "tokenizer_config.json"));
  return Tokenizer::from_json(tokenizer_json->text(), config);
}

/// A file of its own wins over the field inside tokenizer_config.json, as in transformers.
Result<std::optional<std::string>> template_source(const ModelFiles& files,
                                                   const Tokenizer& tokenizer) {
  QUIRE_TRY(std::string file, sibling(files, "chat_template.jinja"));
  if (!file.empty()) return std::optional(std::move(file));
  return std::optional(tokenizer.chat_template());
}

std::optional<int32_t> small_int(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  const auto number = value != nullptr ? value->as_int() : std::nullopt;
  return number ? checked_cast<int32_t>(*number) : std::nullopt;
}

std::optional<double> number(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value != nullptr ? value->as_double() : std::nullopt;
}

/// The first control token of whatever the template puts after an answer.
std::vector<TokenId> end_of_turn_tokens(const Tokenizer& tokenizer,
                                        const ChatTemplate& chat_template) {
  std::vector<TokenId> ends;
  for (const std::string& text : chat_template.traits().after_answer) {
    const std::vector<TokenId> ids = tokenizer.encode(text, context::Special::kParse);
    const auto first =
        std::ranges::find_if(ids, [&](TokenId id) { return tokenizer.is_control(id); });
    if (first != ids.end() && std::ranges::count(ends, *first) == 0) ends.push_back(*first);
  }
  std::ranges::sort(ends);
  return ends;
}

SamplingDefaults read_sampling(const Json& json) {
  SamplingDefaults d;
  const Json* samples = json.find("do_sample");
  const bool greedy = samples != nullptr && samples->as_bool() == false;
  d.temperature = greedy ? std::optional(0.0) : number(json, "temperature");
  d.top_k = small_int(json, "top_k");
  d.top_p = number(json, "top_p");
  d.min_p = number(json, "min_p");
  d.repeat_penalty = number(json, "repetition_penalty");
  return d;
}

/// What the model's files say of it. Names may change, and what tokens are called decides no
/// number.
Digest description_digest(const ModelFiles& files) {
  DigestBuilder builder;
  if (const formats::GgufMetadata* metadata = files.gguf()) {
    for (const formats::GgufValue& value : metadata->values()) {
      const bool is_architecture = value.key == "general.architecture";
      if (value.key.starts_with("tokenizer.")) continue;
      if (value.key.starts_with("general.") && !is_architecture) continue;
      builder.add(value.key);
      builder.add_number(value.type);
      builder.add_number(value.element_type);
      builder.add_number(static_cast<uint64_t>(value.payload.size()));
      builder.add(value.payload);
    }
  }
  if (files.config() != nullptr) builder.add(files.config()->dump());
  return builder.finish();
}

}  // namespace

Result<ModelText> load_model_text(const ModelFiles& files,
                                  const std::optional<std::string>& chat_template) {
  ModelText text;
  QUIRE_TRY(Tokenizer tokenizer, load_tokenizer(files));
  text.tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer));
  const auto special = text.tokenizer->special_tokens();
  QUIRE_TRY(const auto own, template_source(files, *text.tokenizer));
  const auto& source = chat_template ? chat_template : own;
  if (source) {
    auto parsed = ChatTemplate::parse(*source, {special.begin(), special.end()});
    // The user's own template must work; a damaged one in the file leaves the model usable as text.
    if (!parsed.ok() && chat_template) return std::move(parsed).error();
    if (parsed.ok()) {
      text.chat_template = std::move(*parsed);
    } else {
      text.template_problem = parsed.error().message;
    }
  }
  if (text.chat_template) {
    text.end_of_turn = end_of_turn_tokens(*text.tokenizer, *text.chat_template);
  }
  if (files.generation_config() != nullptr)
    text.sampling = read_sampling(*files.generation_config());
  return text;
}

bool Model::is_end_of_generation(TokenId token) const {
  return tokenizer().is_end_of_generation(token) ||
         std::ranges::binary_search(text_.end_of_turn, token);
}

Result<std::unique_ptr<Model>> Model::load(FileSystem& file_system, const std::string& path,
                                           const ModelOptions& options) {
  QUIRE_TRY(const ModelFiles files, ModelFiles::open(file_system, path));
  QUIRE_TRY(model::DescribedModel described, model::describe(files));
  if (options.rope_stretch) {
    QUIRE_TRY(described.config, stretched(std::move(described.config), *options.rope_stretch));
  }
  auto loaded = std::unique_ptr<Model>(new Model());
  loaded->rope_stretch_ = options.rope_stretch;
  // The tokenizer first: it is quick, and a file without one need not be read whole.
  QUIRE_TRY(loaded->text_, load_model_text(files, options.chat_template));
  const int32_t threads =
      options.num_threads > 0 ? options.num_threads : inspect_machine(file_system).default_threads;
  QUIRE_TRY(loaded->weights_, model::load_weights(files, described, options.progress, threads));
  loaded->path_ = files.path();
  loaded->config_ = std::move(described.config);
  loaded->weights_bytes_ = loaded->weights_.bytes();
  loaded->description_ = description_digest(files);
  return loaded;
}

}  // namespace quire::engine
