// SPDX-License-Identifier: Apache-2.0
#include "runtime/burst_timer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace ramp {
namespace {

TEST(BurstTimer, LaysALoadOnMixedExpertsTheSameWayEveryTime) {
  const std::vector<int> load = {90, 40, 20, 8, 3, 1};
  const std::vector<int> counts = spread_load(load, 16);
  ASSERT_EQ(counts.size(), 16u);
  EXPECT_EQ(counts, spread_load(load, 16));
  std::vector<int> sorted = counts;
  std::sort(sorted.rbegin(), sorted.rend());
  EXPECT_TRUE(std::equal(load.begin(), load.end(), sorted.begin()));
  EXPECT_FALSE(std::is_sorted(counts.rbegin(), counts.rend()));
}

TEST(BurstTimer, GivesAnExpertDifferentTokensInOrderAroundTheBatch) {
  const std::vector<int> counts = {7, 0, 30, 1, 12};
  const std::vector<Row> rows = spread_rows(counts, 30);
  ASSERT_EQ(rows.size(), 50u);
  std::size_t at = 0;
  for (const int n : counts) {
    std::set<int> tokens;
    for (int i = 0; i < n; ++i) {
      EXPECT_GE(rows[at].token, 0);
      EXPECT_LT(rows[at].token, 30);
      tokens.insert(rows[at++].token);
    }
    EXPECT_EQ(static_cast<int>(tokens.size()), n);
  }
}

TEST(BurstTimer, LaunchesLongerBurstsOfShorterKernels) {
  EXPECT_EQ(burst_launches(2), 12);
  EXPECT_EQ(burst_launches(30), 5);
  EXPECT_EQ(burst_launches(5000), 1);
}

TEST(BurstTimer, RestsWhileThePowerCapHoldsTheClockAndNoLonger) {
  EXPECT_EQ(next_rest_s(0, 0.05, false), 0);
  double rest = 0;
  for (int i = 0; i < 5; ++i) rest = next_rest_s(rest, 0.05, true);
  EXPECT_DOUBLE_EQ(rest, 0.2) << "four times the work, and not more";
  EXPECT_LE(next_rest_s(rest, 0.01, true), 0.04) << "of a short chunk";
  int chunks = 0;
  for (; rest > 0; ++chunks) rest = next_rest_s(rest, 0.05, false);
  EXPECT_LE(chunks, 10);
}

TEST(BurstTimer, ExpectsAllExpertsOfATokenHereOnlyWhereAllExpertsAre) {
  EXPECT_EQ(pairs_of_token({64, 8, 2048, 128}), 8);     // TP: every expert
  EXPECT_EQ(pairs_of_token({8, 8, 2048, 1024}), 1.5);   // EP8
  EXPECT_EQ(pairs_of_token({1, 2, 6144, 16384}), 1.0);  // one expert takes a token once
}

}  // namespace
}  // namespace ramp
