// SPDX-License-Identifier: Apache-2.0
#include "lab/sqlite.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"

namespace ramp {
namespace {

// A file whose header says WAL needs a shared-memory file beside it, which a read-only directory
// refuses, unless SQLite is told that nobody writes.  That is true when no log is there: a writer
// keeps one as long as it lives.
bool is_wal_without_log(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) return false;
  unsigned char header[20] = {};
  const bool whole = std::fread(header, 1, sizeof header, file) == sizeof header;
  std::fclose(file);
  std::error_code ignored;
  return whole && header[18] == 2 && !std::filesystem::exists(path + "-wal", ignored);
}

std::string file_uri(const std::string& path, const char* parameters) {
  std::string uri = "file:";
  for (unsigned char c : path) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
        std::string_view("/._-~").find(static_cast<char>(c)) != std::string_view::npos;
    uri += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return uri + parameters;
}

}  // namespace

Statement::Statement(Database& database, const char* sql) : database_(database) {
  const int code = sqlite3_prepare_v2(database.handle(), sql, -1, &statement_, nullptr);
  if (code != SQLITE_OK) database.fail(code);
}

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::bind(int index, std::int64_t value) {
  const int code = sqlite3_bind_int64(statement_, index, value);
  if (code != SQLITE_OK) database_.fail(code);
  return *this;
}

Statement& Statement::bind(int index, std::string_view text) {
  const int code =
      sqlite3_bind_text64(statement_, index, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (code != SQLITE_OK) database_.fail(code);
  return *this;
}

Statement& Statement::bind(int index, std::span<const unsigned char> blob) {
  // A null pointer would bind NULL, which is not an empty blob.
  const void* data = blob.empty() ? "" : static_cast<const void*>(blob.data());
  const int code = sqlite3_bind_blob64(statement_, index, data, blob.size(), SQLITE_STATIC);
  if (code != SQLITE_OK) database_.fail(code);
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  sqlite3_reset(statement_);
  database_.fail(code);
}

void Statement::run() {
  while (step()) {
  }
  reset();
}

void Statement::reset() { sqlite3_reset(statement_); }

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::string Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return data
             ? std::string(data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)))
             : std::string();
}

std::span<const unsigned char> Statement::blob(int column) const {
  const auto* data = static_cast<const unsigned char*>(sqlite3_column_blob(statement_, column));
  return {data, data ? static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)) : 0};
}

Database::Database(const std::string& path, Mode mode) : path_(path) {
  int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const char* parameters = "";
  if (mode == Mode::kReadOnly) {
    flags |= SQLITE_OPEN_READONLY;
    if (is_wal_without_log(path)) parameters = "?immutable=1";
  } else {
    flags |= SQLITE_OPEN_READWRITE | (mode == Mode::kCreate ? SQLITE_OPEN_CREATE : 0);
  }
  const int code = sqlite3_open_v2(file_uri(path, parameters).c_str(), &handle_, flags, nullptr);
  if (code != SQLITE_OK) {
    const int system = handle_ ? sqlite3_system_errno(handle_) : 0;
    sqlite3_close(handle_);
    handle_ = nullptr;
    throw Error(path, system ? std::strerror(system) : sqlite3_errstr(code),
                mode == Mode::kReadOnly ? "a measurements file that can be read"
                                        : "a file in a folder that can be written",
                "check the path and its permissions");
  }
  sqlite3_busy_timeout(handle_, 2000);
  // Files come from others too: no code in a schema, no surprise in a page, no row that asks for
  // gigabytes.
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, 4 << 20);
}

Database::~Database() { sqlite3_close_v2(handle_); }

void Database::execute(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

std::int64_t Database::integer(const char* sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

std::string Database::text(const char* sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.text(0) : std::string();
}

void Database::fail(int code) const {
  const std::string reason = handle_ ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      throw Error(path_, "a file of another kind", "a ramp measurements file (.rmeas)",
                  "check the path");
    case SQLITE_CORRUPT:
      throw Error(path_, "a damaged file (" + reason + ")", "a whole measurements file",
                  "copy it again from where it came, or measure again with `ramp profile`");
    case SQLITE_FULL:
      throw Error(path_, "a full disk", "some free space in its folder",
                  "free some and run the same command again: what was stored before is intact");
    case SQLITE_IOERR: {
      const int system = handle_ ? sqlite3_system_errno(handle_) : 0;
      throw Error(
          path_,
          fmt::format("{} ({})", reason, system ? std::strerror(system) : "no further detail"),
          "a disk that can be read and written",
          "mend that and run the same command again: what was stored before is intact");
    }
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw Error(path_, "a file that another process is writing", "one writer at a time",
                  "wait for it to finish");
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      throw Error(path_, reason, "a file in a folder that can be written",
                  "check permissions, or give another -o");
    case SQLITE_TOOBIG:
      throw Error(path_, "a row of over 4 MiB", "smaller rows", "the file was not written by ramp");
    default:
      throw Error(path_, reason, "a ramp measurements file", "measure again with `ramp profile`");
  }
}

Transaction::Transaction(Database& database) : database_(database) {
  database_.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  // A failed write may have rolled back by itself already.
  if (open_ && !sqlite3_get_autocommit(database_.handle()))
    sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

}  // namespace ramp
