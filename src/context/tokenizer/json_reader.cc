#include <fmt/format.h>

#include <algorithm>

#include "base/checked_math.h"
#include "context/tokenizer/byte_level.h"
#include "context/tokenizer/end_tokens.h"
#include "context/tokenizer/json_components.h"
#include "context/tokenizer/readers.h"
#include "formats/printable.h"

namespace quire::context {
namespace {

using formats::Json;

const Json kNull;

const Json& member(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value != nullptr ? *value : kNull;
}

bool flag_of(const Json& json, std::string_view key) {
  return member(json, key).as_bool().value_or(false);
}

Error bad_file(std::string message) {
  return {ErrorCode::kBadFile, std::move(message)};
}

class JsonReader {
 public:
  JsonReader(const Json& tokenizer, const Json& config) : tokenizer_(tokenizer), config_(config) {}

  Result<TokenizerSpec> read() {
    QUIRE_TRY_VOID(check_model());
    QUIRE_TRY_VOID(read_components());
    QUIRE_TRY_VOID(place_tokens());
    QUIRE_TRY_VOID(read_unknown());
    QUIRE_TRY_VOID(read_merges());
    QUIRE_TRY_VOID(read_special_tokens());
    read_chat_template();
    return std::move(spec_);
  }

 private:
  const Json& model() const { return member(tokenizer_, "model"); }

  Result<void> check_model() const {
    if (!model().is_object()) return bad_file("tokenizer.json has no model.");
    const std::string* type = member(model(), "type").as_string();
    const bool is_bpe = type != nullptr ? *type == "BPE" : member(model(), "merges").is_array();
    if (!is_bpe) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("The model of tokenizer.json is {}; Quire reads BPE.",
                               formats::printable(type != nullptr ? *type : "of no known type"))};
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const std::string* affix = member(model(), key).as_string();
      if (affix != nullptr && !affix->empty()) {
        return Error{ErrorCode::kUnsupported,
                     fmt::format("The model of tokenizer.json has a {}, which Quire does not "
                                 "implement.",
                                 key)};
      }
    }
    if (member(model(), "dropout").as_double().value_or(0) != 0) {
      return Error{ErrorCode::kUnsupported,
                   "The model of tokenizer.json has dropout: its tokens are a matter of chance."};
    }
    return {};
  }

  Result<void> read_components() {
    QUIRE_TRY(spec_.normalizer, read_normalizer(member(tokenizer_, "normalizer")));
    QUIRE_TRY(JsonPreTokenizer words, read_pre_tokenizer(member(tokenizer_, "pre_tokenizer")));
    QUIRE_TRY(const JsonDecoder decoder, read_decoder(member(tokenizer_, "decoder")));
    QUIRE_TRY(frame_, read_post_processor(member(tokenizer_, "post_processor")));
    spec_.pre_tokenizer = std::move(words.steps);
    spec_.bpe.spelling = words.byte_level    ? Spelling::kByteLevel
                         : decoder.metaspace ? Spelling::kMetaspace
                                             : Spelling::kCharacters;
    spec_.space_prefix = decoder.strips_space;
    spec_.bpe.ignore_merges = flag_of(model(), "ignore_merges");
    spec_.bpe.byte_fallback = flag_of(model(), "byte_fallback");
    spec_.bpe.fuse_unknown = flag_of(model(), "fuse_unk");
    spec_.description = words.byte_level ? "byte-level BPE" : "SentencePiece BPE";
    return {};
  }

  /// Sets entry `id`. The list may have holes, but not be mostly holes: ids come from the file and
  /// must not make us allocate.
  Result<void> place(std::string_view spelled, std::optional<int64_t> id, TokenEntry entry) {
    const size_t limit = 2 * num_named_ + 1024;
    if (!id || *id < 0 || static_cast<uint64_t>(*id) >= limit) {
      return bad_file(
          fmt::format("Token {} of tokenizer.json has the id {}, which is out of range.",
                      formats::printable(spelled), id ? fmt::to_string(*id) : "that is none"));
    }
    const auto at = static_cast<size_t>(*id);
    if (at >= spec_.tokens.size()) spec_.tokens.resize(at + 1);
    TokenEntry& slot = spec_.tokens[at];
    if (!slot.spelled.empty() && slot.spelled != spelled) {
      return bad_file(fmt::format("tokenizer.json gives the id {} to both {} and {}.", at,
                                  formats::printable(slot.spelled), formats::printable(spelled)));
    }
    entry.spelled = spelled;
    slot = entry;
    return {};
  }

