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
  EXPECT_EQ(default_prefill(0.0, 10), 0);
  EXPECT_EQ(default_prefill(0.15, 10), 0);
  EXPECT_EQ(default_prefill(0.16, 10), 2);
  EXPECT_EQ(default_prefill(0.3, 10), 2);
  EXPECT_EQ(default_prefill(0.31, 10), 6);
  EXPECT_EQ(default_prefill(1.0, 10), 6);
}

TEST(Prefill, NeverExceedsWhatTheMenuCan) {
  for (int deepest = 0; deepest <= 12; ++deepest)
    for (double share = 0; share <= 1; share += 0.01)
      EXPECT_LE(default_prefill(share, deepest), deepest);
  EXPECT_EQ(default_prefill(0.6, 3), 3);
  EXPECT_EQ(default_prefill(0.3, 1), 1);
}

TEST(Prefill, ASingleTokenReadsNothingAheadAndABatchAll) {
  EXPECT_EQ(default_prefill(expected_active_share(256, 1 * 8), 9), 0);
  EXPECT_EQ(default_prefill(expected_active_share(64, 4 * 8), 9), 6);
  EXPECT_EQ(default_prefill(expected_active_share(64, 128 * 8), 9), 6);
}

TEST(Prefill, KeepsThePaceOfTheMemory) {
  EXPECT_EQ(prefill_pace_ns(132, 4.58), 945) << "132 x 32,768 bytes at 4.58 TB/s";
  EXPECT_LT(prefill_pace_ns(64, 4.58), prefill_pace_ns(65, 4.58));
  EXPECT_EQ(prefill_pace_ns(0, 4.58), 0);
}

TEST(DeepestPrefill, IsNoMoreUnitsThanABlockHasOfAnItem) {
  for (const FfnConfig& c : ffn_space()) {
    const FfnConfig menu[] = {c};
    if (c.topology == kF3) {
      EXPECT_EQ(deepest_prefill(menu, 2048), c.stages) << ffn_label(c);
      EXPECT_EQ(deepest_prefill(menu, 128), 1) << ffn_label(c);
      continue;
    }
    EXPECT_LE(deepest_prefill(menu, 2048), c.stages + ffn_early(c)) << ffn_label(c);
    EXPECT_LE(deepest_prefill(menu, 128 * c.split), 2) << ffn_label(c);
    EXPECT_GE(deepest_prefill(menu, 128 * c.split), 1) << ffn_label(c);
  }
}

TEST(DownPrefill, IsNoneWhereAnExpertMayHaveASecondTile) {
  EXPECT_EQ(down_prefill(4, 64, 64, true), 4);
  EXPECT_EQ(down_prefill(4, 64.5, 64, true), 0) << "then other blocks' first items are up items";
  EXPECT_EQ(down_prefill(4, 1, 64, false), 0) << "tiles that nobody owns come before";
  EXPECT_EQ(down_prefill(0, 1, 64, true), 0);
}

TEST(DeepestPrefill, LeavesTheRegistersAloneWhereAnItemHasTooFewUnits) {
  const FfnConfig menu[] = {ffn_from_label("f1-r8-c256-s6-w2-dynamic")};
  ASSERT_EQ(ffn_early(menu[0]), 4);
  EXPECT_EQ(deepest_prefill(menu, 3 * 128), 3 + 2);
  EXPECT_EQ(deepest_prefill(menu, 5 * 128), 5 + 3);
  EXPECT_EQ(deepest_prefill(menu, 2048), 10);
}

}  // namespace
}  // namespace ramp
