// docs: documents that answers may draw on: added in pieces, searched, listed, removed.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/byte_size.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/document_retrieval.h"
#include "cli/home.h"
#include "cli/model_path.h"
#include "cli/option_parser.h"
#include "cli/pieces.h"
#include "context/search_text.h"
#include "engine/describe.h"
#include "formats/model_files.h"

namespace quire::cli {
namespace {

using context::DocumentStore;
using context::RetrievedChunk;
using formats::Json;

constexpr size_t kMostArguments = 10'000;
constexpr uint64_t kMostDocumentBytes = uint64_t{256} << 20;
constexpr size_t kExcerptCharacters = 90;

struct DocsOptions {
  std::vector<std::string> arguments;
  int64_t chunk_tokens = 256;
  int64_t limit = 5;
  OutputOptions output;
};

Error usage(std::string message) {
  return {ErrorCode::kUsage, std::move(message)};
}

/// A file by one name, from wherever it is spoken of.
std::string source_of(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
  return failed ? path : absolute.lexically_normal().string();
}

/// The text of a file that is one.
Result<std::string> read_document(const Environment& env, const std::string& path) {
  if (env.files.is_directory(path)) {
    return Error{ErrorCode::kNotFound, fmt::format("{} is a folder; name its files", path)};
  }
  QUIRE_TRY(std::string text, env.files.read(path, kMostDocumentBytes));
  if (text.find('\0') != std::string::npos) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{} holds bytes that no text has; convert it to text first", path)};
  }
  if (text.find_first_not_of(" \t\r\n\f\v") == std::string::npos) {
    return usage(fmt::format("{} holds no text", path));
  }
  return text;
}

class Docs {
 public:
  Docs(const Environment& env, const DocsOptions& options, Output& output)
      : env_(env), options_(options), output_(output) {}

  Result<void> execute() {
    const auto& arguments = options_.arguments;
    const std::string first = arguments.empty() ? "" : arguments[0];
    const std::span given(arguments);
    if (first == "ls" && arguments.size() == 1) return list();
    if (first == "search" && arguments.size() > 1) return search(given.subspan(1));
    if (first == "rm" && arguments.size() > 1) return remove(given.subspan(1));
    if (arguments.size() > 2 && arguments[1] == "add") return add(arguments[0], given.subspan(2));
    return usage(
        "this is 'quire docs MODEL add FILE...', or 'quire docs ls', 'search WORDS' or 'rm "
        "FILE...'");
  }

 private:
  /// Only the model's tokenizer is needed, to count.
  Result<void> add(const std::string& model, std::span<const std::string> files) {
    QUIRE_TRY(const std::string path, resolve_model(env_, model));
    QUIRE_TRY(const formats::ModelFiles model_files,
              formats::ModelFiles::open(env_.files, path, formats::OpenMode::kMetadataOnly));
    QUIRE_TRY(const engine::ModelText text, engine::load_model_text(model_files, std::nullopt));
    QUIRE_TRY(const auto store, open_documents(env_, output_));
    Json list(Json::Array{});
    for (const std::string& file : files) {
      QUIRE_TRY(Json added, add_file(*store, *text.tokenizer, file));
      list.push_back(std::move(added));
    }
    Json json;
    json.set("documents", std::move(list));
    json.set("embeddings", "absent");
    return output_.finish(json);
  }

  Result<Json> add_file(DocumentStore& store, const context::Tokenizer& tokenizer,
                        const std::string& file) {
    QUIRE_TRY(const std::string text, read_document(env_, file));
    const auto chunks = context::cut_into_chunks(tokenizer, text, options_.chunk_tokens);
    QUIRE_TRY(
        const DocumentStore::Added added,
        store.add(source_of(file), text, chunks, context::ConversationStore::system_clock_ms()));
    int64_t tokens = 0;
    for (const context::TextChunk& chunk : chunks) tokens += chunk.tokens;
    const char* what = added == DocumentStore::Added::kNew        ? "added"
                       : added == DocumentStore::Added::kReplaced ? "replaced"
                                                                  : "unchanged";
    output_.text(fmt::format("{}: {} {} in {} piece{}\n", file, what,
                             format_count(tokens) + " tokens", chunks.size(),
                             chunks.size() == 1 ? "" : "s"));
    if (!utf8_is_valid(text)) {
      output_.remark(fmt::format("{} is not all UTF-8; prompts will show U+FFFD there", file));
    }
    Json json;
    json.set("source", utf8_sanitized(source_of(file)));
    json.set("result", what);
    json.set("chunks", static_cast<int64_t>(chunks.size()));
    json.set("tokens", tokens);
    return json;
  }

