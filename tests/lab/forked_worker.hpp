// SPDX-License-Identifier: Apache-2.0
// A worker without the program: a fork of the test that serves a timer.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <memory>

#include "lab/simulated_timer.hpp"
#include "lab/worker.hpp"
#include "lab/worker_process.hpp"

namespace ramp {

using MakeTimer = std::function<std::unique_ptr<KernelTimer>()>;

inline Spawn fork_worker(MakeTimer make) {
  return [make](int channel, int errors) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(channel, STDIN_FILENO);
    ::dup2(channel, STDOUT_FILENO);
    ::dup2(errors, STDERR_FILENO);
    ::close_range(3, ~0u, 0);  // the store and its lock are the parent's
    std::signal(SIGABRT, SIG_DFL);
    const std::unique_ptr<KernelTimer> timer = make();
    serve_worker(*timer, become_worker());
    ::_exit(0);
  };
}

inline Spawn simulated_worker(const std::string& simulation) {
  return fork_worker([simulation] { return make_simulated_timer(parse_simulation(simulation)); });
}

}  // namespace ramp
