#include "context/sqlite.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace quire::context {
namespace {

// Checked whole when it is opened, which takes some milliseconds a megabyte; larger ones are not.
constexpr int64_t kCheckedBytes = int64_t{32} << 20;

// https://www.sqlite.org/fileformat2.html#the_database_header
constexpr size_t kHeaderBytes = 100;
constexpr std::string_view kMagic("SQLite format 3\0", 16);
constexpr size_t kUserVersionAt = 60;
constexpr size_t kApplicationIdAt = 68;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Error io_error(const std::string& path, std::string_view doing, int error) {
  return {ErrorCode::kIo, fmt::format("cannot {} {}: {}", doing, path, std::strerror(error))};
}

uint32_t big_endian(std::span<const unsigned char> bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

/// Refuses what is not a database of this kind, from its first bytes alone. The kind stands there
/// from the moment the file has its name.
Result<void> check_header(const std::string& path, const DatabaseKind& kind) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return io_error(path, "open", errno);
  std::array<unsigned char, kHeaderBytes> header{};
  const ssize_t got = ::pread(file.get(), header.data(), header.size(), 0);
  if (got < 0) return io_error(path, "read", errno);
  const std::string_view magic(reinterpret_cast<const char*>(header.data()), kMagic.size());
  const std::span bytes(header);
  if (static_cast<size_t>(got) < kHeaderBytes || magic != kMagic ||
      big_endian(bytes.subspan<kApplicationIdAt, 4>()) != kind.application_id) {
    return Error{ErrorCode::kBadFile,
                 fmt::format("{} is no database of Quire's {}; it was left as it is: move it away "
                             "or set another QUIRE_HOME",
                             path, kind.what)};
  }
  const uint32_t version = big_endian(bytes.subspan<kUserVersionAt, 4>());
  if (version != kind.version) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{} was written by another version of Quire (its {} have version {}, "
                             "this program's {}); it was left as it is",
                             path, kind.what, version, kind.version)};
  }
  return {};
}

Result<void> make_durable(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 || ::fsync(file.get()) != 0) return io_error(path, "write", errno);
  return {};
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// The schema in a file of its own; SQLite closes it without its log.
Result<void> write_schema(const std::string& path, const DatabaseKind& kind) {
  sqlite3* handle = nullptr;
  int code = ::sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE, nullptr);
  const std::string sql = fmt::format(
      "PRAGMA synchronous=FULL; PRAGMA application_id={}; PRAGMA user_version={};"
      "PRAGMA journal_mode=WAL; BEGIN; {} COMMIT;",
      kind.application_id, kind.version, kind.schema);
  if (code == SQLITE_OK) code = ::sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr);
  const std::string message = ::sqlite3_errmsg(handle);
  ::sqlite3_close(handle);
  if (code == SQLITE_OK) return make_durable(path);
  return Error{ErrorCode::kIo, fmt::format("cannot create {}: {}", path, message)};
}

/// Gives the finished file its name, unless another process was faster: its file is as good.
Result<void> publish(const std::string& temporary, const std::string& path) {
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) {
    return make_durable(folder_of(path));
  }
  const int error =
      errno == EINVAL ? (::link(temporary.c_str(), path.c_str()) == 0 ? 0 : errno) : errno;
  ::unlink(temporary.c_str());
  if (error != 0 && error != EEXIST) return io_error(path, "create", error);
  return make_durable(folder_of(path));
}

Result<void> create(const std::string& path, const DatabaseKind& kind) {
  std::string temporary = path + ".XXXXXX";
  {
    const FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));  // mode 0600
    if (file.get() < 0) return io_error(path, "create", errno);
  }
  const Result<void> written = write_schema(temporary, kind);
  if (!written.ok()) {
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
      ::unlink((temporary + suffix).c_str());
    }
    return written;
  }
  return publish(temporary, path);
}

int size_of(std::string_view text) {
  return text.size() > INT_MAX ? -1 : static_cast<int>(text.size());
}

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      handle_(std::exchange(other.handle_, nullptr)),
      bind_error_(other.bind_error_) {}

Statement::~Statement() {
  ::sqlite3_finalize(handle_);
}

void Statement::note(int code) {
  QUIRE_CHECK(code != SQLITE_RANGE && code != SQLITE_MISUSE, ::sqlite3_sql(handle_));
  if (bind_error_ == SQLITE_OK) bind_error_ = code;
}

Statement& Statement::bind(int parameter, int64_t value) {
  note(::sqlite3_bind_int64(handle_, parameter, value));
  return *this;
}

Statement& Statement::bind(int parameter, std::string_view text) {
  const int size = size_of(text);
  // An empty view may have no address, which would mean NULL.
  const char* data = text.empty() ? "" : text.data();
  note(size < 0 ? SQLITE_TOOBIG
                : ::sqlite3_bind_text(handle_, parameter, data, size, SQLITE_TRANSIENT));
  return *this;
}

Statement& Statement::bind_blob(int parameter, std::span<const std::byte> bytes) {
  note(::sqlite3_bind_blob64(handle_, parameter,
                             bytes.empty() ? "" : static_cast<const void*>(bytes.data()),
                             bytes.size(), SQLITE_TRANSIENT));
  return *this;
}

Statement& Statement::bind(int parameter, std::optional<int64_t> value) {
  if (value) return bind(parameter, *value);
  note(::sqlite3_bind_null(handle_, parameter));
  return *this;
}

Statement& Statement::bind(int parameter, const std::optional<std::string>& text) {
  if (text) return bind(parameter, std::string_view(*text));
  note(::sqlite3_bind_null(handle_, parameter));
  return *this;
}

