// SPDX-License-Identifier: Apache-2.0
// A large layer and a budget for a few per cent of its table: what is timed covers every range of
// pass sizes, and the plan is right for each of them.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "choice/select.hpp"
#include "choice/sizes.hpp"
#include "choice/tune.hpp"
#include "lab/profile.hpp"
#include "tests/lab/forked_worker.hpp"
#include "tests/lab/measured_example.hpp"

namespace ramp {
namespace {

constexpr int kGpus = 8, kExperts = 32, kTopK = 8;

// DeepSeek-V3's layer on eight GPUs: passes of 1 to 4,096 tokens, evenly on a logarithmic scale.
Workload large_layer(int passes, unsigned seed) {
  Workload workload;
  workload.provenance = {.model = "large", .layout = "ep8", .routing = "generated: test"};
  workload.shape = {.experts = kExperts, .top_k = kTopK, .hidden = 7168, .intermediate = 2048};
  workload.gpus = kGpus;
  std::mt19937 random(seed);
  std::map<std::vector<int>, int> seen;
  for (int p = 0; p < passes; ++p) {
    const double log = 12.0 * (random() % 1000) / 999;
    MeasuredPass pass{.tokens = std::max(1, static_cast<int>(std::exp2(log))),
                      .domain = "test",
                      .role = p % 3 == 2 ? Role::kTest : Role::kTrain};
    for (int g = 0; g < kGpus; ++g) {
      std::vector<int> counts(kExperts, 0);
      // Some GPUs hold more popular experts than others.
      const int pairs = pass.tokens * kTopK * (6 + g) / (kGpus * 9) + (g == 0);
      for (int i = 0; i < pairs; ++i) ++counts[std::min(random() % kExperts, random() % kExperts)];
      std::sort(counts.rbegin(), counts.rend());
      if (counts[0] == 0) {
        pass.load_of_gpu.push_back(-1);
        continue;
      }
      const auto [it, is_new] = seen.emplace(counts, static_cast<int>(workload.loads.size()));
      if (is_new) workload.loads.push_back(counts);
      pass.load_of_gpu.push_back(it->second);
    }
    workload.passes.push_back(pass);
  }
  return workload;
}

// [range]: how much longer than the best configuration the plan's choices take on loads that it has
// not seen, mean; without noise.
std::vector<double> loss_by_range(const Plan& plan) {
  const Workload fresh = large_layer(120, 99);
  const auto timer = make_simulated_timer({.noise = 0});
  std::vector<std::string> labels;
  for (const TimedConfig& config : timer->space(fresh.shape))
    if (config.status == ConfigStatus::kNew) labels.push_back(config.candidate.label);
  timer->prepare(labels, {});
  std::vector<double> sum(kSizeRanges, 0), loads(kSizeRanges, 0);
  for (const MeasuredPass& pass : fresh.passes) {
    const Plan& part = plan_for(plan, pass.tokens);
    for (int load : pass.load_of_gpu) {
      if (load < 0) continue;
      MeasureRequest request{labels, {fresh.loads[load]}, {}, 1};
      for (int c = 0; c < static_cast<int>(labels.size()); ++c) request.cells.push_back({c, 0, 0});
      std::map<std::string, float> us;
      float best = INFINITY;
      const auto samples = timer->measure(request);
      for (std::size_t c = 0; c < labels.size(); ++c) {
        us[labels[c]] = samples[c][0].us;
        best = std::min(best, samples[c][0].us);
      }
      const int entry = select(fresh.loads[load], menu_of(part)).entry;
      sum[size_range(pass.tokens)] += us.at(part.menu[entry].label) / best - 1;
      ++loads[size_range(pass.tokens)];
    }
  }
  for (int r = 0; r < kSizeRanges; ++r) sum[r] /= loads[r];
  return sum;
}

MeasuredSpace measure(const std::string& path, double minutes, CampaignReport* report) {
  CampaignOptions options;
  options.minutes = minutes;
  options.batch_s = 0.05;
  MeasurementStore store(path);
  *report =
      run_campaign(store, large_layer(180, 1), simulated_worker("slow=1"), options, {}, nullptr);
  store.close();
  return load_measurements(path);
}

TEST(ThinBudget, EveryRangeOfSizesIsTimedAndServedWell) {
  ScratchFolder folder;
  CampaignReport report;
  const MeasuredSpace space = measure(folder.file("a"), 0.05, &report);
  EXPECT_EQ(report.end, CampaignReport::End::kBudget);
  EXPECT_LT(report.cells, report.planned / 5);
  const std::vector<SizeCoverage> sizes = coverage_by_size(space);
  ASSERT_EQ(sizes.size(), static_cast<std::size_t>(kSizeRanges));
  for (const SizeCoverage& size : sizes) {
    EXPECT_GE(size.loads, 1) << coverage_text(sizes);
    EXPECT_FALSE(size.is_uniform);
  }
  const Plan plan = tune_from(space);
  const std::vector<double> loss = loss_by_range(plan);
  for (int r = 0; r < kSizeRanges; ++r) {
    RecordProperty("loss_" + std::to_string(r), std::to_string(loss[r]));
    EXPECT_LT(loss[r], r >= 4 ? 0.04 : 0.12) << size_range_text(r);
  }
  EXPECT_FALSE(parse_how(plan.provenance.how).timed.empty());
}

TEST(ThinBudget, ABudgetForHardlyAnythingTimesAFewOfEveryKindOnEveryRange) {
  ScratchFolder folder;
  CampaignReport report;
  const MeasuredSpace space = measure(folder.file("a"), 0.015, &report);
  const std::vector<SizeCoverage> sizes = coverage_by_size(space);
  ASSERT_EQ(sizes.size(), static_cast<std::size_t>(kSizeRanges));
  for (const SizeCoverage& size : sizes) EXPECT_GE(size.loads, 1) << coverage_text(sizes);
  EXPECT_NE(thin_warning(space).find("passes of above 2048 tokens rest on"), std::string::npos)
      << thin_warning(space);
}

}  // namespace
}  // namespace ramp
