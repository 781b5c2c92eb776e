// SPDX-License-Identifier: Apache-2.0
#include "choice/advise.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ramp {
namespace {

constexpr float kUntimed = std::numeric_limits<float>::infinity();

// Passes of these sizes; present and choice take these times both ways round, the bound 1 us.
Evaluation planted(const std::vector<int>& tokens, const std::vector<float>& present,
                   const std::vector<float>& choice) {
  Evaluation e;
  e.tokens = tokens;
  const std::vector<float> bound(tokens.size(), 1);
  for (const auto& [name, us] : {std::pair{"present", present}, std::pair{"choice", choice},
                                 std::pair{"exhaustive", bound}}) {
    PolicyScore score;
    score.name = name;
    score.times.us[0] = score.times.us[1] = us;
    e.scores.push_back(score);
  }
  return e;
}

Advised advised(const Evaluation& e) { return advise(e, "present", "choice", 2000, 1); }

TEST(Advise, SortsPassesIntoRangesAndShowsOnlyThoseThatHavePasses) {
  const Advised a = advised(planted({1, 2, 8, 9, 127, 128, 511, 512, 4096},
                                    {9, 9, 9, 9, 9, 9, 9, 9, 9}, {9, 9, 9, 9, 9, 9, 9, 9, 9}));
  std::vector<std::pair<int, int>> least_and_passes;
  for (const Advice& range : a.ranges) least_and_passes.emplace_back(range.least, range.passes);
  EXPECT_EQ(least_and_passes, (std::vector<std::pair<int, int>>{
                                  {1, 1}, {2, 2}, {9, 1}, {33, 1}, {128, 2}, {512, 2}}));
  EXPECT_EQ(a.all.passes, 9);
  EXPECT_EQ(advised(planted({16, 16}, {9, 9}, {9, 9})).ranges.size(), 1u);
}

TEST(Advise, TheGainIsAShareOfThePresentsTimeAndTheSavingItsMicroseconds) {
  const Advice a = advised(planted({4, 4, 4, 4, 4}, {10, 20, 30, 40, 50}, {8, 16, 24, 32, 40})).all;
  EXPECT_NEAR(a.gain, 0.2, 1e-6);
  EXPECT_NEAR(a.gain_interval.low, 0.2, 1e-6);
  EXPECT_NEAR(a.gain_interval.high, 0.2, 1e-6);
  EXPECT_NEAR(a.saved_us, 6, 1e-6);
  EXPECT_LT(a.saved_interval.low, 6);
  EXPECT_GT(a.saved_interval.high, 6);
  EXPECT_NEAR(a.present_us, 30, 1e-6);
  EXPECT_NEAR(a.best_us, 1, 1e-6);
  EXPECT_EQ(a.verdict, GainVerdict::kWorthIt);
}

TEST(Advise, SaysNotWorthItWhenSo) {
  const std::vector<int> sizes(6, 64);
  const std::vector<float> ten(6, 10);
  const auto verdict = [&](const std::vector<float>& choice) {
    return advised(planted(sizes, ten, choice)).all.verdict;
  };
  EXPECT_EQ(verdict(std::vector<float>(6, 9.8f)), GainVerdict::kWorthIt);
  EXPECT_EQ(verdict(std::vector<float>(6, 9.95f)), GainVerdict::kTooSmall);
  EXPECT_EQ(verdict(ten), GainVerdict::kTooSmall);
  EXPECT_EQ(verdict(std::vector<float>(6, 11)), GainVerdict::kSlower);
  EXPECT_EQ(verdict({5, 11, 11, 9, 10, 12}), GainVerdict::kHoldsZero);
}

TEST(Advise, FourPassesAreTooFewAndUntimedOnesDontCount) {
  const Advised few = advised(planted({1, 1, 1, 1}, {10, 10, 10, 10}, {5, 5, 5, 5}));
  EXPECT_EQ(few.all.verdict, GainVerdict::kTooFewPasses);
  const Advised untimed =
      advised(planted({1, 1, 1, 1, 600}, {10, 10, 10, 10, 10}, {5, 5, 5, 5, kUntimed}));
  EXPECT_EQ(untimed.all.passes, 4);
  EXPECT_EQ(untimed.all.left_out, 1);
  EXPECT_EQ(untimed.all.verdict, GainVerdict::kTooFewPasses);
  EXPECT_NEAR(untimed.all.present_us, 10, 1e-6);
  ASSERT_EQ(untimed.ranges.size(), 2u);
  EXPECT_EQ(untimed.ranges[1].passes, 0);
  EXPECT_TRUE(std::isnan(untimed.ranges[1].gain));
}

}  // namespace
}  // namespace ramp
