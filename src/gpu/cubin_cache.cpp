// SPDX-License-Identifier: Apache-2.0
#include "gpu/cubin_cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <thread>

#include "gpu/compile_workers.hpp"
#include "gpu/include_closure.hpp"
#include "gpu/nvrtc.hpp"

namespace ramp::gpu {
namespace {

// An entry: this header, then encode(cubin).  All integers little-endian, as the only architecture
// with sm_90 hosts that we build for; an entry from another one fails the magic.
struct EntryHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t key[2];
  std::uint64_t payload_bytes;
  std::uint64_t payload_checksum;  // XXH3-64
  std::uint64_t header_checksum;   // XXH3-64 of all of the above
};
static_assert(sizeof(EntryHeader) == 56);
constexpr char kMagic[8] = {'R', 'A', 'M', 'P', 'c', 'u', 'b', '\n'};
constexpr std::uint32_t kVersion = 1;
constexpr std::int64_t kMaxEntry = 300ll << 20;
constexpr std::size_t kChecked = offsetof(EntryHeader, header_checksum);

std::string key_text(const CacheKey& key) { return fmt::format("{:016x}{:016x}", key[0], key[1]); }

std::string compiler_tag() { return nvrtc_available() ? "nvrtc" + nvrtc_version() : "no-nvrtc"; }

// Reads to the end, at most `limit` bytes.  errno in `error` when the system refuses.
std::optional<std::string> read_all(int fd, std::int64_t limit, int& error) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return error = errno, std::nullopt;
  if (status.st_size > limit) return std::string();  // no entry of ours: damaged, not an I/O error
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = read(fd, bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error = errno, std::nullopt;
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

// Empty when code from such a file or directory may be run.
std::string distrust(const struct stat& status) {
  if (status.st_uid != geteuid() && status.st_uid != 0)
    return fmt::format("it belongs to user {}, not to you ({}) or root", status.st_uid, geteuid());
  if (status.st_mode & (S_IWGRP | S_IWOTH))
    return fmt::format("others may write to it (mode {:o})", status.st_mode & 07777);
  return "";
}

std::optional<Cubin> decode_entry(std::string_view bytes, const CacheKey& key) {
  EntryHeader header;
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::string_view payload = bytes.substr(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.version != kVersion ||
      header.header_bytes != sizeof header || header.key[0] != key[0] || header.key[1] != key[1] ||
      header.payload_bytes != payload.size() ||
      header.header_checksum != XXH3_64bits(bytes.data(), kChecked) ||
      header.payload_checksum != XXH3_64bits(payload.data(), payload.size()))
    return std::nullopt;
  return decode(payload);
}

std::string encode_entry(const Cubin& cubin, const CacheKey& key) {
  const std::string payload = encode(cubin);
  EntryHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.header_bytes = sizeof header;
  header.key[0] = key[0];
  header.key[1] = key[1];
  header.payload_bytes = payload.size();
  header.payload_checksum = XXH3_64bits(payload.data(), payload.size());
  header.header_checksum = XXH3_64bits(&header, kChecked);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return bytes += payload;
}

}  // namespace

CacheOptions cache_options_from_environment() {
  CacheOptions options;
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return text ? std::optional<std::string>(text) : std::nullopt;
  };
  if (const auto wanted = value("RAMP_CACHE_DIR"))
    options.directory = *wanted;
  else if (const auto xdg = value("XDG_CACHE_HOME"); xdg && xdg->starts_with("/"))
    options.directory = *xdg + "/ramp";
  else if (const auto home = value("HOME"); home && !home->empty())
    options.directory = *home + "/.cache/ramp";
  return options;
}

CacheKey cache_key(const CompileRequest& request) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  const auto add =
      [&](std::string_view text) {  // with its length, so that no two lists of texts look alike
        const std::uint64_t length = text.size();
        XXH3_128bits_update(state, &length, sizeof length);
        XXH3_128bits_update(state, text.data(), text.size());
      };
  add(request.name);
  add(request.source);
  add(request.arch);
  const std::vector<std::string> options = effective_options(request);
  add(std::to_string(options.size()));
  for (const std::string& option : options) add(option);
  for (const auto& [name, text] : reachable_headers(request)) {
    add(name);
    add(text);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return {hash.high64, hash.low64};
}

// An exclusive flock on <key>.lock.  The file is never removed: whoever held the removed one and
// whoever made a new one would both think they hold the lock.  A holder that dies releases it.
class CubinCache::KeyLock {
 public:
  // Waits at most `seconds`, and ends early when `ready` says that there is nothing left to do.
  template <class Ready>
  KeyLock(int directory, const CacheKey& key, double seconds, Ready ready) {
    fd_ = openat(directory, (key_text(key) + ".lock").c_str(),
                 O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd_ < 0) return;  // a read-only directory: nothing will be published either
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR)
        return;  // a file system without locks: both compile
      if (ready()) return;
      if (std::chrono::steady_clock::now() >= deadline) {
        timed_out_ = true;
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    held_ = true;
  }
  ~KeyLock() {
    if (held_) flock(fd_, LOCK_UN);  // children that inherited the descriptor don't keep it
    if (fd_ >= 0) close(fd_);
  }
  KeyLock(const KeyLock&) = delete;
  KeyLock& operator=(const KeyLock&) = delete;
  bool timed_out() const { return timed_out_; }

