#include <fmt/format.h>

#include <algorithm>

#include "context/tokenizer/end_tokens.h"
#include "context/tokenizer/readers.h"
#include "formats/printable.h"

namespace quire::context {
namespace {

using formats::GgufMetadata;

Result<TokenKind> kind_of(size_t id, int32_t type) {
  switch (type) {
    case 1:
      return TokenKind::kNormal;
    case 2:
      return TokenKind::kUnknown;
    case 3:
      return TokenKind::kControl;
    case 4:
      return TokenKind::kUserDefined;
    case 0:
    case 5:
      return TokenKind::kUnused;
    case 6:
      return TokenKind::kByte;
    default:
      return Error{ErrorCode::kBadFile,
                   fmt::format("Token {} has type {} (tokenizer.ggml.token_type), which GGUF does "
                               "not define.",
                               id, type)};
  }
}

/// A per-token array: as long as the vocabulary, or absent.
template <class T>
Result<std::optional<std::vector<T>>> per_token(const GgufMetadata& metadata, std::string_view key,
                                                size_t num_tokens) {
  QUIRE_TRY(auto values, metadata.get<std::vector<T>>(key));
  if (values && values->size() != num_tokens) {
    return Error{ErrorCode::kBadFile,
                 fmt::format("{} has {} entries for {} tokens.", key, values->size(), num_tokens)};
  }
  return values;
}

class GgufReader {
 public:
  explicit GgufReader(const GgufMetadata& metadata) : metadata_(metadata) {}

  Result<TokenizerSpec> read() {
    QUIRE_TRY(const auto model, metadata_.require<std::string_view>("tokenizer.ggml.model"));
    if (model == "gpt2") {
      QUIRE_TRY_VOID(read_tokens(Spelling::kByteLevel));
      QUIRE_TRY_VOID(read_byte_level());
    } else if (model == "llama") {
      QUIRE_TRY_VOID(read_tokens(Spelling::kMetaspace));
      QUIRE_TRY_VOID(read_sentencepiece());
    } else {
      return Error{
          ErrorCode::kUnsupported,
          fmt::format("The file's tokenizer (tokenizer.ggml.model) is {}; Quire reads gpt2 "
                      "(byte-level BPE) and llama (SentencePiece BPE).",
                      formats::printable(model))};
    }
    QUIRE_TRY_VOID(read_special_ids());
    QUIRE_TRY(const auto chat_template, metadata_.get<std::string_view>("tokenizer.chat_template"));
    if (chat_template) spec_.chat_template = std::string(*chat_template);
    return std::move(spec_);
  }

 private:
  Result<void> read_tokens(Spelling spelling) {
    spec_.bpe.spelling = spelling;
    QUIRE_TRY(const auto texts,
              metadata_.require<std::vector<std::string_view>>("tokenizer.ggml.tokens"));
    QUIRE_TRY(const auto types,
              per_token<int32_t>(metadata_, "tokenizer.ggml.token_type", texts.size()));
    spec_.tokens.reserve(texts.size());
    for (size_t id = 0; id < texts.size(); ++id) {
      QUIRE_TRY(TokenKind kind, kind_of(id, types ? (*types)[id] : 1));
      // Some converters forget to mark these; as text they would never end an answer.
      if (is_end_token_name(texts[id])) kind = TokenKind::kControl;
      const bool mergeable = kind == TokenKind::kNormal || kind == TokenKind::kUnused;
      spec_.tokens.push_back({texts[id], kind, mergeable});
      if (is_special(kind) || kind == TokenKind::kUserDefined) add_token(id);
    }
    return {};
  }

  void add_token(size_t id) {
    const TokenEntry& token = spec_.tokens[id];
    spec_.added.push_back(
        {std::string(token.spelled), static_cast<int32_t>(id), is_special(token.kind)});
  }

  Result<void> read_byte_level() {
    QUIRE_TRY(const auto name, metadata_.require<std::string_view>("tokenizer.ggml.pre"));
    QUIRE_TRY(NamedPreTokenizer named, pre_tokenizer_by_name(name));
    spec_.normalizer = std::move(named.normalizer);
    spec_.pre_tokenizer = std::move(named.steps);
    spec_.bpe.ignore_merges = named.ignore_merges;
    adds_bos_ = named.add_bos;
    spec_.description = fmt::format("byte-level BPE, pre-tokenizer {}", name);
    QUIRE_TRY(const auto merges,
              metadata_.require<std::vector<std::string_view>>("tokenizer.ggml.merges"));
    spec_.merges.reserve(merges.size());
    for (size_t i = 0; i < merges.size(); ++i) {
      const size_t space = merges[i].find(' ');
      if (space == std::string_view::npos || merges[i].find(' ', space + 1) != merges[i].npos) {
        return Error{ErrorCode::kBadFile,
                     fmt::format("Entry {} of tokenizer.ggml.merges is {}, not two tokens with a "
                                 "space between them.",
                                 i, formats::printable(merges[i]))};
      }
      spec_.merges.emplace_back(merges[i].substr(0, space), merges[i].substr(space + 1));
    }
    return {};
  }

