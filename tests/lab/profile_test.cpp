// SPDX-License-Identifier: Apache-2.0
#include "lab/profile.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "tests/lab/forked_worker.hpp"
#include "tests/lab/measured_example.hpp"

namespace ramp {
namespace {

constexpr const char* kSmall = "sim-r8-c256-s4-static";
constexpr const char* kMiddle = "sim-r16-c256-s4-static";

CampaignOptions quick() {
  CampaignOptions options;
  options.minutes = 0;
  options.batch_s = 0.001;  // many commits, so that a kill has many places to fall on
  options.cool_s = 0.01;
  options.plan.anchors = 6;
  options.plan.margin = 0.15;
  options.worker = {.open = 10,
                    .prepare = 2,
                    .verify = 0.5,
                    .first_measure = 0.5,
                    .measure_least = 0.5,
                    .measure_factor = 10};
  return options;
}

CampaignReport profile(const std::string& path, const Workload& workload,
                       const std::string& simulation, const CampaignOptions& options = quick(),
                       std::vector<std::string>* notes = nullptr,
                       const std::atomic<bool>* interrupted = nullptr) {
  MeasurementStore store(path);
  CampaignEvents events;
  if (notes) events.note = [notes](const std::string& text) { notes->push_back(text); };
  const CampaignReport report =
      run_campaign(store, workload, simulated_worker(simulation), options, events, interrupted);
  store.close();
  return report;
}

ConfigStatus status_of(const std::string& path, const std::string& label) {
  for (const TimedConfig& c : load_configs(path))
    if (c.candidate.label == label) return c.status;
  ADD_FAILURE() << "no " << label;
  return ConfigStatus::kNew;
}

TEST(Campaign, MeasuresTheWholePlan) {
  ScratchFolder folder;
  const Workload workload = example_workload(40);
  std::vector<std::string> notes;
  const CampaignReport report = profile(folder.file("a"), workload, "seed=1", quick(), &notes);
  EXPECT_EQ(report.end, CampaignReport::End::kFinished);
  EXPECT_EQ(report.cells, report.planned);
  EXPECT_EQ(report.configs, 72);
  EXPECT_EQ(report.ok + report.refused, 72);
  EXPECT_GT(report.refused, 2);  // too much shared memory
  EXPECT_GT(report.contenders, 3);
  EXPECT_LT(report.contenders, report.ok);
  EXPECT_EQ(report.sm_mhz, 1980);
  EXPECT_GT(report.median_spread, 0);
  EXPECT_LT(report.median_spread, 0.02);
  EXPECT_FALSE(notes.empty());

  const MeasuredSpace space = load_measurements(folder.file("a"));
  EXPECT_EQ(space.provenance.gpu, kSimulatedGpu);
  EXPECT_EQ(space.provenance.model, "example");
  EXPECT_FALSE(space.provenance.commit.empty());
  const std::vector<int> anchors = choose_anchors(workload, quick().plan);
  int everywhere = 0;
  for (std::size_t c = 0; c < space.candidates.size(); ++c) {
    for (int a : anchors) EXPECT_GE(space.samples[c][static_cast<std::size_t>(a)].size(), 3u);
    everywhere += std::none_of(space.samples[c].begin(), space.samples[c].end(),
                               [](const auto& s) { return s.empty(); });
  }
  EXPECT_GE(everywhere, report.contenders);
}

TEST(Campaign, TheBestConfigurationOfEveryLoadIsAContender) {
  // Without noise the random share can't win by more than a hair, or the contenders' rule has lost
  // something.
  ScratchFolder folder;
  CampaignOptions options = quick();
  options.plan = {};
  options.plan.random_share = 1;  // look at everything
  const CampaignReport report = profile(folder.file("a"), example_workload(60), "noise=0", options);
  EXPECT_GT(report.drawn, 100);
  EXPECT_LT(report.worst_win, 0.02);
}

TEST(Campaign, KilledAnywhereAndResumedEndsWithTheSameTable) {
  ScratchFolder folder;
  const Workload workload = example_workload(24);
  const std::string simulation =
      std::string("seed=4,throttle=0.02,noise=0.02,wrong=") + kSmall + ",crash=" + kMiddle;
  CampaignOptions options = quick();
  options.plan.random_share = 0.3;
  profile(folder.file("whole"), workload, simulation, options);
  const MeasuredSpace whole = load_measurements(folder.file("whole"));

  std::mt19937 random(11);
  int kills = 0;
  for (int campaign = 0; campaign < 3; ++campaign) {
    const std::string path = folder.file("killed" + std::to_string(campaign));
    for (int round = 0;; ++round) {
      ASSERT_LT(round, 200);
      const pid_t child = ::fork();
      if (child == 0) {
        try {
          MeasurementStore store(path);
          run_campaign(store, workload, simulated_worker(simulation + ",pace=40"), options, {},
                       nullptr);
          store.close();
          ::_exit(0);
        } catch (const std::exception& e) {
          std::fprintf(stderr, "%s\n", e.what());
          ::_exit(1);
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5 + random() % (60 + 25 * round)));
      ::kill(child, SIGKILL);
      int status = 0;
      ::waitpid(child, &status, 0);
      if (WIFEXITED(status)) {
        ASSERT_EQ(WEXITSTATUS(status), 0);
        break;
      }
      ++kills;
    }
    const MeasuredSpace resumed = load_measurements(path);
    expect_equal(resumed, whole);
    EXPECT_EQ(status_of(path, kSmall), ConfigStatus::kWrong);
    EXPECT_EQ(status_of(path, kMiddle), ConfigStatus::kQuarantined);
  }
  EXPECT_GT(kills, 3);
}

TEST(Campaign, QuarantinesWhatHangsCrashesOrIsWrongAndGoesOn) {
  ScratchFolder folder;
  std::vector<std::string> notes;
  const std::string hanging = "sim-r32-c256-s6-dynamic", refused = "sim-r24-c256-s4-static";
  const CampaignReport report = profile(folder.file("a"), example_workload(12),
                                        std::string("wrong=") + kSmall + ",crash=" + kMiddle +
                                            "@verify,hang=" + hanging + ",refuse=" + refused,
                                        quick(), &notes);
  EXPECT_EQ(report.end, CampaignReport::End::kFinished);
  EXPECT_EQ(report.wrong, 1);
  EXPECT_EQ(report.quarantined, 2);
  EXPECT_GE(report.deaths, 4);
  EXPECT_EQ(status_of(folder.file("a"), hanging), ConfigStatus::kQuarantined);
  EXPECT_EQ(status_of(folder.file("a"), refused), ConfigStatus::kRefused);
  for (const TimedConfig& c : load_configs(folder.file("a")))
    EXPECT_EQ(c.status == ConfigStatus::kOk, c.reason.empty()) << c.candidate.label;
  // What is wrong was never timed; and a second run doesn't try them again.
  MeasurementStore store(folder.file("a"));
  for (int load = 0; load < report.loads; ++load) EXPECT_EQ(store.count(kSmall, load), 0);
  const CampaignReport again = run_campaign(
      store, example_workload(12),
      simulated_worker(std::string("hang=") + kSmall + ",hang=" + hanging), quick(), {}, nullptr);
  EXPECT_EQ(again.deaths, 0);
  EXPECT_EQ(again.cells, report.cells);
}

TEST(Campaign, ThrottledSamplesAreDroppedAndRetaken) {
  ScratchFolder folder;
  const Workload workload = example_workload(16);
  CampaignOptions options = quick();
  options.max_rounds = 3;
  const CampaignReport report = profile(folder.file("a"), workload, "throttle=0.15", options);
  EXPECT_GT(report.dropped, 100);
  EXPECT_EQ(report.cells, report.planned);
  EXPECT_EQ(report.sm_mhz, 1980);
  profile(folder.file("b"), workload, "throttle=0", options);
  // A throttled sample is 1.6 times slower: none may be left.
  const MeasuredSpace a = load_measurements(folder.file("a")),
                      b = load_measurements(folder.file("b"));
  long long compared = 0;
  for (std::size_t c = 0; c < a.candidates.size(); ++c)
    for (std::size_t l = 0; l < a.loads.size(); ++l)
      if (!a.samples[c][l].empty() && !b.samples[c][l].empty()) {
        EXPECT_NEAR(a.samples[c][l][0] / b.samples[c][l][0], 1, 0.05);
        ++compared;
      }
  EXPECT_GT(compared, 100);
}

TEST(Campaign, AClockThatStaysDownEndsItWithTheReason) {
  ScratchFolder folder;
  const std::string error =
      error_of([&] { profile(folder.file("a"), example_workload(6), "throttle=1"); });
  EXPECT_NE(error.find("every sample throttled at 1240 MHz"), std::string::npos) << error;
  // ... and when the GPU has cooled the same file goes on.
  EXPECT_EQ(profile(folder.file("a"), example_workload(6), "throttle=0").end,
            CampaignReport::End::kFinished);
}

TEST(Campaign, NoisyCellsGetMoreRounds) {
  ScratchFolder folder;
  profile(folder.file("calm"), example_workload(6), "noise=0.001");
  profile(folder.file("noisy"), example_workload(6), "noise=0.05");
  const auto samples_a_cell = [](const MeasuredSpace& space) {
    double samples = 0, cells = 0;
    for (const auto& row : space.samples)
      for (const auto& cell : row) samples += cell.size(), cells += !cell.empty();
    return samples / cells;
  };
  EXPECT_EQ(samples_a_cell(load_measurements(folder.file("calm"))), 3);
  EXPECT_GT(samples_a_cell(load_measurements(folder.file("noisy"))), 5);
}

TEST(Campaign, StopsAtItsBudgetAndGoesOnInTheNextRun) {
  ScratchFolder folder;
  const Workload workload = example_workload(40);
  CampaignOptions options = quick();
  options.batch_s = 0.05;
  options.minutes = 0.01;  // 0.6 s
  const auto start = std::chrono::steady_clock::now();
  const CampaignReport first = profile(folder.file("a"), workload, "pace=150", options);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(2500));
  EXPECT_EQ(first.end, CampaignReport::End::kBudget);
  EXPECT_LT(first.cells, first.planned);
  EXPECT_GT(first.cells, 0);
  EXPECT_GE(first.seconds, 0.6);
  options.minutes = 0;
  const CampaignReport rest = profile(folder.file("a"), workload, "pace=0", options);
  EXPECT_EQ(rest.end, CampaignReport::End::kFinished);
  EXPECT_GT(rest.cells, first.cells);
  const CampaignReport whole = profile(folder.file("b"), workload, "pace=0", options);
  EXPECT_EQ(whole.cells, rest.cells);
  expect_equal(load_measurements(folder.file("a")), load_measurements(folder.file("b")));
}

TEST(Campaign, ProgressNeverGoesBackAndEndsWhole) {
  ScratchFolder folder;
  MeasurementStore store(folder.file("a"));
  std::vector<CampaignProgress> told;
  CampaignEvents events{.progress = [&](const CampaignProgress& p) { told.push_back(p); }};
  run_campaign(store, example_workload(20), simulated_worker(""), quick(), events, nullptr);
  ASSERT_GT(told.size(), 10u);
  std::vector<std::string> phases;
  for (std::size_t i = 0; i < told.size(); ++i) {
    if (phases.empty() || phases.back() != told[i].phase) {
      phases.push_back(told[i].phase);
    } else {
      EXPECT_GE(told[i].done, told[i - 1].done);
    }
    EXPECT_LE(told[i].done, told[i].planned);
    EXPECT_GE(told[i].left_s, 0);
  }
  EXPECT_EQ(phases, (std::vector<std::string>{"compiling", "checking", "anchors", "contenders",
                                              "random share"}));
  EXPECT_EQ(told.back().done, told.back().planned);
}

TEST(Campaign, AnInterruptKeepsWhatIsMeasured) {
  ScratchFolder folder;
  std::atomic<bool> interrupted = false;
  {
    MeasurementStore store(folder.file("a"));
    CampaignEvents events{
        .progress = [&](const CampaignProgress& p) { interrupted = p.phase == "contenders"; }};
    const CampaignReport report = run_campaign(store, example_workload(20), simulated_worker(""),
                                               quick(), events, &interrupted);
    EXPECT_EQ(report.end, CampaignReport::End::kInterrupted);
    EXPECT_GT(report.cells, 6 * 30);
  }
  EXPECT_EQ(profile(folder.file("a"), example_workload(20), "").end,
            CampaignReport::End::kFinished);
}

TEST(Campaign, RefusesToGoOnWithOtherOptionsOrAnotherMachine) {
  ScratchFolder folder;
  profile(folder.file("a"), example_workload(6), "seed=1");
  EXPECT_NE(
      error_of([&] { profile(folder.file("a"), example_workload(6), "seed=2"); }).find("sources"),
      std::string::npos);
  CampaignOptions other = quick();
  other.rounds = 4;
  EXPECT_NE(error_of([&] {
              profile(folder.file("a"), example_workload(6), "seed=1", other);
            }).find("rounds 4"),
            std::string::npos);
  other = quick();
  other.minutes = 5;  // the budget is each run's own
  EXPECT_EQ(profile(folder.file("a"), example_workload(6), "seed=1", other).end,
            CampaignReport::End::kFinished);
}

TEST(Campaign, RefusesSettingsThatMakeNoSense) {
  ScratchFolder folder;
  for (auto change : std::vector<std::function<void(CampaignOptions&)>>{
           [](CampaignOptions& o) { o.minutes = -1; }, [](CampaignOptions& o) { o.rounds = 0; },
           [](CampaignOptions& o) { o.max_rounds = 1; },
           [](CampaignOptions& o) { o.plan.random_share = 2; },
           [](CampaignOptions& o) { o.plan.anchors = 0; }}) {
    CampaignOptions options = quick();
    change(options);
    EXPECT_NE(
        error_of([&] { profile(folder.file("a"), example_workload(6), "", options); }).find("--"),
        std::string::npos);
  }
}

TEST(Campaign, WhenEverythingCrashesNothingIsQuarantined) {
  ScratchFolder folder;
  std::string simulation;
  for (const TimedConfig& c : make_simulated_timer({})->space(example_workload(1).shape))
    simulation += "crash=" + c.candidate.label + "@verify,";
  EXPECT_NE(error_of([&] {
              profile(folder.file("a"), example_workload(6), simulation);
            }).find("the first 3"),
            std::string::npos);
  for (const TimedConfig& c : load_configs(folder.file("a")))
    EXPECT_NE(c.status, ConfigStatus::kQuarantined);
  EXPECT_EQ(profile(folder.file("a"), example_workload(6), "").end, CampaignReport::End::kFinished);
}

TEST(Campaign, AFullDiskStopsItAndTheRestGoesOnLater) {
  ScratchFolder folder;
  const std::string path = folder.file("a");
  const Workload workload = example_workload(40);
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{150'000, 150'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      profile(path, workload, "");
      ::_exit(1);
    } catch (const Error& e) {
      ::_exit(std::string(e.what()).find("what was stored before is intact") != std::string::npos
                  ? 0
                  : 2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const CampaignReport report = profile(path, workload, "");
  EXPECT_EQ(report.end, CampaignReport::End::kFinished);
  profile(folder.file("whole"), workload, "");
  expect_equal(load_measurements(path), load_measurements(folder.file("whole")));
}

}  // namespace
}  // namespace ramp
