// SPDX-License-Identifier: Apache-2.0
// SQLite as values that clean up after themselves and errors that say what to do.  Only lab/*.cpp
// includes this.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ramp {

class Database;

// One prepared statement.  Text and blobs that are bound must live until step() returns.
class Statement {
 public:
  Statement(Database& database, const char* sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(int index, std::int64_t value);
  Statement& bind(int index, std::string_view text);
  Statement& bind(int index, std::span<const unsigned char> blob);
  bool step();  // true: a row is there
  void run();   // a statement without rows: step, then reset for the next binding
  void reset();

  std::int64_t integer(int column) const;
  std::string text(int column) const;
  std::span<const unsigned char> blob(int column) const;  // valid until the next step

 private:
  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
};

class Database {
 public:
  enum class Mode { kCreate, kReadWrite, kReadOnly };
  Database(const std::string& path, Mode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const char* sql);
  std::int64_t integer(const char* sql);  // the first column of the first row
  std::string text(const char* sql);
  [[noreturn]] void fail(
      int code) const;  // an Error that names the file, the reason and the next step
  sqlite3* handle() { return handle_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  sqlite3* handle_ = nullptr;
};

// All or nothing: what is not committed is rolled back, whichever way the scope ends.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace ramp
