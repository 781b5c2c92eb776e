// SPDX-License-Identifier: Apache-2.0
#include "problem/serving.hpp"

#include <gtest/gtest.h>

#include <map>

#include "base/error.hpp"
#include "tests/problem/small_trace.hpp"

namespace ramp {
namespace {

std::string text_of(const std::vector<BatchPart>& parts) {
  std::string text;
  for (const BatchPart& part : parts)
    text += fmt::format("{}{}:{}{} ", part.is_prompt ? "p" : "d", part.request, part.tokens,
                        part.is_last ? "!" : "");
  return text;
}

// By hand: a budget of 8 tokens, requests of (prompt, answer) tokens.
TEST(Scheduler, DecodesFirstAndSharesTheRestOfTheBudgetInOrder) {
  Scheduler scheduler(8, 0);
  scheduler.add(1, 0, 2);
  scheduler.add(2, 10, 1);
  scheduler.add(3, 4, 0);
  scheduler.add(4, 0, 0);  // nothing
  EXPECT_EQ(text_of(scheduler.next()), "d1:1 p2:7 ");
  EXPECT_EQ(text_of(scheduler.next()), "d1:1! p2:3 p3:4! ");
  EXPECT_EQ(text_of(scheduler.next()), "d2:1! ");
  EXPECT_TRUE(scheduler.is_idle());
  EXPECT_TRUE(scheduler.next().empty());
}

TEST(Scheduler, KeepsRequestsWaitingBeyondMaxActive) {
  Scheduler scheduler(100, 2);
  for (int r = 0; r < 5; ++r) scheduler.add(r, 0, 2);
  EXPECT_EQ(text_of(scheduler.next()), "d0:1 d1:1 ");
  EXPECT_EQ(scheduler.active(), 2);
  EXPECT_EQ(scheduler.waiting(), 3);
  EXPECT_EQ(text_of(scheduler.next()), "d0:1! d1:1! ");
  EXPECT_EQ(text_of(scheduler.next()), "d2:1 d3:1 ");
}

TEST(OpenLoop, FollowsTheTraceAtItsSpeedAndBeginsAgain) {
  ArrivalTrace trace;
  trace.requests = {{0, 1, 2}, {0.5, 3, 4}, {2, 5, 6}};  // one a second
  OpenLoop loop({.arrivals = &trace, .speed = 2, .pass_ms = 250}, 1);
  Scheduler scheduler(100, 0);
  std::vector<std::pair<double, int>> seen;  // time of the pass, prompt
  for (int p = 0; p < 8; ++p) {
    loop.admit(scheduler, [&](const Arrival& a) {
      seen.emplace_back(loop.now_s(), a.prompt);
      scheduler.add(1, 0, 100);  // never idle
    });
    loop.passed(0);
  }
  // Twice as fast: 0, 0.25, 1 s; the next lap begins one mean gap (1 s, halved) after the last.
  EXPECT_EQ(seen,
            (std::vector<std::pair<double, int>>{{0, 1}, {0.25, 3}, {1, 5}, {1.5, 1}, {1.75, 3}}));
}

TEST(OpenLoop, AnIdleServerWaitsForTheNextRequestAndLongPassesTakeLonger) {
  ArrivalTrace trace;
  trace.requests = {{0, 1, 1}, {100, 1, 1}};
  OpenLoop loop({.arrivals = &trace, .pass_ms = 10, .token_us = 1000}, 1);
  Scheduler scheduler(100, 0);
  int admitted = 0;
  loop.admit(scheduler, [&](const Arrival&) { ++admitted; });
  loop.passed(20);
  EXPECT_DOUBLE_EQ(loop.now_s(), 0.030);
  loop.admit(scheduler, [&](const Arrival&) { ++admitted; });
  EXPECT_DOUBLE_EQ(loop.now_s(), 100);
  EXPECT_EQ(admitted, 2);
}

TEST(OpenLoop, PoissonArrivalsKeepTheRateAndItsSpread) {
  OpenLoop loop({.rate = 20, .pass_ms = 100}, 3);
  Scheduler scheduler(100, 0);
  scheduler.add(1, 0, 1 << 20);
  double sum = 0, squares = 0;
  constexpr int kPasses = 20000;
  for (int p = 0; p < kPasses; ++p) {
    int n = 0;
    loop.admit(scheduler, [&](const Arrival& a) {
      EXPECT_EQ(a.prompt + a.output, 0);
      ++n;
    });
    sum += n;
    squares += n * n;
    loop.passed(1);
  }
  const double mean = sum / kPasses;
  EXPECT_NEAR(mean, 2, 0.05);
  EXPECT_NEAR(squares / kPasses - mean * mean, 2, 0.1);  // a Poisson count's variance is its mean
}

TEST(OpenLoop, RefusesNumbersThatNoServerHas) {
  ArrivalTrace empty;
  for (const OpenLoopOptions& bad : std::vector<OpenLoopOptions>{{.rate = 0},
                                                                 {.rate = -1},
                                                                 {.rate = 1, .pass_ms = 0},
                                                                 {.rate = 1, .token_us = -1},
                                                                 {.arrivals = &empty},
                                                                 {.rate = 1, .speed = 0}})
    EXPECT_THROW(OpenLoop(bad, 1), Error);
  EXPECT_THROW(Scheduler(0, 1), Error);
  EXPECT_THROW(Scheduler(1, -1), Error);
}

}  // namespace
}  // namespace ramp
