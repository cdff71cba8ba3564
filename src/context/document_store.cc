#include "context/document_store.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "context/search_text.h"
#include "context/sqlite.h"

namespace quire::context {
namespace {

// chunk_text keeps no text of its own: its rows are those of chunks. `vector` is NULL until there
// are embeddings.
constexpr DatabaseKind kDocumentDatabase = {.what = "documents",
                                            .application_id = 0x51724463,  // "QrDc"
                                            .version = 1,
                                            .schema = R"sql(
CREATE TABLE documents(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  source TEXT NOT NULL UNIQUE,
  bytes INTEGER NOT NULL,
  digest TEXT NOT NULL,
  added_ms INTEGER NOT NULL);
CREATE TABLE chunks(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  document INTEGER NOT NULL REFERENCES documents(id),
  begin INTEGER NOT NULL,
  end INTEGER NOT NULL,
  first_line INTEGER NOT NULL,
  last_line INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  text TEXT NOT NULL,
  vector BLOB);
CREATE INDEX chunks_of ON chunks(document);
CREATE VIRTUAL TABLE chunk_text USING fts5(
  words, bigrams, content='', tokenize='unicode61 remove_diacritics 2');
)sql"};

/// Of the text and of where it was cut.
std::string digest_of(std::string_view text, const std::vector<TextChunk>& chunks) {
  DigestBuilder builder;
  builder.add(text);
  for (const TextChunk& chunk : chunks) {
    builder.add_number(chunk.begin);
    builder.add_number(chunk.end);
  }
  const Digest digest = builder.finish();
  return fmt::format("{:016x}{:016x}", digest.high, digest.low);
}

/// The row of a source: its number and digest.
struct Row {
  int64_t id = 0;
  std::string digest;
};
Result<std::optional<Row>> find_row(const Database& database, std::string_view source) {
  QUIRE_TRY(Statement select,
            database.prepare("SELECT id, digest FROM documents WHERE source = ?"));
  QUIRE_TRY(const bool found, select.bind(1, source).step());
  if (!found) return std::optional<Row>();
  return std::optional(Row{select.integer(0), select.text(1)});
}

Result<void> insert_chunks(const Database& database, int64_t document, std::string_view text,
                           const std::vector<TextChunk>& chunks) {
  QUIRE_TRY(Statement insert,
            database.prepare("INSERT INTO chunks(document, begin, end, first_line, last_line, "
                             "tokens, text) VALUES(?, ?, ?, ?, ?, ?, ?)"));
  QUIRE_TRY(Statement index,
            database.prepare("INSERT INTO chunk_text(rowid, words, bigrams) VALUES(?, ?, ?)"));
  for (const TextChunk& chunk : chunks) {
    const std::string_view piece = text.substr(chunk.begin, chunk.end - chunk.begin);
    insert.bind(1, document).bind(2, static_cast<int64_t>(chunk.begin));
    insert.bind(3, static_cast<int64_t>(chunk.end)).bind(4, chunk.first_line);
    insert.bind(5, chunk.last_line).bind(6, chunk.tokens);
    QUIRE_TRY_VOID(insert.bind(7, piece).run());
    const SearchText searched = search_text(piece);
    index.bind(1, database.last_row_id()).bind(2, std::string_view(searched.words));
    QUIRE_TRY_VOID(index.bind(3, std::string_view(searched.bigrams)).run());
  }
  return {};
}

/// Tells the index, which keeps no text, what to forget.
Result<void> forget_text(const Database& database, int64_t document) {
  QUIRE_TRY(Statement select, database.prepare("SELECT id, text FROM chunks WHERE document = ?"));
  QUIRE_TRY(Statement forget,
            database.prepare("INSERT INTO chunk_text(chunk_text, rowid, words, bigrams) "
                             "VALUES('delete', ?, ?, ?)"));
  select.bind(1, document);
  for (;;) {
    QUIRE_TRY(const bool row, select.step());
    if (!row) return {};
    const SearchText searched = search_text(select.text(1));
    forget.bind(1, select.integer(0)).bind(2, std::string_view(searched.words));
    QUIRE_TRY_VOID(forget.bind(3, std::string_view(searched.bigrams)).run());
  }
}

}  // namespace

std::string RetrievedChunk::label() const {
  if (first_line == last_line) return fmt::format("{}, line {}", source, first_line);
  return fmt::format("{}, lines {}-{}", source, first_line, last_line);
}

DocumentStore::DocumentStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}

DocumentStore::~DocumentStore() = default;

