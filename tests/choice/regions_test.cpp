// SPDX-License-Identifier: Apache-2.0
#include "choice/regions.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "problem/catalog.hpp"
#include "tests/choice/synthetic.hpp"

namespace ramp {
namespace {

const LocalShape kOlmoe{8, 8, 2048, 1024};

Region first(std::vector<int> load) {
  return predict_regions(kOlmoe, load, find_gpu("h200")).front().region;
}

TEST(Regions, GoFromClustersToTwoPhasesAsRowsGrow) {
  EXPECT_EQ(first({1, 0, 0, 0, 0, 0, 0, 0}), Region::kCluster4);
  EXPECT_EQ(first(std::vector<int>(8, 4)), Region::kCluster2);
  EXPECT_EQ(first(std::vector<int>(8, 60)), Region::kPhased64);
  EXPECT_EQ(first(std::vector<int>(8, 600)), Region::kPhased128);
}

TEST(Regions, NoPredictionIsBelowTheWeightStreamAndAllClassesAreThere) {
  for (const int n : {1, 10, 100, 1000}) {
    const auto times = predict_regions(kOlmoe, std::vector<int>(8, n), find_gpu("h200"));
    EXPECT_EQ(times.size(), static_cast<std::size_t>(kRegions));
    for (const RegionTime& time : times) EXPECT_GE(time.us, 1.3 + 8 * 6.29 / 4.58);
  }
  EXPECT_THROW(predict_regions(kOlmoe, std::vector<int>(8, 0), find_gpu("h200")), Error);
}

TEST(Regions, AConfigurationsClassIsReadOffItsGrid) {
  const GpuSpec& gpu = find_gpu("h200");
  EXPECT_EQ(region_of({{{8, 8, 33}}, 1}, gpu), Region::kCluster4);
  EXPECT_EQ(region_of({{{48, 8, 66}}, 1}, gpu), Region::kCluster2);
  EXPECT_EQ(region_of({{{24, 8, 132}}, 1}, gpu), Region::kShort);
  EXPECT_EQ(region_of({{{40, 8, 132}}, 1}, gpu), Region::kTall);
  EXPECT_EQ(region_of({{{64, 8, 132}, {64, 8, 132}}, 2}, gpu), Region::kPhased64);
  EXPECT_EQ(region_of({{{128, 8, 132}, {128, 8, 132}}, 2}, gpu), Region::kPhased128);
}

TEST(Regions, AScoreCountsEveryLoadAndNamesItsMisses) {
  const RegionScore score = score_regions(synthetic_space(), find_gpu("h200"));
  EXPECT_GT(score.loads, 0);
  EXPECT_EQ(score.hits + static_cast<int>(score.misses.size()), score.loads);
  for (const RegionMiss& miss : score.misses) EXPECT_GT(miss.loss, kRegionMargin);
}

}  // namespace
}  // namespace ramp
