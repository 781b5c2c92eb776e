// SPDX-License-Identifier: Apache-2.0
#include "choice/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "problem/random.hpp"

namespace ramp {
namespace {

TEST(Statistics, EqualValuesShareTheirRank) {
  const double values[] = {10, 20, 20, 5};
  EXPECT_EQ(ranks(values), (std::vector<double>{2, 3.5, 3.5, 1}));
}

TEST(Statistics, SpearmanSeesOrderAndNothingElse) {
  const double a[] = {1, 2, 3, 4}, cubes[] = {1, 8, 27, 64}, reversed[] = {4, 3, 2, 1},
               flat[] = {1, 1, 1, 1};
  EXPECT_DOUBLE_EQ(spearman(a, cubes), 1);
  EXPECT_DOUBLE_EQ(spearman(a, reversed), -1);
  EXPECT_TRUE(std::isnan(spearman(a, flat)));
  // Without ties it is 1 - 6 sum d^2 / (n (n^2 - 1)); d = 1, 1, 0, 0.
  const double swapped[] = {2, 1, 3, 4};
  EXPECT_DOUBLE_EQ(spearman(a, swapped), 1 - 6.0 * 2 / (4 * 15));
}

TEST(Statistics, ADoublingAndAHalvingCancel) {
  const double logs[] = {std::log(2.0), std::log(0.5)};
  EXPECT_DOUBLE_EQ(exp_mean(logs), 1);
}

TEST(Statistics, TheBootstrapIntervalCoversTheTruthAboutAsOftenAsItSays) {
  int covered = 0;
  for (int trial = 0; trial < 200; ++trial) {
    Random random(trial + 1);
    std::vector<double> logs;
    for (int i = 0; i < 40; ++i) logs.push_back(0.1 + 0.3 * random.normal());
    const Interval interval = bootstrap_exp_mean(logs, 400, 9);
    covered += interval.low <= std::exp(0.1) && std::exp(0.1) <= interval.high;
  }
  EXPECT_GE(covered, 178);  // 190 expected
  EXPECT_LE(covered, 199);
}

TEST(Statistics, AMeanOfGroupsCountsEveryGroupOnceHoweverLarge) {
  std::vector<std::vector<double>> groups = {{0.1, 0.3}, {}, std::vector<double>(50, 0.4)};
  EXPECT_NEAR(exp_mean_of_groups(groups), std::exp(0.3), 1e-12);
  // The large group is all alike: what the interval spreads is half the small one's.
  const Interval interval = bootstrap_exp_mean_of_groups(groups, 500, 3);
  EXPECT_NEAR(interval.low, std::exp((0.1 + 0.4) / 2), 1e-12);
  EXPECT_NEAR(interval.high, std::exp((0.3 + 0.4) / 2), 1e-12);
  const std::vector<double> one = {0.1, -0.2, 0.3};
  const Interval alone = bootstrap_exp_mean(one, 300, 7);
  groups = {one};
  const Interval grouped = bootstrap_exp_mean_of_groups(groups, 300, 7);
  EXPECT_TRUE(alone.low == grouped.low && alone.high == grouped.high);
}

TEST(Statistics, TheSameSeedGivesTheSameInterval) {
  const double logs[] = {0.1, -0.2, 0.3, 0.05, 0.0};
  const Interval a = bootstrap_exp_mean(logs, 500, 4), b = bootstrap_exp_mean(logs, 500, 4),
                 c = bootstrap_exp_mean(logs, 500, 5);
  EXPECT_TRUE(a.low == b.low && a.high == b.high);
  EXPECT_TRUE(a.low != c.low || a.high != c.high);
}

}  // namespace
}  // namespace ramp
