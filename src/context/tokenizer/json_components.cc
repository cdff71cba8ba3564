#include "context/tokenizer/json_components.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/checked_math.h"
#include "context/tokenizer/readers.h"
#include "context/tokenizer/vocabulary.h"
#include "formats/printable.h"

namespace quire::context {
namespace {

using formats::Json;

constexpr std::string_view kNone = "(none)";

std::string_view text_of(const Json& json, std::string_view key, std::string_view otherwise = {}) {
  const Json* value = json.find(key);
  return value != nullptr && value->is_string() ? std::string_view(*value->as_string()) : otherwise;
}

bool flag_of(const Json& json, std::string_view key, bool otherwise) {
  const Json* value = json.find(key);
  return value != nullptr ? value->as_bool().value_or(otherwise) : otherwise;
}

std::string_view type_of(const Json& json) {
  return text_of(json, "type", kNone);
}

Error unsupported(std::string_view part, std::string_view what) {
  return {ErrorCode::kUnsupported, fmt::format("The {} of tokenizer.json uses {}, which Quire does "
                                               "not implement.",
                                               part, formats::printable(what))};
}

Error malformed(std::string_view part, std::string_view what) {
  return {ErrorCode::kBadFile,
          fmt::format("The {} of tokenizer.json has no valid {}.", part, what)};
}

/// The elements of a Sequence.
Result<const Json::Array*> members(const Json& json, std::string_view part, std::string_view key) {
  const Json* list = json.find(key);
  if (list == nullptr || !list->is_array()) return malformed(part, key);
  return list->as_array();
}

Result<Pattern> read_pattern(const Json& json, std::string_view part) {
  const Json* pattern = json.find("pattern");
  if (pattern == nullptr) return malformed(part, "pattern");
  const std::string_view literal = text_of(*pattern, "String");
  if (!literal.empty()) return Pattern::literal(std::string(literal));
  const std::string_view regex = text_of(*pattern, "Regex");
  if (regex.empty()) return malformed(part, "pattern");
  // The same matches, but found in linear time where white space does not end the text.
  const std::string_view fast = regex == R"(\s+$)" ? R"((?<!\s)\s+$)" : regex;
  QUIRE_TRY(Regex compiled, Regex::compile(fast, fmt::format("The {} of tokenizer.json", part)));
  return Pattern::regex(std::move(compiled));
}

constexpr std::string_view kNormalizer = "normalizer";

Result<void> add_normalizer(const Json& json, std::vector<NormalizerStep>& steps) {
  const std::string_view type = type_of(json);
  if (type == "Sequence") {
    QUIRE_TRY(const Json::Array* list, members(json, kNormalizer, "normalizers"));
    for (const Json& member : *list) QUIRE_TRY_VOID(add_normalizer(member, steps));
  } else if (type == "NFC") {
    steps.push_back(UnicodeForm::kNfc);
  } else if (type == "NFD") {
    steps.push_back(UnicodeForm::kNfd);
  } else if (type == "NFKC") {
    steps.push_back(UnicodeForm::kNfkc);
  } else if (type == "NFKD") {
    steps.push_back(UnicodeForm::kNfkd);
  } else if (type == "Prepend") {
    steps.push_back(Prepend{std::string(text_of(json, "prepend"))});
  } else if (type == "Replace") {
    QUIRE_TRY(Pattern pattern, read_pattern(json, kNormalizer));
    steps.push_back(Replace{std::move(pattern), std::string(text_of(json, "content"))});
  } else if (type == "Strip") {
    steps.push_back(Strip{flag_of(json, "strip_left", true), flag_of(json, "strip_right", true)});
  } else {
    return unsupported(kNormalizer, type);
  }
  return {};
}

constexpr std::string_view kPreTokenizer = "pre_tokenizer";

Result<SplitBehavior> read_behavior(const Json& json, std::string_view otherwise) {
  struct Name {
    std::string_view name;
    SplitBehavior behavior;
  };
  static constexpr auto kBehaviors =
      std::to_array<Name>({{"Removed", SplitBehavior::kRemoved},
                           {"Isolated", SplitBehavior::kIsolated},
                           {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
                           {"MergedWithNext", SplitBehavior::kMergedWithNext},
                           {"Contiguous", SplitBehavior::kContiguous}});
  const std::string_view behavior = text_of(json, "behavior", otherwise);
  const auto named = std::ranges::find(kBehaviors, behavior, &Name::name);
  if (named == kBehaviors.end()) return unsupported(kPreTokenizer, behavior);
  return named->behavior;
}

Result<PreTokenizerStep> read_split(const Json& json) {
  QUIRE_TRY(const SplitBehavior behavior, read_behavior(json, kNone));
  QUIRE_TRY(Pattern pattern, read_pattern(json, kPreTokenizer));
  return PreTokenizerStep(
      Split{std::move(pattern), behavior,
            flag_of(json, "invert", false) ? SplitAt::kGaps : SplitAt::kMatches});
}

/// Old files say add_prefix_space, new ones prepend_scheme.
Result<Metaspace> read_metaspace(const Json& json, std::string_view part) {
  if (text_of(json, "replacement", kMetaspace) != kMetaspace) {
    return unsupported(part, "Metaspace with another replacement");
  }
  const bool prefix = flag_of(json, "add_prefix_space", true);
  const std::string_view scheme = text_of(json, "prepend_scheme", prefix ? "always" : "never");
  Metaspace step{std::string(kMetaspace)};
  step.splits = flag_of(json, "split", true);
  if (scheme == "always") {
    step.prepend_to = Metaspace::PrependTo::kEach;
  } else if (scheme == "first") {
    step.prepend_to = Metaspace::PrependTo::kFirst;
  } else if (scheme == "never") {
    step.prepend_to = Metaspace::PrependTo::kNone;
  } else {
    return unsupported(part, scheme);
  }
  return step;
}

Result<void> add_byte_level(const Json& json, JsonPreTokenizer& out) {
  if (out.byte_level) return unsupported(kPreTokenizer, "a second ByteLevel");
  out.byte_level = true;
  if (flag_of(json, "add_prefix_space", true)) out.steps.push_back(PrefixSpace{});
  if (!flag_of(json, "use_regex", true)) return {};
  QUIRE_TRY(PreTokenizerStep split, gpt2_split());
  out.steps.push_back(std::move(split));
  return {};
}

/// What follows a ByteLevel cuts GPT-2's characters for bytes.
void add_cut(PreTokenizerStep step, JsonPreTokenizer& out) {
  if (out.byte_level && !out.as_characters) {
    out.steps.push_back(ToByteCharacters{});
    out.as_characters = true;
  }
  out.steps.push_back(std::move(step));
}

Result<void> add_pre_tokenizer(const Json& json, JsonPreTokenizer& out) {
  const std::string_view type = type_of(json);
  if (type == "Sequence") {
    QUIRE_TRY(const Json::Array* list, members(json, kPreTokenizer, "pretokenizers"));
    for (const Json& member : *list) QUIRE_TRY_VOID(add_pre_tokenizer(member, out));
  } else if (type == "ByteLevel") {
    return add_byte_level(json, out);
  } else if (type == "Split") {
    QUIRE_TRY(PreTokenizerStep split, read_split(json));
    add_cut(std::move(split), out);
  } else if (type == "Digits") {
    const bool one_by_one = flag_of(json, "individual_digits", false);
    QUIRE_TRY(PreTokenizerStep split,
              digits_split(one_by_one ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
    add_cut(std::move(split), out);
  } else if (type == "Punctuation") {
    QUIRE_TRY(const SplitBehavior behavior, read_behavior(json, "Isolated"));
    QUIRE_TRY(PreTokenizerStep split, punctuation_split(behavior));
    add_cut(std::move(split), out);
  } else if (type == "Metaspace") {
    if (out.byte_level) return unsupported(kPreTokenizer, "Metaspace after ByteLevel");
    QUIRE_TRY(Metaspace step, read_metaspace(json, kPreTokenizer));
    out.steps.push_back(std::move(step));
  } else {
    return unsupported(kPreTokenizer, type);
  }
  return {};
}

constexpr std::string_view kPostProcessor = "post_processor";
constexpr size_t kMostFrameTokens = 64;

/// The ids that a special token of a template stands for.
Result<std::vector<int32_t>> template_token_ids(const Json& json, std::string_view name) {
  const Json* all = json.find("special_tokens");
  const Json* token = all != nullptr ? all->find(name) : nullptr;
  const Json* ids = token != nullptr ? token->find("ids") : nullptr;
  if (ids == nullptr || !ids->is_array()) return malformed(kPostProcessor, "special_tokens");
  std::vector<int32_t> out;
  for (const Json& json_id : *ids->as_array()) {
    const auto id = json_id.as_int();
    const auto narrow = id ? checked_cast<int32_t>(*id) : std::nullopt;
    if (!narrow) return malformed(kPostProcessor, "special_tokens");
    out.push_back(*narrow);
  }
  return out;
}

/// A template frames what the processors before it made.
Result<void> read_template(const Json& json, JsonPostProcessor& out) {
  QUIRE_TRY(const Json::Array* items, members(json, kPostProcessor, "single"));
  JsonPostProcessor frame;
  bool after_text = false;
  for (const Json& item : *items) {
    if (item.find("Sequence") != nullptr) {
      if (after_text) return unsupported(kPostProcessor, "a template that repeats the text");
      after_text = true;
      continue;
    }
    const Json* token = item.find("SpecialToken");
    if (token == nullptr) return malformed(kPostProcessor, "single");
    QUIRE_TRY(const auto ids, template_token_ids(json, text_of(*token, "id")));
    std::vector<int32_t>& side = after_text ? frame.after : frame.before;
    side.insert(side.end(), ids.begin(), ids.end());
    if (side.size() > kMostFrameTokens) return unsupported(kPostProcessor, "too many tokens");
  }
  if (!after_text) return unsupported(kPostProcessor, "a template without the text");
  out.before.insert(out.before.begin(), frame.before.begin(), frame.before.end());
  out.after.insert(out.after.end(), frame.after.begin(), frame.after.end());
  return {};
}

Result<void> add_post_processor(const Json& json, JsonPostProcessor& out) {
  const std::string_view type = type_of(json);
  if (type == "Sequence") {
    QUIRE_TRY(const Json::Array* list, members(json, kPostProcessor, "processors"));
    for (const Json& member : *list) QUIRE_TRY_VOID(add_post_processor(member, out));
    return {};
  }
  if (type == "TemplateProcessing") return read_template(json, out);
  if (type == "ByteLevel") return {};  // concerns offsets only
  return unsupported(kPostProcessor, type);
}

constexpr std::string_view kDecoder = "decoder";

Result<void> add_decoder(const Json& json, JsonDecoder& out) {
  const std::string_view type = type_of(json);
  if (type == "Sequence") {
    QUIRE_TRY(const Json::Array* list, members(json, kDecoder, "decoders"));
    for (const Json& member : *list) QUIRE_TRY_VOID(add_decoder(member, out));
  } else if (type == "Metaspace") {
    QUIRE_TRY(const Metaspace step, read_metaspace(json, kDecoder));
    out.metaspace = true;
    out.strips_space = step.prepend_to != Metaspace::PrependTo::kNone;
  } else if (type == "Replace") {
    const Json* pattern = json.find("pattern");
    const bool is_metaspace = pattern != nullptr && text_of(*pattern, "String") == kMetaspace &&
                              text_of(json, "content") == " ";
    if (!is_metaspace) return unsupported(kDecoder, "Replace of anything but \u2581 by a space");
    out.metaspace = true;
  } else if (type == "Strip") {
    const auto count = [&](std::string_view key) {
      const Json* value = json.find(key);
      return value != nullptr ? value->as_int().value_or(-1) : -1;
    };
    const bool is_one_space =
        text_of(json, "content") == " " && count("start") == 1 && count("stop") == 0;
    if (!is_one_space) return unsupported(kDecoder, "Strip of anything but one leading space");
    out.strips_space = true;
  } else if (type != "ByteLevel" && type != "ByteFallback" && type != "Fuse") {
    return unsupported(kDecoder, type);  // what those three do follows from the model
  }
  return {};
}

}  // namespace

Result<std::vector<NormalizerStep>> read_normalizer(const Json& json) {
  std::vector<NormalizerStep> steps;
  if (!json.is_null()) QUIRE_TRY_VOID(add_normalizer(json, steps));
  return steps;
}

Result<JsonPreTokenizer> read_pre_tokenizer(const Json& json) {
  JsonPreTokenizer out;
  if (!json.is_null()) QUIRE_TRY_VOID(add_pre_tokenizer(json, out));
  if (out.as_characters) out.steps.push_back(FromByteCharacters{});
  return out;
}

Result<JsonPostProcessor> read_post_processor(const Json& json) {
  JsonPostProcessor out;
  if (!json.is_null()) QUIRE_TRY_VOID(add_post_processor(json, out));
  return out;
}

Result<JsonDecoder> read_decoder(const Json& json) {
  JsonDecoder out;
  if (!json.is_null()) QUIRE_TRY_VOID(add_decoder(json, out));
  return out;
}

}  // namespace quire::context
