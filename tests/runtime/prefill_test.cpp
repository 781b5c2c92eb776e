// SPDX-License-Identifier: Apache-2.0
// How deep a block reads ahead before it knows whether its expert has tokens.
#include "runtime/prefill.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/ffn/space.hpp"
#include "runtime/layer.hpp"

namespace ramp {
namespace {

TEST(ActiveShare, IsTheChanceThatSomePairFallsOnAnExpert) {
  EXPECT_DOUBLE_EQ(expected_active_share(2, 1), 0.5);
  EXPECT_DOUBLE_EQ(expected_active_share(4, 2), 1 - 0.75 * 0.75);
  EXPECT_DOUBLE_EQ(expected_active_share(1, 1), 1);
  EXPECT_DOUBLE_EQ(expected_active_share(64, 0), 0);
  EXPECT_DOUBLE_EQ(expected_active_share(0, 5), 0);
}

TEST(ActiveShare, GrowsWithTheTokensAndShrinksWithTheExperts) {
  for (int tokens = 1; tokens < 500; ++tokens) {
    EXPECT_LE(expected_active_share(64, tokens), expected_active_share(64, tokens + 1));
    EXPECT_LT(expected_active_share(128, tokens), expected_active_share(64, tokens));
  }
  EXPECT_NEAR(expected_active_share(64, 1e6), 1, 1e-9);
}

TEST(Prefill, IsDeeperWhereMoreExpertsAreExpectedToBeActive) {
  EXPECT_EQ(default_prefill(0.0, 6), 0);
  EXPECT_EQ(default_prefill(0.2, 6), 0);
  EXPECT_EQ(default_prefill(0.21, 6), 2);
  EXPECT_EQ(default_prefill(0.5, 6), 2);
  EXPECT_EQ(default_prefill(0.51, 6), 4);
  EXPECT_EQ(default_prefill(0.85, 6), 4);
  EXPECT_EQ(default_prefill(0.86, 6), 6);
  EXPECT_EQ(default_prefill(1.0, 6), 6);
}

TEST(Prefill, NeverExceedsTheSmallestRing) {
  for (int deepest = 0; deepest <= 8; ++deepest)
    for (double share = 0; share <= 1; share += 0.01)
      EXPECT_LE(default_prefill(share, deepest), deepest);
  EXPECT_EQ(default_prefill(0.6, 3), 3);
  EXPECT_EQ(default_prefill(0.3, 1), 1);
}

TEST(Prefill, ASingleTokenOfAWideModelReadsNothingAheadAndABatchReadsAllAhead) {
  EXPECT_EQ(default_prefill(expected_active_share(256, 1 * 8), 6), 0);
  EXPECT_EQ(default_prefill(expected_active_share(64, 4 * 8), 6), 2);
  EXPECT_EQ(default_prefill(expected_active_share(64, 128 * 8), 6), 6);
}

TEST(DeepestPrefill, IsTheSmallestRingAndNoMoreUnitsThanAnItemHas) {
  std::vector<FfnConfig> menu;
  for (const FfnConfig& c : ffn_space())
    if (c.cols == 256 && c.split == 1 && (c.rows == 8 || c.rows == 64)) menu.push_back(c);
  int smallest = kFfnMaxStages;
  for (const FfnConfig& c : menu) smallest = std::min(smallest, c.stages);
  EXPECT_EQ(deepest_prefill(menu, 2048), smallest);
  EXPECT_EQ(deepest_prefill(menu, 256), std::min(2, smallest)) << "two units of 128 columns";
  EXPECT_EQ(deepest_prefill(menu, 128), 1);
}

TEST(DeepestPrefill, IsAPartOfTheHiddenDimensionWhereAClusterSharesItems) {
  for (const FfnConfig& c : ffn_space())
    if (c.split > 1) {
      EXPECT_EQ(deepest_prefill({&c, 1}, 128 * c.split), 1) << ffn_label(c);
      EXPECT_LE(deepest_prefill({&c, 1}, 2048), 2048 / 128 / c.split) << ffn_label(c);
    }
}

}  // namespace
}  // namespace ramp
