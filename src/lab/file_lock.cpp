// SPDX-License-Identifier: Apache-2.0
#include "lab/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/error.hpp"

namespace ramp {
namespace {

// A holder killed while it starts a worker leaves a child that has not reached its exec yet, and
// with it the lock: such a lock goes by itself.
constexpr std::chrono::seconds kPatienceWithOrphans{5};
constexpr std::chrono::milliseconds kPoll{5};

bool is_dead(const char* pid) {
  const long number = std::strtol(pid, nullptr, 10);
  return number > 0 && ::kill(static_cast<pid_t>(number), 0) != 0 && errno == ESRCH;
}

}  // namespace

FileLock::FileLock(const std::string& path) : lock_path_(path + ".lock") {
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    descriptor_ = ::open(lock_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0)
      throw Error(lock_path_, std::strerror(errno), "a folder that can be written",
                  "check the path, or give another -o");
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      char pid[32] = {};
      const ssize_t length = ::pread(descriptor_, pid, sizeof pid - 1, 0);
      ::close(descriptor_);
      descriptor_ = -1;
      if (is_dead(pid) && std::chrono::steady_clock::now() - start < kPatienceWithOrphans) {
        std::this_thread::sleep_for(kPoll);
        continue;
      }
      throw Error(
          path,
          length > 0 ? fmt::format("a file that process {} is writing", pid) : "a file in use",
          "one campaign at a time", "wait for it, end it, or give another -o");
    }
    // The last holder may have unlinked the file between our open and our lock: then the lock is on
    // a name that is gone.
    struct stat ours {
    }, named{};
    if (::fstat(descriptor_, &ours) == 0 && ::stat(lock_path_.c_str(), &named) == 0 &&
        ours.st_ino == named.st_ino && ours.st_dev == named.st_dev)
      break;
    ::close(descriptor_);
  }
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, pid.data(), pid.size(), 0) < 0) {
    // The pid only makes a refusal friendlier; the lock itself is held.
  }
}

FileLock::~FileLock() {
  ::unlink(lock_path_.c_str());
  ::close(descriptor_);
}

}  // namespace ramp
