// document_store.h: documents in pieces, found by their words: SQLite FTS5 with BM25.
//
// A document is known by its source (a file's path) and replaced as a whole. Pieces keep where they
// come from. Scripts without spaces are found by any piece of a run (search_text.h). There is a
// column for vectors, and none are computed: ranking is by words only. Thread rule: any thread, one
// call at a time inside; several processes may share the file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "context/chunking.h"

namespace quire::context {

class Database;

struct DocumentInfo {
  std::string source;
  int64_t bytes = 0;
  int64_t chunks = 0;
  int64_t tokens = 0;  // of all pieces, by the tokenizer that cut them
  int64_t added_ms = 0;
};

/// A piece of a document that was found.
struct RetrievedChunk {
  int64_t id = 0;  // within the store, ascending along a document
  std::string source;
  size_t begin = 0, end = 0;              // bytes of the document
  int64_t first_line = 0, last_line = 0;  // counted from 1
  int64_t tokens = 0;                     // by the tokenizer that cut it
  std::string text;
  double score = 0.0;  // higher is better

  /// "report.txt, lines 10-24": what stands before it in a prompt.
  std::string label() const;
};

class DocumentStore {
 public:
  static Result<std::unique_ptr<DocumentStore>> open(const std::string& path);
  ~DocumentStore();

  enum class Added : uint8_t { kNew, kReplaced, kUnchanged };
  /// `chunks` as cut_into_chunks() made them of `text`. kUnchanged if the same text was cut alike
  /// before.
  Result<Added> add(const std::string& source, std::string_view text,
                    const std::vector<TextChunk>& chunks, int64_t now_ms);
  /// Whether there was one; its text is wiped from the file.
  Result<bool> remove(std::string_view source);
  /// By source.
  Result<std::vector<DocumentInfo>> list();
  /// The pieces that hold any term of `query`, best first (BM25, earlier added first on ties).
  /// Nothing for a query without a letter or digit.
  Result<std::vector<RetrievedChunk>> find(std::string_view query, int64_t most);

 private:
  explicit DocumentStore(std::unique_ptr<Database> database);
  Result<bool> remove_locked(std::string_view source);

  std::mutex mutex_;  // guards database_
  const std::unique_ptr<Database> database_;
};

}  // namespace quire::context
