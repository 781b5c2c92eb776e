// SPDX-License-Identifier: Apache-2.0
#include "lab/worker.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "lab/isolated_timer.hpp"
#include "lab/worker_protocol.hpp"
#include "tests/lab/forked_worker.hpp"
#include "tests/lab/measured_example.hpp"

namespace ramp {
namespace {

const LocalShape kShape{.experts = 8, .top_k = 2, .hidden = 1024, .intermediate = 512};
const std::vector<int> kLoad = {9, 5, 3, 1, 0, 0, 0, 0};
constexpr const char* kSmall = "sim-r8-c256-s4-static";
constexpr const char* kMiddle = "sim-r16-c256-s4-static";
constexpr const char* kLarge = "sim-r64-c256-s4-static";

// Short, so that a hang costs a test little.
const WorkerLimits kShort{.open = 10,
                          .prepare = 1,
                          .verify = 0.4,
                          .first_measure = 0.4,
                          .measure_least = 0.4,
                          .measure_factor = 10};

MeasureRequest request_of(std::vector<std::string> labels, int rounds = 3) {
  MeasureRequest request{.labels = std::move(labels), .loads = {kLoad}, .rounds = rounds};
  for (std::size_t c = 0; c < request.labels.size(); ++c)
    request.cells.push_back({static_cast<int>(c), 0});
  return request;
}

TEST(WorkerProtocol, RequestsReadBackAsTheyWereWritten) {
  Request request{.kind = Request::Kind::kMeasure};
  request.measure = {.labels = {"a", "b\"\n"},
                     .loads = {kLoad, {1, 0, 0, 0, 0, 0, 0, 0}},
                     .cells = {{0, 0}, {1, 0}, {1, 1, 7}},
                     .rounds = 4};
  const std::string line = encode(request);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Request read = decode_request(line);
  EXPECT_EQ(read.kind, Request::Kind::kMeasure);
  EXPECT_EQ(read.measure.labels, request.measure.labels);
  EXPECT_EQ(read.measure.loads, request.measure.loads);
  EXPECT_EQ(read.measure.cells.size(), 3u);
  EXPECT_EQ(read.measure.cells[2].config, 1);
  EXPECT_EQ(read.measure.cells[2].load, 1);
  EXPECT_EQ(read.measure.rounds, 4);
  EXPECT_EQ(read.measure.cells[2].taken, 7);
  EXPECT_EQ(decode_request(encode(Request{.shape = kShape})).shape.intermediate, 512);
}

TEST(WorkerProtocol, TimesKeepEveryBit) {
  Reply reply;
  reply.samples = {{{0.1f, 1755.5f, false}, {1.0f / 3, 0, true}}, {}};
  const Reply read = decode_reply(encode(reply));
  ASSERT_EQ(read.samples.size(), 2u);
  EXPECT_EQ(read.samples[0][0].us, 0.1f);
  EXPECT_EQ(read.samples[0][1].us, 1.0f / 3);
  EXPECT_EQ(read.samples[0][0].sm_mhz, 1755.5f);
  EXPECT_TRUE(read.samples[0][1].throttled);
}

TEST(WorkerProtocol, RefusesNonsense) {
  for (const char* line :
       {"", "x", "[]", "{}", "{\"do\":\"dance\"}", "{\"do\":\"verify\",\"labels\":[]}",
        "{\"do\":\"open\",\"shape\":{}}",
        "{\"do\":\"measure\",\"labels\":[\"a\"],\"loads\":[[1]],\"cells\":[0,1,0],"
        "\"rounds\":1}",
        "{\"do\":\"measure\",\"labels\":[\"a\"],\"loads\":[[1]],\"cells\":[0,0,0],"
        "\"rounds\":0}"})
    EXPECT_THROW(decode_request(line), Error) << line;
  for (const char* line :
       {"", "{}", "{\"progress\":[1]}", "{\"error\":3}", "{\"samples\":[[1,2]]}"})
    EXPECT_THROW(decode_reply(line), Error) << line;
}

TEST(IsolatedTimer, DoesWhatTheTimerDoes) {
  IsolatedTimer isolated(simulated_worker("seed=5"), kShape, kShort, nullptr);
  const auto direct = make_simulated_timer(parse_simulation("seed=5"));
  EXPECT_EQ(isolated.environment().gpu, kSimulatedGpu);
  const auto space = direct->space(kShape);
  ASSERT_EQ(isolated.space().size(), space.size());
  EXPECT_EQ(isolated.space()[7].candidate.label, space[7].candidate.label);
  std::vector<int> told;
  const std::vector<std::string> labels = {kSmall, kLarge};
  EXPECT_EQ(
      isolated.prepare(labels, [&](int done, int total) { told.push_back(10 * done + total); })[1]
          .candidate.registers,
      168);
  EXPECT_EQ(told, (std::vector<int>{12, 22}));
  direct->prepare(labels, {});
  EXPECT_EQ(isolated.verify(kSmall).status, ConfigStatus::kOk);
  const Measurement measured = isolated.measure(request_of(labels), 0.1);
  const auto expected = direct->measure(request_of(labels));
  for (std::size_t cell = 0; cell < 2; ++cell)
    for (std::size_t round = 0; round < 3; ++round)
      EXPECT_EQ(measured.samples[cell][round].us, expected[cell][round].us);
  EXPECT_EQ(isolated.deaths(), 0);
}

TEST(IsolatedTimer, AHangingKernelIsFoundAndTheOthersAreTimed) {
  IsolatedTimer isolated(simulated_worker(std::string("hang=") + kMiddle), kShape, kShort, nullptr);
  const std::vector<std::string> labels = {kSmall, kMiddle, kLarge};
  isolated.prepare(labels, {});
  const auto start = std::chrono::steady_clock::now();
  const Measurement measured = isolated.measure(request_of(labels), 0.001);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  ASSERT_EQ(measured.quarantined.size(), 1u);
  EXPECT_EQ(measured.quarantined[0].label, kMiddle);
  EXPECT_NE(measured.quarantined[0].reason.find("hung"), std::string::npos);
  EXPECT_EQ(measured.samples[0].size(), 3u);
  EXPECT_TRUE(measured.samples[1].empty());
  EXPECT_EQ(measured.samples[2].size(), 3u);
  EXPECT_EQ(isolated.deaths(), 2);
}

TEST(IsolatedTimer, ACrashIsToldWithItsLastWords) {
  IsolatedTimer isolated(simulated_worker(std::string("crash=") + kMiddle), kShape, kShort,
                         nullptr);
  isolated.prepare({kMiddle, kSmall}, {});
  const Measurement measured = isolated.measure(request_of({kMiddle, kSmall}), 0.001);
  ASSERT_EQ(measured.quarantined.size(), 1u);
  EXPECT_NE(measured.quarantined[0].reason.find("Aborted"), std::string::npos)
      << measured.quarantined[0].reason;
  EXPECT_NE(measured.quarantined[0].reason.find("illegal memory access"), std::string::npos);
}

TEST(IsolatedTimer, ACrashFromOutsideCondemnsNobody) {
  ScratchFolder folder;
  IsolatedTimer isolated(simulated_worker("crash-once=" + folder.file("marker")), kShape, kShort,
                         nullptr);
  isolated.prepare({kMiddle, kSmall}, {});
  const Measurement measured = isolated.measure(request_of({kMiddle, kSmall}), 0.001);
  EXPECT_TRUE(measured.quarantined.empty());
  EXPECT_EQ(measured.samples[0].size(), 3u);
  EXPECT_EQ(isolated.deaths(), 1);
}

TEST(IsolatedTimer, OneAloneHasTwoStrikesToo) {
  ScratchFolder folder;
  IsolatedTimer lucky(simulated_worker("crash-once=" + folder.file("marker")), kShape, kShort,
                      nullptr);
  lucky.prepare({kSmall}, {});
  EXPECT_TRUE(lucky.measure(request_of({kSmall}), 0.001).quarantined.empty());
  IsolatedTimer guilty(simulated_worker(std::string("crash=") + kSmall), kShape, kShort, nullptr);
  guilty.prepare({kSmall}, {});
  EXPECT_EQ(guilty.measure(request_of({kSmall}), 0.001).quarantined.size(), 1u);
  EXPECT_EQ(guilty.deaths(), 2);
}

TEST(IsolatedTimer, WhenNothingWorksTheMachineIsBlamed) {
  std::string simulation;
  std::vector<std::string> labels;
  for (const TimedConfig& c : make_simulated_timer({})->space(kShape)) {
    if (c.status != ConfigStatus::kNew) continue;
    labels.push_back(c.candidate.label);
    simulation += "crash=" + c.candidate.label + ",";
  }
  IsolatedTimer isolated(simulated_worker(simulation), kShape, kShort, nullptr);
  isolated.prepare(labels, {});
  EXPECT_NE(error_of([&] { isolated.measure(request_of(labels), 0.01); }).find("in a row failed"),
            std::string::npos);
}

TEST(IsolatedTimer, WrongAndRefusedComeWithTheirReasons) {
  IsolatedTimer isolated(simulated_worker(std::string("wrong=") + kSmall + ",refuse=" + kLarge +
                                          ",hang=" + kMiddle + "@verify"),
                         kShape, kShort, nullptr);
  const auto prepared = isolated.prepare({kSmall, kMiddle, kLarge}, {});
  EXPECT_EQ(prepared[2].status, ConfigStatus::kRefused);
  EXPECT_NE(prepared[2].reason.find("spills"), std::string::npos);
  const auto verdict = isolated.verify(kSmall);
  EXPECT_EQ(verdict.status, ConfigStatus::kWrong);
  EXPECT_NE(verdict.reason.find("relative error"), std::string::npos);
  EXPECT_EQ(isolated.verify(kMiddle).status, ConfigStatus::kQuarantined);
  EXPECT_EQ(isolated.verify("sim-r8-c256-s6-static").status,
            ConfigStatus::kOk);  // in a new worker, prepared on the way
}

TEST(IsolatedTimer, ACompilerThatCrashesOnOneCompilesTheOthers) {
  IsolatedTimer isolated(simulated_worker(std::string("crash=") + kMiddle + "@prepare"), kShape,
                         kShort, nullptr);
  const auto prepared = isolated.prepare({kSmall, kMiddle, kLarge}, {});
  EXPECT_EQ(prepared[0].status, ConfigStatus::kNew);
  EXPECT_EQ(prepared[1].status, ConfigStatus::kQuarantined);
  EXPECT_EQ(prepared[1].candidate.label, kMiddle);
  EXPECT_EQ(prepared[1].candidate.grid.phase[0].rows, 16);  // what is known of it stays known
  EXPECT_EQ(prepared[2].status, ConfigStatus::kNew);
}

TEST(IsolatedTimer, AWorkerThatNeverStartsIsAnErrorWithItsWords) {
  const Spawn broken = fork_worker([]() -> std::unique_ptr<KernelTimer> {
    fmt::print(stderr, "no such device\n");
    ::_exit(7);
  });
  const std::string error =
      error_of([&] { IsolatedTimer isolated(broken, kShape, kShort, nullptr); });
  EXPECT_NE(error.find("exit code 7"), std::string::npos) << error;
  EXPECT_NE(error.find("no such device"), std::string::npos) << error;
}

// Numbers that cannot be times, and answers of another size.
class LyingTimer : public KernelTimer {
 public:
  explicit LyingTimer(int lie) : lie_(lie) {}
  Provenance environment() override { return inner_->environment(); }
  std::vector<TimedConfig> space(const LocalShape& shape) override { return inner_->space(shape); }
  std::vector<TimedConfig> prepare(const std::vector<std::string>& labels,
                                   const PrepareProgress& p) override {
    return inner_->prepare(labels, p);
  }
  std::string verify(const std::string& label) override { return inner_->verify(label); }
  std::vector<std::vector<Sample>> measure(const MeasureRequest& request) override {
    auto samples = inner_->measure(request);
    if (lie_ == 0) samples[0][0].us = -1;
    if (lie_ == 1) samples[0].pop_back();
    if (lie_ == 2) samples.clear();
    if (lie_ == 4) throw Error("launch", "CUDA_ERROR_ILLEGAL_ADDRESS", "", "");
    if (lie_ == 3)
      std::printf("a library prints\n"), std::fflush(stdout);  // must not be taken for an answer
    return samples;
  }

