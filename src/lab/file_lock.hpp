// SPDX-License-Identifier: Apache-2.0
// One writer for a file: a lock beside it that the kernel releases when its holder dies, however it
// dies.
#pragma once

#include <string>

namespace ramp {

class FileLock {
 public:
  // Takes `path`.lock, or throws an Error that names the pid of the process that holds it.  A lock
  // left by a dead process to its dying children is waited for, 5 s at most.
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  std::string lock_path_;
  int descriptor_ = -1;
};

}  // namespace ramp