  Result<void> read_sentencepiece() {
    for (const std::string_view key :
         {"tokenizer.ggml.remove_extra_whitespaces", "tokenizer.ggml.precompiled_charsmap"}) {
      const formats::GgufValue* value = metadata_.find(key);
      const bool is_off =
          value == nullptr || value->payload.empty() ||
          (value->type == formats::GgufType::kBool && value->payload[0] == std::byte{0});
      if (!is_off) {
        return Error{
            ErrorCode::kUnsupported,
            fmt::format("The tokenizer rewrites its text by {}, which Quire does not do.", key)};
      }
    }
    QUIRE_TRY(auto scores,
              per_token<float>(metadata_, "tokenizer.ggml.scores", spec_.tokens.size()));
    if (!scores) {
      return Error{ErrorCode::kBadFile,
                   "The file's SentencePiece tokenizer has no tokenizer.ggml.scores."};
    }
    spec_.scores = std::move(*scores);
    restore_space_runs();
    QUIRE_TRY_VOID(restore_stripping());
    QUIRE_TRY(const auto prefix, metadata_.get<bool>("tokenizer.ggml.add_space_prefix"));
    spec_.space_prefix = prefix.value_or(true);
    if (spec_.space_prefix) spec_.normalizer.push_back(Prepend{std::string(kMetaspace)});
    spec_.normalizer.push_back(Replace{Pattern::literal(" "), std::string(kMetaspace)});
    spec_.bpe.byte_fallback = true;
    spec_.bpe.fuse_unknown = true;
    QUIRE_TRY(const auto unknown, token_id("unknown"));
    spec_.bpe.unknown = unknown.value_or(-1);
    adds_bos_ = true;
    spec_.description = "SentencePiece BPE";
    return {};
  }

  /// Converters write Gemma's user-defined runs of "▁" as runs of spaces. The original matches them
  /// as "▁▁" in the text and merges spaces to them before anything else, the longest first.
  void restore_space_runs() {
    constexpr float kBeforeAllOthers = 1e30F;
    for (AddedToken& added : spec_.added) {
      const auto id = static_cast<size_t>(added.id);
      const bool is_run =
          added.content.size() > 1 && added.content.find_first_not_of(' ') == std::string::npos;
      if (!is_run || spec_.tokens[id].kind != TokenKind::kUserDefined) continue;
      (*spec_.scores)[id] = kBeforeAllOthers * static_cast<float>(added.content.size());
      std::string run;
      for (size_t i = 0; i < added.content.size(); ++i) run += kMetaspace;
      added.content = run;
      spec_.tokens[id].spelled = spec_.owned.emplace_back(std::move(run));
      spec_.tokens[id].mergeable = true;
    }
  }

  /// Phi-3's turn markers swallow the white space after them, which GGUF cannot say. Source:
  /// microsoft/Phi-3-mini-4k-instruct, added_tokens of tokenizer.json.
  Result<void> restore_stripping() {
    QUIRE_TRY(const auto architecture, metadata_.get<std::string_view>("general.architecture"));
    if (architecture != "phi3") return {};
    for (AddedToken& added : spec_.added) {
      added.rstrip = added.content != "<unk>" && added.content != "<s>" &&
                     added.content != "<|endoftext|>";
    }
    return {};
  }

  /// tokenizer.ggml.<name>_token_id, checked against the vocabulary.
  Result<std::optional<int32_t>> token_id(std::string_view name) const {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
    QUIRE_TRY(const auto id, metadata_.get<int64_t>(key));
    if (!id) return std::optional<int32_t>();
    if (*id < 0 || *id >= static_cast<int64_t>(spec_.tokens.size())) {
      return Error{ErrorCode::kBadFile, fmt::format("{} is {}, but the vocabulary has {} tokens.",
                                                    key, *id, spec_.tokens.size())};
    }
    return std::optional<int32_t>(static_cast<int32_t>(*id));
  }

  Result<void> read_special_ids() {
    QUIRE_TRY(spec_.bos, token_id("bos"));
    QUIRE_TRY(spec_.eos, token_id("eos"));
    QUIRE_TRY(const auto unknown, token_id("unknown"));
    QUIRE_TRY(const auto padding, token_id("padding"));
    const auto name = [&](const char* variable, std::optional<int32_t> id) {
      if (!id) return;
      spec_.special_tokens.emplace_back(variable, spec_.tokens[static_cast<size_t>(*id)].spelled);
    };
    name("bos_token", spec_.bos);
    name("eos_token", spec_.eos);
    name("unk_token", unknown);
    name("pad_token", padding);
    spec_.more_ends = end_tokens(spec_.added);
    for (const char* end : {"eot", "eom"}) {
      QUIRE_TRY(const auto id, token_id(end));
      if (id) spec_.more_ends.push_back(*id);
    }
    QUIRE_TRY(const auto add_bos, metadata_.get<bool>("tokenizer.ggml.add_bos_token"));
    QUIRE_TRY(const auto add_eos, metadata_.get<bool>("tokenizer.ggml.add_eos_token"));
    if (add_bos.value_or(adds_bos_) && spec_.bos) spec_.prefix = {*spec_.bos};
    if (add_eos.value_or(false) && spec_.eos) spec_.suffix = {*spec_.eos};
    return {};
  }

  const GgufMetadata& metadata_;
  TokenizerSpec spec_;
  bool adds_bos_ = false;  // unless the file says otherwise
};

}  // namespace

Result<TokenizerSpec> read_gguf_tokenizer(const GgufMetadata& metadata) {
  return GgufReader(metadata).read();
}

}  // namespace quire::context