  Result<void> list() {
    QUIRE_TRY(const auto store, open_documents(env_, output_));
    QUIRE_TRY(const auto documents, store->list());
    Json list(Json::Array{});
    if (documents.empty()) output_.remark("no documents yet: 'quire docs MODEL add FILE...'");
    for (const context::DocumentInfo& document : documents) {
      output_.text(fmt::format("{}  {:>9} tokens  {:>5} pieces  {}\n",
                               shown_time(document.added_ms), format_count(document.tokens),
                               document.chunks, one_line(document.source)));
      Json json;
      json.set("source", utf8_sanitized(document.source));
      json.set("bytes", document.bytes);
      json.set("chunks", document.chunks);
      json.set("tokens", document.tokens);
      json.set("added_ms", document.added_ms);
      list.push_back(std::move(json));
    }
    Json json;
    json.set("documents", std::move(list));
    json.set("embeddings", "absent");
    return output_.finish(json);
  }

  Result<void> search(std::span<const std::string> words) {
    std::string query;
    for (const std::string& word : words) query += (query.empty() ? "" : " ") + word;
    if (context::query_terms(query).empty()) {
      return usage("there is no letter or digit to search for");
    }
    QUIRE_TRY(const auto store, open_documents(env_, output_));
    QUIRE_TRY(auto candidates, store->find(query, std::max(context::kCandidates, options_.limit)));
    auto picked = context::diverse_order(std::move(candidates));
    if (std::ssize(picked) > options_.limit) picked.resize(static_cast<size_t>(options_.limit));
    if (picked.empty()) output_.remark("nothing found");
    Json list(Json::Array{});
    for (const RetrievedChunk& chunk : picked) {
      output_.text(fmt::format("{} ({} tokens, score {:.2f})\n    {}\n", one_line(chunk.label()),
                               chunk.tokens, chunk.score,
                               context::excerpt(chunk.text, query, kExcerptCharacters)));
      list.push_back(chunk_json(chunk));
    }
    Json json;
    json.set("chunks", std::move(list));
    json.set("ranking", "bm25");
    json.set("embeddings", "absent");
    return output_.finish(json);
  }

  /// By path, or by the name that `ls` shows where the file is gone.
  Result<void> remove(std::span<const std::string> files) {
    QUIRE_TRY(const auto store, open_documents(env_, output_));
    Json list(Json::Array{});
    for (const std::string& file : files) {
      QUIRE_TRY(bool removed, store->remove(source_of(file)));
      if (!removed) {
        QUIRE_TRY(removed, store->remove(file));
      }
      if (!removed) {
        return Error{ErrorCode::kNotFound,
                     fmt::format("there is no document {}; 'quire docs ls' lists them", file)};
      }
      output_.remark(fmt::format("{} is removed", file));
      list.push_back(utf8_sanitized(file));
    }
    Json json;
    json.set("removed", std::move(list));
    return output_.finish(json);
  }

  const Environment& env_;
  const DocsOptions& options_;
  Output& output_;
};

Result<void> run_docs(const Command& self, const Environment& env,
                      std::span<const std::string> args) {
  DocsOptions options;
  OptionParser parser("quire docs");
  parser.positional(options.arguments, kMostArguments);
  parser.add({{"--chunk-tokens"},
              "N",
              "add: tokens of a piece at most, by the model's tokenizer (default 256)",
              store_int(options.chunk_tokens, 16, 8192)});
  parser.add({{"--limit"},
              "N",
              "search: pieces at most (default 5)",
              store_int(options.limit, 1, 10'000)});
  declare(parser, options.output);
  QUIRE_TRY(const bool helped, parse_or_help(self, env, parser, args));
  if (helped) return {};
  Output output(env, options.output);
  return Docs(env, options, output).execute();
}

}  // namespace

const Command kDocsCommand = {
    .name = "docs",
    .arguments = "MODEL add FILE... | search WORDS | ls | rm FILE... [options]",
    .summary = "documents that 'run --docs' draws on",
    .example =
        "  quire docs model.gguf add manual.md notes/*.txt\n"
        "  quire docs search 'how are pages freed'\n"
        "  quire run model.gguf --docs -p 'How are pages freed?'\n",
    .run = run_docs,
};

}  // namespace quire::cli