 private:
  int fd_ = -1;
  bool held_ = false, timed_out_ = false;
};

CubinCache::CubinCache(CacheOptions options, Compile compile)
    : options_(std::move(options)), compile_(std::move(compile)) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  shared_ = new (memory) Shared;
  uses_nvrtc_ = !compile_;
  if (uses_nvrtc_) compile_ = [](const CompileRequest& request) { return gpu::compile(request); };
  if (!options_.warn)
    options_.warn = [](const std::string& text) {
      fmt::print(stderr, "ramp: warning: {}\n", text);
    };
  open_directory();
}

CubinCache::~CubinCache() {
  if (directory_fd_ >= 0) close(directory_fd_);
  munmap(shared_, sizeof(Shared));
}

void CubinCache::open_directory() {
  if (options_.directory.empty()) {
    why_disabled_ = "no directory: RAMP_CACHE_DIR is empty, or neither it nor HOME is set";
    return;
  }
  const auto refuse = [&](const std::string& why) {
    why_disabled_ = why;
    options_.warn(fmt::format(
        "compiled kernels are not kept: cache directory {}: {}; set RAMP_CACHE_DIR to a "
        "directory of your own (empty: no cache, no warning)",
        options_.directory, why));
    shared_->warned = true;
  };
  std::error_code ignored;
  const std::filesystem::path path = std::filesystem::absolute(options_.directory, ignored);
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  mkdir(path.c_str(), 0700);  // whatever goes wrong shows in open
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return refuse(std::strerror(errno));
  struct stat status {};
  const std::string why = fstat(fd, &status) == 0 ? distrust(status) : std::strerror(errno);
  if (!why.empty()) {
    close(fd);
    return refuse(why);
  }
  options_.directory = path.string();
  directory_fd_ = fd;
  sweep_temporaries();
}

// What a killed process left half-written.  An hour: no living process takes that long from open to
// rename.
void CubinCache::sweep_temporaries() const {
  DIR* list = opendir(options_.directory.c_str());
  if (!list) return;
  const std::time_t old = std::time(nullptr) - 3600;
  while (const dirent* entry = readdir(list)) {
    const std::string_view name = entry->d_name;
    struct stat status {};
    if (name.ends_with(".tmp") &&
        fstatat(directory_fd_, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        status.st_mtime < old)
      unlinkat(directory_fd_, entry->d_name, 0);
  }
  closedir(list);
}

bool CubinCache::writable() const {
  return enabled() && faccessat(directory_fd_, ".", W_OK | X_OK, AT_EACCESS) == 0;
}

CacheCounters CubinCache::counters() const {
  return {shared_->hits, shared_->compiled, shared_->damaged, shared_->io_errors,
          shared_->lock_timeouts};
}

void CubinCache::io_error(const std::string& what, int error) {
  ++shared_->io_errors;
  if (shared_->warned.exchange(true)) return;
  options_.warn(fmt::format(
      "{} in the cache directory {}: {}; going on without it, kernels are compiled again next time",
      what, options_.directory, std::strerror(error)));
}

std::string CubinCache::entry_path(const CompileRequest& request) const {
  return fmt::format("{}/{}.{}.cubin", options_.directory, key_text(cache_key(request)),
                     compiler_tag());
}

// The entry of this NVRTC; where there is none, those of every NVRTC, newest first.
std::vector<std::string> CubinCache::entry_names(const CacheKey& key) const {
  if (nvrtc_available()) return {fmt::format("{}.{}.cubin", key_text(key), compiler_tag())};
  std::vector<std::string> names;
  DIR* list = opendir(options_.directory.c_str());
  if (!list) return names;
  const std::string prefix = key_text(key) + ".";
  while (const dirent* entry = readdir(list)) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(prefix) && name.ends_with(".cubin")) names.emplace_back(name);
  }
  closedir(list);
  std::sort(names.rbegin(), names.rend());
  return names;
}

std::optional<Cubin> CubinCache::read_entry(const std::string& name, const CacheKey& key,
                                            Damage damage) {
  const int fd = openat(directory_fd_, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    if (errno == ELOOP && damage == Damage::kCounted)
      ++shared_->damaged;  // a link: not written by us
    if (errno != ELOOP && errno != ENOENT) io_error("reading " + name, errno);
    return std::nullopt;
  }
  struct stat status {};
  int error = 0;
  const bool trusted =
      fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && distrust(status).empty();
  const std::optional<std::string> bytes = trusted ? read_all(fd, kMaxEntry, error) : std::string();
  close(fd);
  if (!bytes) {
    io_error("reading " + name, error);
    return std::nullopt;
  }
  std::optional<Cubin> cubin = decode_entry(*bytes, key);
  if (cubin && cubin->silent()) cubin.reset();
  if (!cubin && damage == Damage::kCounted) ++shared_->damaged;
  return cubin;
}

