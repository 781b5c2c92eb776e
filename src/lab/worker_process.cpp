// SPDX-License-Identifier: Apache-2.0
#include "lab/worker_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

extern char** environ;

namespace ramp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLastWordsBytes = 4096;

[[noreturn]] void fail_to_start(int error) {
  throw Error("worker process", std::strerror(error), "a system that can start one",
              "check limits on processes and files (ulimit -a)");
}

// How the process ended, once it has.
std::string ending(int status) {
  if (WIFSIGNALED(status)) return fmt::format("crashed: {}", ::strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace

Spawn spawn_self(std::vector<std::string> arguments) {
  return [arguments](int channel, int errors) {
    std::vector<std::string> words = {"ramp"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, channel, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, channel, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    // A group of its own: Ctrl-C reaches the campaign alone, which ends the worker in order.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    pid_t pid = -1;
    const int error =
        ::posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error != 0) fail_to_start(error);
    return pid;
  };
}

WorkerProcess::WorkerProcess(const Spawn& spawn, const std::atomic<bool>* interrupted)
    : interrupted_(interrupted) {
  int channel[2], errors[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) != 0) fail_to_start(errno);
  if (::pipe2(errors, O_CLOEXEC) != 0) {
    const int error = errno;
    ::close(channel[0]);
    ::close(channel[1]);
    fail_to_start(error);
  }
  channel_ = channel[0];
  errors_ = errors[0];
  ::fcntl(channel_, F_SETFL, O_NONBLOCK);
  ::fcntl(errors_, F_SETFL, O_NONBLOCK);
  try {
    pid_ = spawn(channel[1], errors[1]);
  } catch (...) {
    for (int descriptor : {channel[0], channel[1], errors[0], errors[1]}) ::close(descriptor);
    throw;
  }
  ::close(channel[1]);
  ::close(errors[1]);
}

WorkerProcess::~WorkerProcess() {
  if (pid_ > 0) kill(false, "");
  ::close(channel_);
  ::close(errors_);
}

void WorkerProcess::read_errors() {
  char piece[4096];
  while (errors_ >= 0) {
    const ssize_t length = ::read(errors_, piece, sizeof piece);
    if (length < 0) return;  // nothing there now
    if (length == 0) {       // closed: poll would report it for ever
      ::close(errors_);
      errors_ = -1;
      return;
    }
    last_words_.append(piece, static_cast<std::size_t>(length));
    if (last_words_.size() > kLastWordsBytes)
      last_words_.erase(0, last_words_.size() - kLastWordsBytes);
  }
}

Death WorkerProcess::kill(bool hung, const std::string& what) {
  // The ending of one that died by itself is worth knowing; give it a moment to be there.
  int status = 0;
  pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  for (int i = 0; i < 50 && ended == 0 && !hung && !what.empty(); ++i) {
    ::usleep(10'000);
    ended = ::waitpid(pid_, &status, WNOHANG);
  }
  const bool by_itself = ended == pid_;
  if (!by_itself) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
  read_errors();
  Death death{hung, by_itself && !hung ? ending(status) : what};
  while (!last_words_.empty() && std::isspace(static_cast<unsigned char>(last_words_.back())))
    last_words_.pop_back();
  if (!last_words_.empty()) {
    const std::size_t line = last_words_.rfind('\n');
    death.reason += "; last words: " +
                    last_words_.substr(line == std::string::npos ? 0 : line + 1).substr(0, 300);
  }
  return death;
}

std::optional<Death> WorkerProcess::call(const Request& request, double seconds, Reply& reply,
                                         const PrepareProgress& progress) {
  const std::string outgoing = encode(request) + "\n";
  std::size_t sent = 0;
  std::size_t searched = 0;
  const auto wait =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  auto deadline = Clock::now() + wait;
  while (true) {
    if (interrupted_ && *interrupted_) throw Interrupted();
    if (const std::size_t end = incoming_.find('\n', searched); end != std::string::npos) {
      const std::string line = incoming_.substr(0, end);
      incoming_.erase(0, end + 1);
      searched = 0;
      try {
        reply = decode_reply(line);
      } catch (const Error& e) {
        return kill(false, fmt::format("answered nonsense: {}", e.what()));
      }
      if (!reply.is_progress) return std::nullopt;
      if (progress) progress(reply.done, reply.total);
      deadline = Clock::now() + wait;
      continue;
    }
    searched = incoming_.size();
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return kill(true, fmt::format("hung: no answer in {:.0f} s", seconds));
    pollfd wanted[2] = {
        {channel_, static_cast<short>(POLLIN | (sent < outgoing.size() ? POLLOUT : 0)), 0},
        {errors_, POLLIN, 0}};
    // At most 100 ms, as a signal between the look at `interrupted_` and the wait would go
    // unnoticed.
    ::poll(wanted, errors_ >= 0 ? 2 : 1, static_cast<int>(std::min<long long>(left, 100)));
    if (wanted[1].revents) read_errors();
    if (wanted[0].revents & POLLOUT) {
      const ssize_t length =
          ::send(channel_, outgoing.data() + sent, outgoing.size() - sent, MSG_NOSIGNAL);
      if (length > 0) sent += static_cast<std::size_t>(length);
      if (length < 0 && errno != EAGAIN && errno != EINTR) return kill(false, "closed its channel");
    }
    if (wanted[0].revents & (POLLIN | POLLHUP | POLLERR)) {
      char piece[65536];
      const ssize_t length = ::recv(channel_, piece, sizeof piece, 0);
      if (length > 0) {
        incoming_.append(piece, static_cast<std::size_t>(length));
        if (incoming_.size() > kMaxLineBytes) return kill(false, "answered without an end");
      } else if (length == 0 || (errno != EAGAIN && errno != EINTR)) {
        return kill(false, "closed its channel");
      }
    }
  }
}

}  // namespace ramp
