// SPDX-License-Identifier: Apache-2.0
#include "gpu/compile_workers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <thread>

namespace ramp::gpu {
namespace {

// What a child writes: one kStarted when it claims a request, then one kCubin or kError with its
// text.
enum class Kind : std::uint32_t { kStarted, kCubin, kError };
struct Frame {
  Kind kind;
  std::uint32_t index;
  std::uint64_t bytes;  // that follow
};
constexpr std::uint64_t kMaxFrame = 512u << 20;

// The next request that nobody has claimed, in memory that the children share.
class SharedCounter {
 public:
  SharedCounter() {
    void* memory =
        mmap(nullptr, sizeof(Counter), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    counter_ = memory == MAP_FAILED ? nullptr : new (memory) Counter(0);
  }
  ~SharedCounter() {
    if (counter_) munmap(counter_, sizeof(Counter));
  }
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  bool valid() const { return counter_; }
  std::uint32_t claim() { return counter_->fetch_add(1); }
  std::uint32_t claimed() const { return counter_->load(); }

 private:
  using Counter = std::atomic<std::uint32_t>;
  static_assert(Counter::is_always_lock_free);
  Counter* counter_;
};

bool write_all(int fd, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t wrote = write(fd, at, bytes);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    at += wrote;
    bytes -= static_cast<std::size_t>(wrote);
  }
  return true;
}

bool send(int fd, Kind kind, std::uint32_t index, const std::string& body = {}) {
  const Frame frame{kind, index, body.size()};
  return write_all(fd, &frame, sizeof frame) && write_all(fd, body.data(), body.size());
}

struct Worker {
  pid_t pid = -1;
  int fd = -1;
  std::string pending;        // bytes of a frame that isn't complete yet
  std::int64_t current = -1;  // the request it works on
};

class Pool {
 public:
  Pool(std::span<const CompileRequest> requests, const CompileProgress& progress,
       const std::function<CompileResult(const CompileRequest&)>& work)
      : requests_(requests), progress_(progress), work_(work), results_(requests.size()) {}

  ~Pool() {  // a throwing progress callback leaves children behind otherwise
    for (Worker& worker : workers_) {
      if (worker.fd < 0) continue;
      kill(worker.pid, SIGKILL);
      retire(worker);
    }
  }

  std::vector<CompileResult> run(int jobs) {
    for (int i = 0; i < jobs && next_.valid(); ++i) start();
    while (std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.fd >= 0; }))
      wait();
    // Where no child could be started, and for what children that could not be replaced left over.
    for (std::size_t i = 0; i < requests_.size(); ++i)
      if (!results_[i].cubin && results_[i].error.empty()) finish(i, work_(requests_[i]));
    return std::move(results_);
  }

 private:
  void start() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) {
      close(ends[0]);
      close(ends[1]);
      return;
    }
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);  // it died before the line above
      signal(SIGPIPE, SIG_DFL);
      serve(ends[1]);
    }
    close(ends[1]);
    Worker worker;
    worker.pid = pid;
    worker.fd = ends[0];
    workers_.push_back(std::move(worker));
  }

  [[noreturn]] void serve(int fd) {
    for (;;) {
      const std::uint32_t index = next_.claim();
      if (index >= requests_.size()) _exit(0);
      if (!send(fd, Kind::kStarted, index)) _exit(1);
      const CompileResult result = work_(requests_[index]);
      const bool sent = result.cubin ? send(fd, Kind::kCubin, index, encode(*result.cubin))
                                     : send(fd, Kind::kError, index, result.error);
      if (!sent) _exit(1);
    }
  }

  void wait() {
    std::vector<pollfd> set;
    std::vector<std::size_t> owner;
    for (std::size_t i = 0; i < workers_.size(); ++i)
      if (workers_[i].fd >= 0) {
        set.push_back({workers_[i].fd, POLLIN, 0});
        owner.push_back(i);
      }
    if (poll(set.data(), set.size(), -1) < 0) return;  // EINTR: try again
    for (std::size_t i = 0; i < set.size(); ++i)
      if (set[i].revents) receive(owner[i]);
  }

  void receive(std::size_t which) {
    char chunk[65536];
    const ssize_t got = read(workers_[which].fd, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) return;
    if (got <= 0) {
      const int status = retire(workers_[which]);
      const std::int64_t lost = workers_[which].current;
      if (lost >= 0) {
        finish(
            static_cast<std::size_t>(lost),
            {std::nullopt,
             WIFSIGNALED(status)
                 ? fmt::format("{}: the compiling process was killed by signal {} ({})",
                               requests_[lost].name, WTERMSIG(status), strsignal(WTERMSIG(status)))
                 : requests_[lost].name + ": the compiling process ended early"});
        if (next_.claimed() < requests_.size()) start();
      }
      return;
    }
    workers_[which].pending.append(chunk, static_cast<std::size_t>(got));
    take_frames(workers_[which]);
  }

  void take_frames(Worker& worker) {
    std::size_t at = 0;
    Frame frame;
    while (worker.pending.size() - at >= sizeof frame) {
      std::memcpy(&frame, worker.pending.data() + at, sizeof frame);
      if (frame.bytes > kMaxFrame ||
          frame.index >= requests_.size()) {  // memory of the child is broken
        kill(worker.pid, SIGKILL);
        break;
      }
      if (worker.pending.size() - at - sizeof frame < frame.bytes) break;
      const std::string body = worker.pending.substr(at + sizeof frame, frame.bytes);
      at += sizeof frame + frame.bytes;
      if (frame.kind == Kind::kStarted) {
        worker.current = frame.index;
        continue;
      }
      worker.current = -1;
      CompileResult result;
      if (frame.kind == Kind::kError) {
        result.error = body;
      } else if (!(result.cubin = decode(body))) {
        result.error = requests_[frame.index].name + ": the compiling process sent a broken result";
      }
      finish(frame.index, std::move(result));
    }
    worker.pending.erase(0, at);
  }

  int retire(Worker& worker) {
    close(worker.fd);
    worker.fd = -1;
    int status = 0;
    while (waitpid(worker.pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
  }

  void finish(std::size_t index, CompileResult result) {
    results_[index] = std::move(result);
    ++done_;
    if (progress_) progress_(done_, requests_.size(), index);
  }

  std::span<const CompileRequest> requests_;
  const CompileProgress& progress_;
  const std::function<CompileResult(const CompileRequest&)>& work_;
  std::vector<CompileResult> results_;
  std::vector<Worker> workers_;
  SharedCounter next_;
  std::size_t done_ = 0;
};

}  // namespace

std::vector<CompileResult> run_compile_workers(
    std::span<const CompileRequest> requests, int jobs, const CompileProgress& progress,
    const std::function<CompileResult(const CompileRequest&)>& work) {
  if (jobs <= 0) jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  jobs = std::min<int>(jobs, static_cast<int>(requests.size()));
  if (jobs <= 1) jobs = 0;  // one at a time needs no child
  return Pool(requests, progress, work).run(jobs);
}

}  // namespace ramp::gpu
