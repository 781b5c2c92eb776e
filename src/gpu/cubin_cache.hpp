// SPDX-License-Identifier: Apache-2.0
// Cubins on disk, so that a configuration is compiled once a machine.  docs/cache.md has the rules
// for people.
//
// A damaged entry is rebuilt; a directory that can't be read or written costs speed and one
// warning, never a failure; a directory that others may write to is not used at all, because what
// lies in it is run.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/compiler.hpp"

namespace ramp::gpu {

struct CacheOptions {
  std::string directory;          // empty: no cache
  double lock_wait_seconds = 60;  // for another process that compiles the same entry; then both do
  std::function<void(const std::string&)> warn;  // default: a line on stderr
};

// The one place that reads the environment: RAMP_CACHE_DIR (an empty value turns the cache off),
// else XDG_CACHE_HOME/ramp, else HOME/.cache/ramp.
CacheOptions cache_options_from_environment();

struct CacheCounters {
  int hits = 0;           // found and sound
  int compiled = 0;       // not found, or damaged
  int damaged = 0;        // found, refused by checksum, length or version
  int io_errors = 0;      // reads and writes that the system refused
  int lock_timeouts = 0;  // waited in vain for another process
};

using CacheKey = std::array<std::uint64_t, 2>;

// Over everything that decides the code: source, reachable headers, options, architecture, name.
// NVRTC's version is beside the key in the entry's name: where NVRTC isn't installed, an entry of
// any version serves.
CacheKey cache_key(const CompileRequest& request);

class CubinCache {
 public:
  using Compile = std::function<Cubin(const CompileRequest&)>;

  explicit CubinCache(CacheOptions options = cache_options_from_environment(),
                      Compile compile = {});
  ~CubinCache();
  CubinCache(const CubinCache&) = delete;
  CubinCache& operator=(const CubinCache&) = delete;

  // From the cache, else compiled and kept.  Throws what compile() throws.
  Cubin get(const CompileRequest& request);

  // From the cache or not at all: this one never compiles, which is what serving needs.
  std::optional<Cubin> find(const CompileRequest& request);
  bool contains(const CompileRequest& request) { return find(request).has_value(); }

  // All at once, those that are missing in `jobs` processes (0: one a core); see compile_all.
  std::vector<CompileResult> get_all(std::span<const CompileRequest> requests, int jobs = 0,
                                     const CompileProgress& progress = {});

  bool enabled() const { return directory_fd_ >= 0; }
  const std::string& directory() const { return options_.directory; }
  const std::string& why_disabled() const { return why_disabled_; }
  bool writable() const;  // whether new entries will be kept
  CacheCounters counters() const;
  std::string entry_path(const CompileRequest& request) const;

  // Entries and their bytes; walks the directory.
  struct Usage {
    int entries = 0;
    std::int64_t bytes = 0;
  };
  Usage usage() const;

 private:
  class KeyLock;
  Cubin build(const CompileRequest& request);
  enum class Damage { kCounted, kKnown };
  std::optional<Cubin> read_entry(const std::string& name, const CacheKey& key, Damage damage);
  std::vector<std::string> entry_names(const CacheKey& key) const;
  void publish(const std::string& name, const CacheKey& key, const Cubin& cubin);
  void open_directory();
  void sweep_temporaries() const;
  void io_error(const std::string& what, int error);
  std::vector<CompileResult> build_all(const std::vector<CompileRequest>& requests, int jobs,
                                       const CompileProgress& progress);

  // In memory shared with the forked processes of get_all: they count and warn for the whole cache.
  struct Shared {
    std::atomic<int> hits{0}, compiled{0}, damaged{0}, io_errors{0}, lock_timeouts{0};
    std::atomic<bool> warned{false};
  };

  CacheOptions options_;
  Compile compile_;
  bool uses_nvrtc_ = false;
  int directory_fd_ = -1;
  std::string why_disabled_;
  Shared* shared_ = nullptr;
};

}  // namespace ramp::gpu
