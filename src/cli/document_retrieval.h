// document_retrieval.h: pieces of the stored documents that bear on a question, for its prompt.
//
// `run --docs` and `docs search` choose alike. With --rerank the model itself judges: how likely
// the question is after each of the best pieces. Use from one thread.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/environment.h"
#include "cli/option_parser.h"
#include "cli/output.h"
#include "context/retrieval.h"
#include "context/window/request.h"
#include "engine/engine.h"
#include "formats/json.h"

namespace quire::cli {

struct DocumentOptions {
  bool use = false;
  bool rerank = false;
  std::optional<int64_t>
      max_tokens;  // of all pieces; absent: a quarter of the window, at most 1024
};

/// --docs, --docs-tokens, --rerank.
void declare(OptionParser& parser, DocumentOptions& options);

/// The store of documents, made if there was none.
Result<std::unique_ptr<context::DocumentStore>> open_documents(const Environment& env,
                                                               Output& output);

struct ChosenChunks {
  std::vector<context::RetrievedChunk> chunks;  // as they are to stand
  int64_t candidates = 0;
  bool reranked = false;

  /// What stands before the question of a model without a chat template.
  std::string prompt_text() const;
  /// The same as parts of a request, named by their sources.
  std::vector<context::window::Chunk> window_chunks() const;
  formats::Json to_json() const;
  /// "3 pieces of 2 documents before the question: a.txt, lines 1-9; ...".
  std::string summary() const;
};

/// Asks the store; shows progress while the model judges. kInterrupted after Ctrl-C.
Result<ChosenChunks> choose_chunks(const Environment& env, engine::Engine& engine,
                                   const std::string& question, const DocumentOptions& options,
                                   Output& output);

/// {source, lines[first, last], bytes[begin, end], tokens, score, text?}.
formats::Json chunk_json(const context::RetrievedChunk& chunk);

}  // namespace quire::cli
