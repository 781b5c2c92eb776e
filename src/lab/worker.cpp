// SPDX-License-Identifier: Apache-2.0
#include "lab/worker.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.hpp"
#include "lab/worker_protocol.hpp"

namespace ramp {
namespace {

// False when the other end is gone.
bool write_line(int channel, std::string text) {
  text += '\n';
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t written = ::write(channel, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += static_cast<std::size_t>(written);
  }
  return true;
}

// Lines of one channel; what came after a newline waits for the next call.
class LineReader {
 public:
  explicit LineReader(int channel) : channel_(channel) {}

  bool next(std::string& line) {
    while (true) {
      if (const std::size_t end = buffer_.find('\n', searched_); end != std::string::npos) {
        line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        searched_ = 0;
        return true;
      }
      searched_ = buffer_.size();
      if (buffer_.size() > kMaxLineBytes)
        throw Error("request", "a line without an end",
                    fmt::format("up to {} bytes", kMaxLineBytes), "");
      char piece[65536];
      const ssize_t length = ::read(channel_, piece, sizeof piece);
      if (length < 0 && errno == EINTR) continue;
      if (length <= 0) return false;
      buffer_.append(piece, static_cast<std::size_t>(length));
    }
  }

 private:
  int channel_;
  std::string buffer_;
  std::size_t searched_ = 0;
};

Reply answer(KernelTimer& timer, const Request& request, int channel) {
  Reply reply;
  switch (request.kind) {
    case Request::Kind::kOpen:
      reply.environment = timer.environment();
      reply.configs = timer.space(request.shape);
      break;
    case Request::Kind::kPrepare:
      reply.configs = timer.prepare(request.labels, [channel](int done, int total) {
        write_line(channel, encode(Reply{.is_progress = true, .done = done, .total = total}));
      });
      break;
    case Request::Kind::kVerify:
      reply.verdict = timer.verify(request.labels.front());
      break;
    case Request::Kind::kMeasure:
      reply.samples = timer.measure(request.measure);
  }
  return reply;
}

}  // namespace

void serve_worker(KernelTimer& timer, int channel) {
  std::signal(SIGPIPE, SIG_IGN);  // a parent that is gone shows as a failed write
  LineReader lines(channel);
  std::string line;
  while (lines.next(line)) {
    Reply reply;
    try {
      reply = answer(timer, decode_request(line), channel);
    } catch (const std::exception& e) {
      reply = Reply{.error = *e.what() ? e.what() : "an exception without a text"};
    }
    if (!write_line(channel, encode(reply))) return;
  }
}

int become_worker() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGINT, SIG_IGN);
  const int channel = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (channel < 0 || nothing < 0)
    throw Error("worker", std::strerror(errno), "an open stdin", "`ramp profile` starts it");
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::close(nothing);
  return channel;
}

}  // namespace ramp