  Result<void> place_tokens() {
    const Json::Object* vocabulary = member(model(), "vocab").as_object();
    if (vocabulary == nullptr) return bad_file("The model of tokenizer.json has no vocab.");
    const Json::Array* added = member(tokenizer_, "added_tokens").as_array();
    num_named_ = vocabulary->size() + (added != nullptr ? added->size() : 0);
    const bool has_byte_tokens =
        spec_.bpe.byte_fallback && spec_.bpe.spelling != Spelling::kByteLevel;
    for (const auto& [spelled, id] : *vocabulary) {
      const bool is_byte = has_byte_tokens && byte_token_value(spelled).has_value();
      QUIRE_TRY_VOID(place(spelled, id.as_int(),
                           {{}, is_byte ? TokenKind::kByte : TokenKind::kNormal, !is_byte}));
    }
    if (added == nullptr) return {};
    for (const Json& token : *added) QUIRE_TRY_VOID(place_added(token));
    return {};
  }

  Result<void> place_added(const Json& token) {
    const std::string* content = member(token, "content").as_string();
    if (content == nullptr) return bad_file("An added token of tokenizer.json has no content.");
    const auto id = member(token, "id").as_int();
    const bool special = flag_of(token, "special");
    const bool known = id && *id >= 0 && static_cast<size_t>(*id) < spec_.tokens.size() &&
                       spec_.tokens[static_cast<size_t>(*id)].spelled == *content;
    QUIRE_TRY_VOID(
        place(*content, id,
              {{}, special ? TokenKind::kControl : TokenKind::kUserDefined, known && !special}));
    spec_.added.push_back({.content = *content,
                           .id = static_cast<int32_t>(*id),
                           .special = special,
                           .lstrip = flag_of(token, "lstrip"),
                           .rstrip = flag_of(token, "rstrip"),
                           .single_word = flag_of(token, "single_word"),
                           .normalized = flag_of(token, "normalized")});
    return {};
  }

  std::optional<int32_t> id_of(std::string_view spelled) const {
    const auto entry = std::ranges::find(spec_.tokens, spelled, &TokenEntry::spelled);
    if (spelled.empty() || entry == spec_.tokens.end()) return std::nullopt;
    return static_cast<int32_t>(entry - spec_.tokens.begin());
  }

  Result<void> read_unknown() {
    const std::string* unknown = member(model(), "unk_token").as_string();
    if (unknown == nullptr) return {};
    const auto id = id_of(*unknown);
    if (!id) {
      return bad_file(fmt::format("The unk_token {} of tokenizer.json is not in its vocabulary.",
                                  formats::printable(*unknown)));
    }
    spec_.bpe.unknown = *id;
    TokenEntry& entry = spec_.tokens[static_cast<size_t>(*id)];
    entry.kind = TokenKind::kUnknown;
    entry.mergeable = false;
    return {};
  }

  Result<void> read_merges() {
    const Json::Array* merges = member(model(), "merges").as_array();
    if (merges == nullptr) return bad_file("The model of tokenizer.json has no merges.");
    spec_.merges.reserve(merges->size());
    for (size_t i = 0; i < merges->size(); ++i) {
      if (!add_merge((*merges)[i])) {
        return bad_file(fmt::format("Merge {} of tokenizer.json does not name two tokens.", i));
      }
    }
    return {};
  }

  /// Either "a b" or ["a", "b"].
  bool add_merge(const Json& merge) {
    if (const std::string* text = merge.as_string()) {
      const size_t space = text->find(' ');
      if (space == std::string::npos || text->find(' ', space + 1) != std::string::npos) {
        return false;
      }
      const std::string_view view = *text;
      spec_.merges.emplace_back(view.substr(0, space), view.substr(space + 1));
      return true;
    }
    const Json::Array* pair = merge.as_array();
    if (pair == nullptr || pair->size() != 2) return false;
    const std::string* left = (*pair)[0].as_string();
    const std::string* right = (*pair)[1].as_string();
    if (left == nullptr || right == nullptr) return false;
    spec_.merges.emplace_back(*left, *right);
    return true;
  }

