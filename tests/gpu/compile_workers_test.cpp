// SPDX-License-Identifier: Apache-2.0
// The pool of processes, with work that needs no compiler: results, crashes, progress.
#include "gpu/compile_workers.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

namespace ramp::gpu {
namespace {

std::vector<CompileRequest> named(int n) {
  std::vector<CompileRequest> requests;
  for (int i = 0; i < n; ++i) requests.push_back({"r" + std::to_string(i), ""});
  return requests;
}

// The name and the process that did it, as the log of a cubin.
CompileResult echo(const CompileRequest& request) {
  CompileResult result;
  result.cubin.emplace();
  result.cubin->log = request.name + " " + std::to_string(getpid());
  return result;
}

std::string name_of(const CompileResult& result) {
  return result.cubin ? result.cubin->log.substr(0, result.cubin->log.find(' '))
                      : "error: " + result.error;
}

int children() {
  int status = 0;
  return waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD ? 0 : 1;
}

TEST(CompileWorkers, GiveResultsInTheOrderOfTheRequests) {
  for (int jobs : {1, 2, 5, 64}) {
    const auto results = run_compile_workers(named(20), jobs, {}, echo);
    ASSERT_EQ(results.size(), 20u);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(name_of(results[i]), "r" + std::to_string(i)) << jobs;
  }
  EXPECT_TRUE(run_compile_workers({}, 4, {}, echo).empty());
  EXPECT_EQ(children(), 0) << "no child is left";
}

TEST(CompileWorkers, ReallyAreSeveralProcesses) {
  const auto slow = [](const CompileRequest& request) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return echo(request);
  };
  std::set<std::string> processes;
  for (const CompileResult& result : run_compile_workers(named(6), 3, {}, slow))
    processes.insert(result.cubin->log.substr(3));
  EXPECT_GE(processes.size(), 2u) << "on a busy machine the third may come too late";
  EXPECT_EQ(processes.count(std::to_string(getpid())), 0u);
}

TEST(CompileWorkers, LargeResultsPassWhole) {
  const auto large = [](const CompileRequest& request) {
    CompileResult result = echo(request);
    result.cubin->bytes.assign(3'000'000, request.name.back());
    return result;
  };
  const auto results = run_compile_workers(named(4), 2, {}, large);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(results[i].cubin);
    EXPECT_EQ(results[i].cubin->bytes, std::vector<char>(3'000'000, static_cast<char>('0' + i)));
  }
}

TEST(CompileWorkers, ACrashTakesOnlyItsOwnRequest) {
  const auto crashing = [](const CompileRequest& request) {
    if (request.name == "r1") raise(SIGKILL);
    if (request.name == "r4") _exit(0);
    return echo(request);
  };
  std::size_t calls = 0;
  const auto results = run_compile_workers(
      named(8), 2, [&](std::size_t done, std::size_t, std::size_t) { EXPECT_EQ(done, ++calls); },
      crashing);
  for (int i = 0; i < 8; ++i) {
    if (i == 1) {
      EXPECT_NE(results[i].error.find("signal 9"), std::string::npos) << results[i].error;
      EXPECT_NE(results[i].error.find("r1"), std::string::npos) << results[i].error;
    } else if (i == 4) {
      EXPECT_NE(results[i].error.find("ended early"), std::string::npos) << results[i].error;
    } else {
      EXPECT_EQ(name_of(results[i]), "r" + std::to_string(i));
    }
  }
  EXPECT_EQ(calls, 8u);
  EXPECT_EQ(children(), 0);
}

TEST(CompileWorkers, AThrowingProgressLeavesNoChildBehind) {
  EXPECT_THROW(
      run_compile_workers(
          named(50), 2,
          [](std::size_t, std::size_t, std::size_t) { throw std::runtime_error("stop"); }, echo),
      std::runtime_error);
  EXPECT_EQ(children(), 0);
}

TEST(CompileWorkers, ErrorsOfTheWorkArriveAsText) {
  const auto failing = [](const CompileRequest& request) {
    return CompileResult{std::nullopt, "no luck with " + request.name};
  };
  for (int jobs : {1, 2}) {
    const auto results = run_compile_workers(named(3), jobs, {}, failing);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(results[i].error, "no luck with r" + std::to_string(i));
  }
}

TEST(CompileWorkers, DieWithTheirParent) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    close(ends[0]);
    // Its children hold the pipe's write end: end of file means that the last of them is gone.
    run_compile_workers(named(2), 2, {}, [&](const CompileRequest& request) {
      const char ready = 'r';
      if (write(ends[1], &ready, 1) != 1) _exit(2);
      std::this_thread::sleep_for(std::chrono::seconds(60));
      return echo(request);
    });
    _exit(0);
  }
  close(ends[1]);
  char byte;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(read(ends[0], &byte, 1), 1);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  close(ends[0]);
}

}  // namespace
}  // namespace ramp::gpu