 private:
  int lie_;
  std::unique_ptr<KernelTimer> inner_ = make_simulated_timer({});
};

TEST(IsolatedTimer, TimesThatAreNoneAreNeverTaken) {
  for (int lie : {0, 1, 2}) {
    IsolatedTimer isolated(fork_worker([lie] { return std::make_unique<LyingTimer>(lie); }), kShape,
                           kShort, nullptr);
    isolated.prepare({kSmall}, {});
    const Measurement measured = isolated.measure(request_of({kSmall}), 0.001);
    EXPECT_EQ(measured.quarantined.size(), 1u) << lie;
    EXPECT_TRUE(measured.samples[0].empty()) << lie;
  }
  IsolatedTimer isolated(fork_worker([] { return std::make_unique<LyingTimer>(3); }), kShape,
                         kShort, nullptr);
  isolated.prepare({kSmall}, {});
  EXPECT_TRUE(isolated.measure(request_of({kSmall}), 0.001).quarantined.empty());
}

TEST(IsolatedTimer, WhatTheTimerThrowsIsTheReasonAndItsProcessEnds) {
  IsolatedTimer isolated(fork_worker([] { return std::make_unique<LyingTimer>(4); }), kShape,
                         kShort, nullptr);
  isolated.prepare({kSmall}, {});
  const Measurement measured = isolated.measure(request_of({kSmall}), 0.001);
  ASSERT_EQ(measured.quarantined.size(), 1u);
  EXPECT_NE(measured.quarantined[0].reason.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos);
  EXPECT_EQ(isolated.deaths(), 2);  // a context that faulted is never used again
}

TEST(IsolatedTimer, AnInterruptEndsEvenAHang) {
  std::atomic<bool> interrupted = false;
  WorkerLimits patient;
  IsolatedTimer isolated(simulated_worker(std::string("hang=") + kSmall), kShape, patient,
                         &interrupted);
  isolated.prepare({kSmall}, {});
  std::thread person([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    interrupted = true;
  });
  EXPECT_THROW(isolated.measure(request_of({kSmall}), 0.001), Interrupted);
  person.join();
}

TEST(SimulatedTimer, RefusesOptionsItDoesNotKnow) {
  EXPECT_THROW(parse_simulation("sed=1"), Error);
  EXPECT_THROW(parse_simulation("seed=x"), Error);
  EXPECT_THROW(parse_simulation("noise=-1"), Error);
  EXPECT_EQ(parse_simulation("").seed, 1u);
  EXPECT_EQ(parse_simulation("hang=a,hang=b,throttle=0.5").faults.hang.size(), 2u);
}

TEST(SimulatedTimer, PrefersSmallTilesForSmallLoadsAndLargeOnesForLarge) {
  const auto timer = make_simulated_timer(parse_simulation("noise=0"));
  timer->space(kShape);
  timer->prepare({kSmall, kLarge}, {});
  MeasureRequest request{.labels = {kSmall, kLarge},
                         .loads = {{4, 2, 1, 1, 0, 0, 0, 0}, std::vector<int>(8, 500)},
                         .cells = {{0, 0}, {1, 0}, {0, 1}, {1, 1}}};
  const auto us = timer->measure(request);
  EXPECT_LT(us[0][0].us, us[1][0].us);
  EXPECT_GT(us[2][0].us, us[3][0].us);
}

}  // namespace
}  // namespace ramp
