// SPDX-License-Identifier: Apache-2.0
// The cubin cache under everything that can happen to a directory: damage, full disks, foreign
// owners, other processes.
#include "gpu/cubin_cache.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "gpu/nvrtc.hpp"

namespace ramp::gpu {
namespace {

namespace fs = std::filesystem;

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void spill(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

CompileRequest request(const std::string& name = "ffn") {
  return {name, "#include \"a.h\"\nint x = " + name + ";", {{"a.h", "A"}, {"unused.h", "U"}}};
}

// Stands in for NVRTC: the code names its request.
Cubin fake(const CompileRequest& r) {
  Cubin cubin;
  const std::string code = "\177ELF code of " + r.name;
  cubin.bytes.assign(code.begin(), code.end());
  cubin.kernels.push_back({r.name, true, 42});
  return cubin;
}

std::string code(const Cubin& cubin) { return {cubin.bytes.begin(), cubin.bytes.end()}; }

class CacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("ramp_cache_" + std::to_string(getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
    options_.directory = (root_ / "deep" / "cache").string();
    options_.warn = [this](const std::string& text) { warnings_.push_back(text); };
  }
  void TearDown() override { fs::remove_all(root_); }

  // Runs `body` in a child and gives its exit code; 99 when it threw.
  static int in_child(const std::function<int()>& body) {
    const pid_t pid = fork();
    if (pid == 0) {
      try {
        _exit(body());
      } catch (...) {
        _exit(99);
      }
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  int files_ending(const std::string& suffix) const {
    int n = 0;
    for (const auto& entry : fs::directory_iterator(options_.directory))
      n += entry.path().string().ends_with(suffix);
    return n;
  }

  fs::path root_;
  CacheOptions options_;
  std::vector<std::string> warnings_;
};

TEST_F(CacheTest, CompilesOnceAndRemembersAcrossInstances) {
  {
    CubinCache cache(options_, fake);
    EXPECT_FALSE(cache.contains(request()));
    EXPECT_EQ(code(cache.get(request())), "\177ELF code of ffn");
    EXPECT_TRUE(cache.contains(request()));
    EXPECT_EQ(cache.counters().compiled, 1);
  }
  CubinCache again(
      options_, [](const CompileRequest&) -> Cubin { throw std::logic_error("must not compile"); });
  const Cubin cubin = again.get(request());
  EXPECT_EQ(code(cubin), "\177ELF code of ffn");
  EXPECT_EQ(cubin.find("ffn")->registers, 42);
  EXPECT_EQ(again.counters().hits, 1);
  EXPECT_EQ(again.counters().compiled, 0);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(CacheTest, FindNeverCompiles) {
  CubinCache cache(
      options_, [](const CompileRequest&) -> Cubin { throw std::logic_error("must not compile"); });
  EXPECT_FALSE(cache.find(request()));
  EXPECT_EQ(cache.counters().compiled, 0);
}

TEST_F(CacheTest, AFailedCompilationIsNotKept) {
  CubinCache cache(options_, [](const CompileRequest&) -> Cubin { throw Error("no"); });
  EXPECT_THROW(cache.get(request()), Error);
  EXPECT_FALSE(cache.contains(request()));
  EXPECT_EQ(files_ending(".tmp"), 0);
}

TEST_F(CacheTest, IsPrivateAndLeavesNoTemporaries) {
  CubinCache cache(options_, fake);
  cache.get(request());
  struct stat status {};
  ASSERT_EQ(stat(options_.directory.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(cache.entry_path(request()).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0077, 0u);
  EXPECT_EQ(files_ending(".tmp"), 0);
  EXPECT_EQ(cache.usage().entries, 1);
  EXPECT_EQ(cache.usage().bytes, status.st_size);
}

TEST(CacheKey, ChangesWithEverythingThatDecidesTheCode) {
  const CompileRequest base = request();
  std::vector<CompileRequest> others(8, base);
  others[0].source += " ";
  others[1].headers[0].second += " ";
  others[2].options = {"-lineinfo"};
  others[3].arch = "sm_90";
  others[4].name = "ffn2";
  others[5].options = {"-a", "-b"};
  others[6].options = {"-a-b"};
  others[7].headers[0].first = "b.h";
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_NE(cache_key(others[i]), cache_key(base)) << i;
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_NE(cache_key(others[i]), cache_key(others[j])) << i << " " << j;
  }
}

TEST(CacheKey, IgnoresWhatTheSourceCannotReach) {
  CompileRequest changed = request();
  changed.headers[1].second = "edited";
  std::swap(changed.headers[0], changed.headers[1]);
  EXPECT_EQ(cache_key(changed), cache_key(request()));
}

TEST_F(CacheTest, EveryFlippedBitOfAnEntryIsFoundAndRebuilt) {
  CubinCache cache(options_, fake);
  cache.get(request());
  const std::string path = cache.entry_path(request()), good = slurp(path);
  ASSERT_GT(good.size(), 64u);
  int damaged = 0;
  for (std::size_t at = 0; at < good.size(); at += at < 80 ? 1 : 13) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    spill(path, bad);
    EXPECT_FALSE(cache.find(request())) << "byte " << at;
    EXPECT_EQ(cache.counters().damaged, ++damaged);
  }
  EXPECT_EQ(code(cache.get(request())), "\177ELF code of ffn");
  EXPECT_EQ(cache.counters().damaged, damaged + 1);
  EXPECT_EQ(cache.counters().compiled, 2);
  EXPECT_EQ(slurp(path), good) << "rebuilt as it was";
  EXPECT_TRUE(warnings_.empty()) << "damage is mended silently, it is counted";
}

TEST_F(CacheTest, TruncatedEmptyAndOverlongEntriesAreRebuilt) {
  CubinCache cache(options_, fake);
  cache.get(request());
  const std::string path = cache.entry_path(request()), good = slurp(path);
  for (const std::string& bad : {std::string(), good.substr(0, 10), good.substr(0, 56),
                                 good.substr(0, good.size() - 1), good + "x"}) {
    spill(path, bad);
    EXPECT_FALSE(cache.find(request())) << bad.size();
    EXPECT_EQ(code(cache.get(request())), "\177ELF code of ffn");
    EXPECT_EQ(slurp(path), good);
  }
}

// As NVRTC with a cache of its own makes it: every later run would find that entry and refuse it.
TEST_F(CacheTest, AnEntryThatSaysNothingOfItsCodeIsRebuilt) {
  bool silent = true;
  CubinCache cache(options_, [&](const CompileRequest& r) {
    Cubin cubin = fake(r);
    const std::string section = ".text.ffn";
    cubin.bytes.insert(cubin.bytes.end(), section.begin(), section.end());
    if (std::exchange(silent, false)) cubin.kernels.clear();
    return cubin;
  });
  EXPECT_TRUE(cache.get(request()).kernels.empty());
  EXPECT_FALSE(cache.find(request()));
  EXPECT_EQ(cache.counters().damaged, 1);
  EXPECT_EQ(cache.get(request()).kernels.size(), 1u);
  EXPECT_TRUE(cache.find(request()));
}

TEST_F(CacheTest, AnEntryOfAnotherRequestUnderThisNameIsRefused) {
  CubinCache cache(options_, fake);
  cache.get(request("other"));
  fs::copy_file(cache.entry_path(request("other")), cache.entry_path(request()));
  EXPECT_EQ(code(cache.get(request())), "\177ELF code of ffn");
  EXPECT_EQ(cache.counters().damaged, 1);
}

TEST_F(CacheTest, LinksAndEntriesThatOthersCanWriteAreNotLoaded) {
  CubinCache cache(options_, fake);
  cache.get(request());
  const std::string path = cache.entry_path(request()), elsewhere = (root_ / "elsewhere").string();
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_FALSE(cache.find(request()));
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(cache.find(request()));
  fs::rename(path, elsewhere);
  fs::create_symlink(elsewhere, path);
  EXPECT_FALSE(cache.find(request()));
  EXPECT_EQ(cache.counters().damaged, 2);
  EXPECT_EQ(code(cache.get(request())), "\177ELF code of ffn");
  EXPECT_FALSE(fs::is_symlink(path)) << "the link was replaced";
}

TEST_F(CacheTest, ADirectoryThatOthersCanWriteIsNotUsed) {
  fs::create_directories(options_.directory);
  for (mode_t mode : {0770, 0707}) {
    warnings_.clear();
    ASSERT_EQ(chmod(options_.directory.c_str(), mode), 0);
    CubinCache cache(options_, fake);
    EXPECT_FALSE(cache.enabled());
    EXPECT_EQ(code(cache.get(request())), "\177ELF code of ffn") << "it works without";
    cache.get(request());
    EXPECT_EQ(cache.counters().compiled, 2);
    ASSERT_EQ(warnings_.size(), 1u) << "one warning";
    EXPECT_NE(warnings_[0].find("RAMP_CACHE_DIR"), std::string::npos) << warnings_[0];
    EXPECT_EQ(files_ending(""), 0) << "nothing is written there";
  }
}

TEST_F(CacheTest, ADirectoryOfSomebodyElseIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  fs::create_directories(options_.directory);
  ASSERT_EQ(chmod(options_.directory.c_str(), 0755), 0);
  ASSERT_EQ(chown(options_.directory.c_str(), 12345, 12345), 0);
  CubinCache cache(options_, fake);
  EXPECT_FALSE(cache.enabled());
  EXPECT_NE(cache.why_disabled().find("12345"), std::string::npos) << cache.why_disabled();
}

TEST_F(CacheTest, AFileInTheDirectorysPlaceCostsOneWarning) {
  fs::create_directories(root_ / "deep");
  spill(options_.directory, "a file");
  CubinCache cache(options_, fake);
  EXPECT_FALSE(cache.enabled());
  EXPECT_EQ(code(cache.get(request())), "\177ELF code of ffn");
  EXPECT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(slurp(options_.directory), "a file");
}

TEST_F(CacheTest, NoDirectoryMeansNoCacheAndNoWarning) {
  options_.directory.clear();
  CubinCache cache(options_, fake);
  EXPECT_FALSE(cache.enabled());
  EXPECT_EQ(code(cache.get(request())), "\177ELF code of ffn");
  EXPECT_EQ(cache.get_all(std::vector{request("a"), request("b")}, 2).size(), 2u);
  EXPECT_EQ(cache.counters().compiled, 3);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(CacheTest, AReadOnlyDirectoryServesWhatItHasAndWarnsOnce) {
  { CubinCache(options_, fake).get(request("kept")); }
  ASSERT_EQ(chmod(options_.directory.c_str(), 0555), 0);
  if (geteuid() ==
      0) {  // root writes anywhere: become somebody to whom root's directory is readable only
    for (fs::path p = root_; p != root_.parent_path(); p = p.parent_path())
      fs::permissions(p, fs::perms(0755));
    fs::permissions(root_ / "deep", fs::perms(0755));
    CubinCache prepared(options_, fake);
    ASSERT_EQ(chmod(prepared.entry_path(request("kept")).c_str(), 0644), 0);
  }
  const int result = in_child([&] {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 10;
    if (access(options_.directory.c_str(), R_OK | X_OK) != 0)
      return 11;  // a parent that only root may enter
    CubinCache cache(options_, fake);
    if (!cache.enabled() || cache.writable()) return 1;
    if (code(cache.get(request("kept"))) != "\177ELF code of kept" || cache.counters().hits != 1)
      return 2;
    for (const char* name : {"new", "newer"})
      if (code(cache.get(request(name))) != std::string("\177ELF code of ") + name) return 3;
    if (cache.counters().compiled != 2 || cache.counters().io_errors != 2) return 4;
    return warnings_.size() == 1 ? 0 : 5;
  });
  chmod(options_.directory.c_str(), 0700);
  if (result == 11) GTEST_SKIP() << "the temporary folder is root's alone";
  EXPECT_EQ(result, 0);
}

TEST_F(CacheTest, AFullDiskCostsOneWarningAndLeavesNothingBehind) {
  const int result = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};  // writing more than 100 bytes fails, as on a full disk
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 10;
    CubinCache cache(options_, fake);
    for (const char* name : {"a", "b"})
      if (code(cache.get(request(name))) != std::string("\177ELF code of ") + name) return 1;
    if (cache.counters().io_errors != 2 || cache.contains(request("a"))) return 2;
    return warnings_.size() == 1 ? 0 : 3;
  });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(files_ending(".tmp"), 0);
  EXPECT_EQ(files_ending(".cubin"), 0);
}

TEST_F(CacheTest, SweepsOldTemporariesAndKeepsYoungOnes) {
  CubinCache(options_, fake).get(request());
  const std::string old = options_.directory + "/0123.1.0.tmp",
                    young = options_.directory + "/4567.1.0.tmp";
  spill(old, "half");
  spill(young, "half");
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  CubinCache cache(options_, fake);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(young)) << "somebody may be writing it";
}

TEST_F(CacheTest, ConcurrentProcessesCompileAnEntryOnce) {
  const std::string tally = (root_ / "tally").string();
  const auto slow = [&](const CompileRequest& r) {
    const int fd = open(tally.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (write(fd, "x", 1) != 1) throw std::runtime_error("tally");
    close(fd);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return fake(r);
  };
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      CubinCache cache(options_, slow);
      _exit(code(cache.get(request())) == "\177ELF code of ffn" ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(slurp(tally), "x");
}

TEST_F(CacheTest, ThreadsOfOneProcessCompileAnEntryOnce) {
  std::atomic<int> compiled{0};
  CubinCache cache(options_, [&](const CompileRequest& r) {
    ++compiled;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return fake(r);
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { EXPECT_EQ(code(cache.get(request())), "\177ELF code of ffn"); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 1);
}

TEST_F(CacheTest, AKilledLockHolderHoldsNobodyUp) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    CubinCache cache(options_, [&](const CompileRequest& r) {
      if (write(ends[1], "r", 1) != 1) _exit(1);
      std::this_thread::sleep_for(std::chrono::seconds(60));
      return fake(r);
    });
    cache.get(request());
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);  // it compiles, so it holds the lock
  const auto start = std::chrono::steady_clock::now();
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    kill(holder, SIGKILL);
  });
  CubinCache cache(options_, fake);
  EXPECT_EQ(code(cache.get(request())), "\177ELF code of ffn");
  const auto waited = std::chrono::steady_clock::now() - start;
  killer.join();
  waitpid(holder, nullptr, 0);
  EXPECT_GE(waited, std::chrono::milliseconds(200)) << "it waited for the lock";
  EXPECT_LT(waited, std::chrono::seconds(10));
  EXPECT_EQ(cache.counters().lock_timeouts, 0);
  EXPECT_TRUE(cache.contains(request()));
  close(ends[0]);
  close(ends[1]);
}

TEST_F(CacheTest, ALockThatIsNeverReleasedIsWaitedForOnlySoLong) {
  options_.lock_wait_seconds = 0.2;
  CubinCache cache(options_, fake);
  const CacheKey key = cache_key(request());
  const std::string path =
      fmt::format("{}/{:016x}{:016x}.lock", options_.directory, key[0], key[1]);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_EQ(code(cache.get(request())), "\177ELF code of ffn");
  EXPECT_EQ(cache.counters().lock_timeouts, 1);
  close(fd);
}

TEST_F(CacheTest, GetAllCompilesOnlyWhatIsMissingAndCountsForItsChildren) {
  CubinCache cache(options_, [](const CompileRequest& r) {
    if (r.name == "bad") throw Error("bad doesn't compile");
    return fake(r);
  });
  cache.get(request("b"));
  const std::vector<CompileRequest> all{request("a"), request("b"), request("bad"),
                                        request("c"), request("d"), request("a")};
  std::vector<int> seen(all.size(), 0);
  std::size_t calls = 0;
  const auto results =
      cache.get_all(all, 2, [&](std::size_t done, std::size_t total, std::size_t last) {
        EXPECT_EQ(done, ++calls);
        EXPECT_EQ(total, all.size());
        ++seen[last];
      });
  EXPECT_EQ(seen, std::vector<int>(all.size(), 1));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == 2) {
      EXPECT_FALSE(results[i].cubin);
      EXPECT_EQ(results[i].error, "bad doesn't compile");
      continue;
    }
    ASSERT_TRUE(results[i].cubin) << i;
    EXPECT_EQ(code(*results[i].cubin), "\177ELF code of " + all[i].name);
  }
  EXPECT_EQ(cache.counters().compiled, 4)
      << "b, then a, c and d; the second a was found or waited for";
  EXPECT_EQ(cache.counters().hits, 2);
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_TRUE(cache.contains(request(name)));
}

TEST_F(CacheTest, ReallyCompiledCodeComesBackBitForBit) {
  if (!nvrtc_available()) GTEST_SKIP() << "no NVRTC";
  CompileRequest r{"one", "extern \"C\" __global__ void one(int* p) { *p = 1; }"};
  Cubin first;
  {
    CubinCache cache(options_);
    first = cache.get(r);
    EXPECT_NE(cache.entry_path(r).find("nvrtc" + nvrtc_version()), std::string::npos);
  }
  CubinCache cache(options_);
  const auto second = cache.find(r);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->bytes, first.bytes);
  EXPECT_EQ(second->find("one")->registers, first.find("one")->registers);
  EXPECT_EQ(second->log, first.log);
}

