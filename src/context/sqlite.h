// sqlite.h: a SQLite database of ours, as a value: opening, statements, transactions.
//
// Write-ahead log, fsync at every commit: what was committed survives the process and the machine.
// A new database appears whole or not at all, for this user only (mode 0600); one that is damaged,
// newer or not ours is refused in a sentence and not written to. Another program's lock is waited
// for. Thread rule: one thread at a time; several processes at once.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace quire::context {

/// What a file must be to be opened.
struct DatabaseKind {
  std::string_view what;  // "conversations", for sentences
  uint32_t application_id;
  uint32_t version;         // of the schema
  std::string_view schema;  // SQL statements that make it
};

/// A prepared statement. Parameters count from 1, columns from 0. A value that cannot be bound is
/// the error of the next step().
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  Statement& bind(int parameter, int64_t value);
  Statement& bind(int parameter, std::string_view text);
  Statement& bind_blob(int parameter, std::span<const std::byte> bytes);
  /// NULL where there is none.
  Statement& bind(int parameter, std::optional<int64_t> value);
  Statement& bind(int parameter, const std::optional<std::string>& text);

  /// True: a row, whose columns can be read until the next call. False: done.
  Result<bool> step();
  /// Runs it to its end and makes it ready to be bound anew.
  Result<void> run();
  void reset();

  int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  std::string_view blob(int column) const;  // valid until the next step
  std::optional<int64_t> optional_integer(int column) const;
  std::optional<std::string> optional_text(int column) const;

 private:
  friend class Database;
  Statement(const class Database& database, sqlite3_stmt* handle)
      : database_(&database), handle_(handle) {}
  void note(int code);

  const Database* database_;
  sqlite3_stmt* handle_;
  int bind_error_ = 0;
};

class Database {
 public:
  /// As long as a person waits before asking what is wrong.
  static constexpr std::chrono::milliseconds kLockWait{10'000};
  /// Opens or makes the database at `path`, whose folder must exist. Other programs' locks are
  /// waited for as long as `lock_wait`.
  static Result<std::unique_ptr<Database>> open(const std::string& path, const DatabaseKind& kind,
                                                std::chrono::milliseconds lock_wait = kLockWait);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Result<Statement> prepare(std::string_view sql) const;
  /// Statements without parameters and results.
  Result<void> execute(const std::string& sql) const;
  int64_t last_row_id() const;
  /// Rows that the last statement changed.
  int64_t changes() const;
  const std::string& path() const { return path_; }
  /// SQLite's code as a sentence about this file.
  Error error(int code) const;

 private:
  Database(std::string path, std::string what, std::chrono::milliseconds lock_wait)
      : path_(std::move(path)), what_(std::move(what)), lock_wait_(lock_wait) {}
  Result<void> configure();

  std::string path_;
  std::string what_;
  std::chrono::milliseconds lock_wait_;
  sqlite3* handle_ = nullptr;
};

/// Writes that happen together or not at all: undone unless committed.
class Transaction {
 public:
  /// Waits until no other program writes.
  static Result<Transaction> begin(const Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  /// Durable when it returns.
  Result<void> commit();

 private:
  explicit Transaction(const Database& database) : database_(&database) {}
  const Database* database_;
};

}  // namespace quire::context
