// SPDX-License-Identifier: Apache-2.0
#include "choice/features.h"

#include <gtest/gtest.h>

#include "choice/cost_model.h"

namespace ramp {
namespace {

constexpr int kExperts = 16;
constexpr int kBalanced[kExperts] = {8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8};
constexpr int kSkewed[kExperts] = {30, 30, 30, 30, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0};

Grid one_phase(int rows, int col_tiles, int slots) { return {{{rows, col_tiles, slots}}, 1}; }

// Section 2.3: two GPUs, 16 experts, 128 tokens each.
TEST(Features, SkewAddsSmallTilesAndRemovesLargeOnes) {
  const Grid small = one_phase(8, 1, 132), large = one_phase(32, 1, 132);
  EXPECT_EQ(features(small, kBalanced, kExperts).tiles, 16);
  EXPECT_EQ(features(small, kSkewed, kExperts).tiles, 24);
  EXPECT_EQ(features(large, kBalanced, kExperts).tiles, 16);
  EXPECT_EQ(features(large, kSkewed, kExperts).tiles, 12);
  EXPECT_EQ(features(large, kSkewed, kExperts).active, 12);
}

TEST(Features, WavesAreWholeRoundsOfTheResidentBlocks) {
  const Grid grid = one_phase(8, 9, 132);  // 144 tiles
  EXPECT_EQ(features(grid, kBalanced, kExperts).waves, 2);
}

TEST(CostModel, TiesGoToTheFirstEntry) {
  const float us[3] = {2, 1, 1};
  EXPECT_EQ(cheapest(us, 3), 1);
}

}  // namespace
}  // namespace ramp