Result<bool> Statement::step() {
  if (bind_error_ != SQLITE_OK) return database_->error(bind_error_);
  const int code = ::sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->error(code);
}

Result<void> Statement::run() {
  for (;;) {
    const Result<bool> row = step();
    if (!row.ok()) {
      reset();
      return row.error();
    }
    if (!*row) break;
  }
  reset();
  return {};
}

void Statement::reset() {
  ::sqlite3_reset(handle_);
  bind_error_ = SQLITE_OK;
}

int64_t Statement::integer(int column) const {
  return ::sqlite3_column_int64(handle_, column);
}

double Statement::real(int column) const {
  return ::sqlite3_column_double(handle_, column);
}

std::string Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(::sqlite3_column_text(handle_, column));
  if (text == nullptr) return "";
  return {text, static_cast<size_t>(::sqlite3_column_bytes(handle_, column))};
}

std::string_view Statement::blob(int column) const {
  const void* bytes = ::sqlite3_column_blob(handle_, column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes),
          static_cast<size_t>(::sqlite3_column_bytes(handle_, column))};
}

std::optional<int64_t> Statement::optional_integer(int column) const {
  if (::sqlite3_column_type(handle_, column) == SQLITE_NULL) return std::nullopt;
  return integer(column);
}

std::optional<std::string> Statement::optional_text(int column) const {
  if (::sqlite3_column_type(handle_, column) == SQLITE_NULL) return std::nullopt;
  return text(column);
}

Result<std::unique_ptr<Database>> Database::open(const std::string& path, const DatabaseKind& kind,
                                                 std::chrono::milliseconds lock_wait) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return io_error(path, "open", errno);
    QUIRE_TRY_VOID(create(path, kind));
  }
  QUIRE_TRY_VOID(check_header(path, kind));
  std::unique_ptr<Database> database(new Database(path, std::string(kind.what), lock_wait));
  const int code = ::sqlite3_open_v2(path.c_str(), &database->handle_,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE, nullptr);
  if (code != SQLITE_OK) return database->error(code);
  QUIRE_TRY_VOID(database->configure());
  return database;
}

Database::~Database() {
  ::sqlite3_close_v2(handle_);
}

/// Checks what is there before anything may write to it.
Result<void> Database::configure() {
  ::sqlite3_busy_timeout(handle_, static_cast<int>(lock_wait_.count()));
  ::sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  ::sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  ::sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  QUIRE_TRY_VOID(
      execute("PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA cell_size_check=ON;"));
  struct stat info {};
  if (::stat(path_.c_str(), &info) == 0 && info.st_size <= kCheckedBytes) {
    QUIRE_TRY(Statement check, prepare("PRAGMA quick_check(1)"));
    QUIRE_TRY(const bool row, check.step());
    if (!row || check.text(0) != "ok") return error(SQLITE_CORRUPT);
  }
  ::sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  return {};
}

Result<Statement> Database::prepare(std::string_view sql) const {
  sqlite3_stmt* statement = nullptr;
  const int code = ::sqlite3_prepare_v2(handle_, sql.data(), size_of(sql), &statement, nullptr);
  if (code != SQLITE_OK) return error(code);
  return Statement(*this, statement);
}

Result<void> Database::execute(const std::string& sql) const {
  const int code = ::sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code);
  return {};
}

int64_t Database::last_row_id() const {
  return ::sqlite3_last_insert_rowid(handle_);
}

int64_t Database::changes() const {
  return ::sqlite3_changes64(handle_);
}

Error Database::error(int code) const {
  const int system_error = handle_ != nullptr ? ::sqlite3_system_errno(handle_) : 0;
  if (code == SQLITE_IOERR_WRITE) {
    // A disk without room is SQLITE_FULL; SQLite does not pass on what else stopped a file's
    // growth.
    return {ErrorCode::kIo,
            fmt::format("the system does not let {} grow (a quota, or a limit on file sizes): "
                        "nothing was added",
                        path_)};
  }
  switch (code & 0xff) {
    case SQLITE_FULL:
      return {ErrorCode::kIo, fmt::format("the disk is full: nothing was added to {}; free some "
                                          "space and try again",
                                          path_)};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::kIo,
              fmt::format("another program has kept {} locked for {:g} s; nothing was written: "
                          "try again",
                          path_, std::chrono::duration<double>(lock_wait_).count())};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {ErrorCode::kBadFile,
              fmt::format("{} is damaged; it was left as it is: move it away to start anew, "
                          "'sqlite3 FILE .recover' can save what is left of the {}",
                          path_, what_)};
    case SQLITE_IOERR:
      return io_error(path_, "read or write", system_error != 0 ? system_error : EIO);
    case SQLITE_TOOBIG:
      return {ErrorCode::kUsage,
              fmt::format("a text of more than a gigabyte does not fit into {}", path_)};
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return io_error(path_, "write to", system_error != 0 ? system_error : EACCES);
    default:
      return {ErrorCode::kIo,
              fmt::format("{}: {}", path_,
                          handle_ != nullptr ? ::sqlite3_errmsg(handle_) : ::sqlite3_errstr(code))};
  }
}

Result<Transaction> Transaction::begin(const Database& database) {
  QUIRE_TRY_VOID(database.execute("BEGIN IMMEDIATE"));
  return Transaction(database);
}

Transaction::~Transaction() {
  if (database_ == nullptr) return;
  // It fails only where SQLite has rolled back by itself already.
  static_cast<void>(database_->execute("ROLLBACK").ok());
}

Result<void> Transaction::commit() {
  QUIRE_TRY_VOID(database_->execute("COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace quire::context