Result<std::unique_ptr<DocumentStore>> DocumentStore::open(const std::string& path) {
  QUIRE_TRY(auto database, Database::open(path, kDocumentDatabase));
  return std::unique_ptr<DocumentStore>(new DocumentStore(std::move(database)));
}

Result<DocumentStore::Added> DocumentStore::add(const std::string& source, std::string_view text,
                                                const std::vector<TextChunk>& chunks,
                                                int64_t now_ms) {
  const std::string digest = digest_of(text, chunks);
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(Transaction transaction, Transaction::begin(*database_));
  QUIRE_TRY(const std::optional<Row> old, find_row(*database_, source));
  if (old && old->digest == digest) return Added::kUnchanged;
  QUIRE_TRY_VOID(remove_locked(source));
  QUIRE_TRY(Statement insert, database_->prepare("INSERT INTO documents(source, bytes, digest, "
                                                 "added_ms) VALUES(?, ?, ?, ?)"));
  insert.bind(1, std::string_view(source)).bind(2, static_cast<int64_t>(text.size()));
  QUIRE_TRY_VOID(insert.bind(3, std::string_view(digest)).bind(4, now_ms).run());
  QUIRE_TRY_VOID(insert_chunks(*database_, database_->last_row_id(), text, chunks));
  QUIRE_TRY_VOID(transaction.commit());
  return old ? Added::kReplaced : Added::kNew;
}

Result<bool> DocumentStore::remove_locked(std::string_view source) {
  QUIRE_TRY(const std::optional<Row> row, find_row(*database_, source));
  if (!row) return false;
  QUIRE_TRY_VOID(forget_text(*database_, row->id));
  for (const std::string_view sql :
       {"DELETE FROM chunks WHERE document = ?", "DELETE FROM documents WHERE id = ?"}) {
    QUIRE_TRY(Statement statement, database_->prepare(sql));
    QUIRE_TRY_VOID(statement.bind(1, row->id).run());
  }
  return true;
}

Result<bool> DocumentStore::remove(std::string_view source) {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY_VOID(database_->execute("PRAGMA secure_delete=ON"));
  QUIRE_TRY(Transaction transaction, Transaction::begin(*database_));
  QUIRE_TRY(const bool removed, remove_locked(source));
  if (!removed) return false;
  // Merged segments hold no word of what is gone.
  QUIRE_TRY_VOID(database_->execute("INSERT INTO chunk_text(chunk_text) VALUES('optimize')"));
  QUIRE_TRY_VOID(transaction.commit());
  QUIRE_TRY_VOID(database_->execute("PRAGMA wal_checkpoint(TRUNCATE)"));
  return true;
}

Result<std::vector<DocumentInfo>> DocumentStore::list() {
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(Statement select,
            database_->prepare("SELECT d.source, d.bytes, d.added_ms, count(c.id), "
                               "coalesce(sum(c.tokens), 0) FROM documents d LEFT JOIN chunks c ON "
                               "c.document = d.id GROUP BY d.id ORDER BY d.source"));
  std::vector<DocumentInfo> documents;
  for (;;) {
    QUIRE_TRY(const bool row, select.step());
    if (!row) return documents;
    documents.push_back({.source = select.text(0),
                         .bytes = select.integer(1),
                         .chunks = select.integer(3),
                         .tokens = select.integer(4),
                         .added_ms = select.integer(2)});
  }
}

Result<std::vector<RetrievedChunk>> DocumentStore::find(std::string_view query, int64_t most) {
  std::vector<RetrievedChunk> found;
  const std::string expression = match_expression(query, MatchTerms::kAny);
  if (expression.empty()) return found;
  const std::lock_guard lock(mutex_);
  QUIRE_TRY(Statement select,
            database_->prepare(
                "SELECT c.id, d.source, c.begin, c.end, c.first_line, c.last_line, c.tokens, "
                "c.text, -bm25(chunk_text) FROM chunk_text JOIN chunks c ON c.id = "
                "chunk_text.rowid JOIN documents d ON d.id = c.document WHERE chunk_text MATCH ? "
                "ORDER BY bm25(chunk_text), c.id LIMIT ?"));
  select.bind(1, std::string_view(expression)).bind(2, most);
  for (;;) {
    QUIRE_TRY(const bool row, select.step());
    if (!row) return found;
    found.push_back({.id = select.integer(0),
                     .source = select.text(1),
                     .begin = static_cast<size_t>(select.integer(2)),
                     .end = static_cast<size_t>(select.integer(3)),
                     .first_line = select.integer(4),
                     .last_line = select.integer(5),
                     .tokens = select.integer(6),
                     .text = select.text(7),
                     .score = select.real(8)});
  }
}

}  // namespace quire::context