  /// tokenizer_config.json names its special tokens as "bos_token": "<s>" or {"content": "<s>"}.
  Result<void> read_special_tokens() {
    QUIRE_TRY_VOID(check_frame(frame_.before));
    QUIRE_TRY_VOID(check_frame(frame_.after));
    if (frame_.before.size() == 1) spec_.bos = frame_.before.front();
    if (frame_.after.size() == 1) spec_.eos = frame_.after.front();
    if (const Json::Object* entries = config_.as_object()) {
      for (const auto& [key, value] : *entries) {
        const Json& text = value.is_object() ? member(value, "content") : value;
        if (!key.ends_with("_token") || !text.is_string()) continue;
        spec_.special_tokens.emplace_back(key, *text.as_string());
      }
    }
    QUIRE_TRY_VOID(name_special("bos_token", spec_.bos));
    QUIRE_TRY_VOID(name_special("eos_token", spec_.eos));
    spec_.more_ends = end_tokens(spec_.added);
    spec_.prefix = frame("add_bos_token", frame_.before, spec_.bos);
    spec_.suffix = frame("add_eos_token", frame_.after, spec_.eos);
    return {};
  }

  Result<void> check_frame(std::span<const int32_t> ids) const {
    for (const int32_t id : ids) {
      if (id >= 0 && static_cast<size_t>(id) < spec_.tokens.size()) continue;
      return bad_file(
          fmt::format("The post_processor of tokenizer.json adds token {}, but there "
                      "are {} tokens.",
                      id, spec_.tokens.size()));
    }
    return {};
  }

  /// Finds the id of what the config names so; else names what the post-processor adds.
  Result<void> name_special(std::string_view variable, std::optional<int32_t>& id) {
    const auto named = std::ranges::find(spec_.special_tokens, variable,
                                         &std::pair<std::string, std::string>::first);
    if (named == spec_.special_tokens.end()) {
      if (!id) return {};
      const std::string_view spelled = spec_.tokens[static_cast<size_t>(*id)].spelled;
      spec_.special_tokens.emplace_back(variable, spelled);
      return {};
    }
    if (id) return {};
    id = id_of(named->second);
    if (id) return {};
    return bad_file(fmt::format("The {} {} of tokenizer_config.json is not in tokenizer.json.",
                                variable, formats::printable(named->second)));
  }

  /// The post-processor decides, unless the config of a class that honours the flag overrules it.
  std::vector<int32_t> frame(std::string_view key, const std::vector<int32_t>& framed,
                             std::optional<int32_t> token) const {
    const std::string* tokenizer_class = member(config_, "tokenizer_class").as_string();
    const bool honoured =
        tokenizer_class == nullptr || *tokenizer_class != "PreTrainedTokenizerFast";
    const auto flag = member(config_, key).as_bool();
    if (!honoured || !flag) return framed;
    if (!*flag) return {};
    return framed.empty() && token ? std::vector<int32_t>{*token} : framed;
  }

  /// A string, or a list of named ones of which "default" is for conversations.
  void read_chat_template() {
    const Json& given = member(config_, "chat_template");
    if (given.is_string()) spec_.chat_template = *given.as_string();
    const Json::Array* named = given.as_array();
    if (named == nullptr) return;
    for (const Json& entry : *named) {
      const std::string* name = member(entry, "name").as_string();
      const std::string* text = member(entry, "template").as_string();
      if (name != nullptr && text != nullptr && *name == "default") spec_.chat_template = *text;
    }
  }

  const Json& tokenizer_;
  const Json& config_;
  TokenizerSpec spec_;
  JsonPostProcessor frame_;
  size_t num_named_ = 0;
};

}  // namespace

Result<TokenizerSpec> read_json_tokenizer(const Json& tokenizer, const Json& config) {
  return JsonReader(tokenizer, config).read();
}

}  // namespace quire::context
