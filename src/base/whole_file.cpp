// SPDX-License-Identifier: Apache-2.0
#include "base/whole_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"

namespace ramp {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& temporary, int error) {
  if (!temporary.empty()) ::unlink(temporary.c_str());
  throw Error(path, std::strerror(error), "a file that can be written",
              "free space, or name another place");
}

// The rename itself must survive a power cut too.  Some file systems can't sync a directory; the
// file is whole anyway.
void sync_directory(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const int fd = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

void write_whole_file(const std::string& path, std::string_view content) {
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) fail(path, "", errno);
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = written < 0 ? errno : ENOSPC;
      ::close(fd);
      fail(path, temporary, error);
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
  // mkostemp makes files that only the owner reads; results are for everybody the umask allows.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(fd, 0666 & ~mask);
  if (::fsync(fd) != 0 || ::close(fd) != 0) fail(path, temporary, errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail(path, temporary, errno);
  sync_directory(path);
}

}  // namespace ramp