// The next two are one test: NVRTC is looked for once a process, so the part without it runs in
// another one.
TEST_F(CacheTest, PartWithoutNvrtc) {
  const char* directory = std::getenv("RAMP_TEST_FILLED_CACHE");
  if (!directory) GTEST_SKIP() << "runs as a part of ServesEntriesOfAnyCompilerWhereThereIsNone";
  ASSERT_FALSE(nvrtc_available());
  options_.directory = directory;
  CubinCache cache(options_);
  const auto cubin = cache.find(request());
  ASSERT_TRUE(cubin);
  EXPECT_EQ(code(*cubin), "\177ELF code of ffn");
  EXPECT_FALSE(cache.find(request("unknown")));
  EXPECT_THROW(cache.get(request("unknown")), Error);
  EXPECT_THROW(cache.get_all(std::vector{request("unknown")}), Error);
}

TEST_F(CacheTest, ServesEntriesOfAnyCompilerWhereThereIsNone) {
  CubinCache cache(options_, fake);
  cache.get(request());
  const fs::path made = cache.entry_path(request());
  const std::string key = made.filename().string().substr(0, 32);
  fs::rename(made, made.parent_path() / (key + ".nvrtc99.9.cubin"));
  if (nvrtc_available()) {
    EXPECT_FALSE(cache.find(request())) << "another compiler's code is another entry";
  }
  const std::string command = "RAMP_NVRTC=/nowhere RAMP_TEST_FILLED_CACHE='" + options_.directory +
                              "' '" + fs::read_symlink("/proc/self/exe").string() +
                              "' --gtest_filter=CacheTest.PartWithoutNvrtc > /dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(CacheOptions, ComeFromTheEnvironmentInOrder) {
  const char* names[] = {"RAMP_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
  std::vector<std::optional<std::string>> before;
  for (const char* name : names)
    before.push_back(std::getenv(name) ? std::optional<std::string>(std::getenv(name))
                                       : std::nullopt);
  setenv("HOME", "/home/ada", 1);
  unsetenv("XDG_CACHE_HOME");
  unsetenv("RAMP_CACHE_DIR");
  EXPECT_EQ(cache_options_from_environment().directory, "/home/ada/.cache/ramp");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(cache_options_from_environment().directory, "/home/ada/.cache/ramp")
      << "a relative one is to be ignored";
  setenv("XDG_CACHE_HOME", "/var/cache", 1);
  EXPECT_EQ(cache_options_from_environment().directory, "/var/cache/ramp");
  setenv("RAMP_CACHE_DIR", "/fast", 1);
  EXPECT_EQ(cache_options_from_environment().directory, "/fast");
  setenv("RAMP_CACHE_DIR", "", 1);
  EXPECT_EQ(cache_options_from_environment().directory, "") << "empty turns the cache off";
  for (int i = 0; i < 3; ++i)
    before[i] ? setenv(names[i], before[i]->c_str(), 1) : unsetenv(names[i]);
}

}  // namespace
}  // namespace ramp::gpu