std::optional<Cubin> CubinCache::find(const CompileRequest& request) {
  if (!enabled()) return std::nullopt;
  const CacheKey key = cache_key(request);
  for (const std::string& name : entry_names(key))
    if (std::optional<Cubin> cubin = read_entry(name, key, Damage::kCounted)) {
      ++shared_->hits;
      return cubin;
    }
  return std::nullopt;
}

void CubinCache::publish(const std::string& name, const CacheKey& key, const Cubin& cubin) {
  static std::atomic<unsigned> serial{0};
  const std::string temporary = fmt::format("{}.{}.{}.tmp", key_text(key), getpid(), serial++);
  const int fd = openat(directory_fd_, temporary.c_str(),
                        O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return io_error("creating an entry", errno);
  bool good = write_all(fd, encode_entry(cubin, key)) && fsync(fd) == 0;
  int error = good ? 0 : errno;
  if (close(fd) != 0 && good) good = false, error = errno;
  if (good && renameat(directory_fd_, temporary.c_str(), directory_fd_, name.c_str()) != 0)
    good = false, error = errno;
  if (!good) {
    unlinkat(directory_fd_, temporary.c_str(), 0);
    return io_error("writing an entry", error);
  }
  fsync(directory_fd_);  // without it the entry may be gone after a power failure, which costs a
                         // compilation
}

// Compiles under the key's lock, unless another process did while we waited for it.
Cubin CubinCache::build(const CompileRequest& request) {
  const CacheKey key = cache_key(request);
  const std::string name = fmt::format("{}.{}.cubin", key_text(key), compiler_tag());
  const auto there = [&] { return faccessat(directory_fd_, name.c_str(), R_OK, 0) == 0; };
  // A damaged entry is there all the time; for it only the lock counts.
  const bool damaged = there();
  const KeyLock lock(directory_fd_, key, options_.lock_wait_seconds,
                     [&] { return !damaged && there(); });
  if (lock.timed_out()) ++shared_->lock_timeouts;
  if (std::optional<Cubin> cubin = there() ? read_entry(name, key, Damage::kKnown) : std::nullopt) {
    ++shared_->hits;
    return *cubin;
  }
  Cubin cubin = compile_(request);
  ++shared_->compiled;
  publish(name, key, cubin);
  return cubin;
}

Cubin CubinCache::get(const CompileRequest& request) {
  if (std::optional<Cubin> cubin = find(request)) return *cubin;
  if (enabled()) return build(request);
  Cubin cubin = compile_(request);
  ++shared_->compiled;
  return cubin;
}

std::vector<CompileResult> CubinCache::build_all(const std::vector<CompileRequest>& requests,
                                                 int jobs, const CompileProgress& progress) {
  if (uses_nvrtc_) nvrtc();  // missing: say so once; there: the children inherit it
  return run_compile_workers(requests, jobs, progress, [this](const CompileRequest& request) {
    CompileResult result;
    try {
      result.cubin = enabled() ? build(request) : compile_(request);
      if (!enabled()) ++shared_->compiled;
    } catch (const std::exception& e) {
      result.error = e.what();
    }
    return result;
  });
}

std::vector<CompileResult> CubinCache::get_all(std::span<const CompileRequest> requests, int jobs,
                                               const CompileProgress& progress) {
  std::vector<CompileResult> results(requests.size());
  std::vector<std::size_t> missing;
  std::size_t done = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if ((results[i].cubin = find(requests[i]))) {
      ++done;
      if (progress) progress(done, requests.size(), i);
    } else {
      missing.push_back(i);
    }
  }
  if (missing.empty()) return results;
  // Two processes that start on the same list begin at different places, so that each compiles a
  // part and finds the other's, where in one order the second would wait for the first at every
  // entry.
  std::rotate(missing.begin(), missing.begin() + getpid() % static_cast<int>(missing.size()),
              missing.end());
  std::vector<CompileRequest> open;
  for (const std::size_t i : missing) open.push_back(requests[i]);
  const CompileProgress of_all = [&](std::size_t built, std::size_t, std::size_t last) {
    if (progress) progress(done + built, requests.size(), missing[last]);
  };
  std::vector<CompileResult> built = build_all(open, jobs, of_all);
  for (std::size_t i = 0; i < missing.size(); ++i) results[missing[i]] = std::move(built[i]);
  return results;
}

CubinCache::Usage CubinCache::usage() const {
  Usage usage;
  DIR* list = enabled() ? opendir(options_.directory.c_str()) : nullptr;
  if (!list) return usage;
  while (const dirent* entry = readdir(list)) {
    struct stat status {};
    if (!std::string_view(entry->d_name).ends_with(".cubin") ||
        fstatat(directory_fd_, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    ++usage.entries;
    usage.bytes += status.st_size;
  }
  closedir(list);
  return usage;
}

}  // namespace ramp::gpu
