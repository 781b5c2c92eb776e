// SPDX-License-Identifier: Apache-2.0
// The campaign's end of one worker: start it, ask it, and notice when it hangs or dies.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "lab/worker_protocol.hpp"

namespace ramp {

// Thrown out of a wait when the person pressed Ctrl-C.
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

// Starts a process whose stdin and stdout are `channel` and whose stderr is `errors`; returns its
// pid.
using Spawn = std::function<pid_t(int channel, int errors)>;

// The program itself with other arguments: {"worker", "--timer", "gpu:0"}.
Spawn spawn_self(std::vector<std::string> arguments);

// Why there is no answer.
struct Death {
  bool hung = false;
  std::string reason;  // "hung: no answer in 5 s", "crashed: Segmentation fault; last words: ...",
                       // or what it threw
};

class WorkerProcess {
 public:
  // interrupted: set by a signal handler; may be null.
  WorkerProcess(const Spawn& spawn, const std::atomic<bool>* interrupted);
  ~WorkerProcess();  // kills it
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Asks, and waits `seconds` for the answer; every line of progress starts the wait anew.  After a
  // Death the process is gone and the object is of no more use.  What the call threw comes back as
  // a reply with an error.
  std::optional<Death> call(const Request& request, double seconds, Reply& reply,
                            const PrepareProgress& progress = {});

 private:
  Death kill(bool hung, const std::string& what);
  void read_errors();

  const std::atomic<bool>* interrupted_;
  pid_t pid_ = -1;
  int channel_ = -1, errors_ = -1;
  std::string incoming_;
  std::string last_words_;  // the end of its stderr
};

}  // namespace ramp
