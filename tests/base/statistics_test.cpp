// SPDX-License-Identifier: Apache-2.0
#include "base/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace ramp {
namespace {

TEST(Statistics, MedianOfOddEvenAndNothing) {
  EXPECT_EQ(median<double>({3, 1, 2}), 2);
  EXPECT_EQ(median<float>({4, 1, 3, 2}), 2.5f);
  EXPECT_TRUE(std::isnan(median<double>({})));
}

TEST(Statistics, QuantilesLieLinearlyBetweenNeighbours) {
  // NumPy: numpy.quantile([10, 20, 40], [0, .25, .5, .9, 1]).
  const std::vector<double> values = {40, 10, 20};
  for (const auto& [q, want] :
       {std::pair{0.0, 10.0}, {0.25, 15.0}, {0.5, 20.0}, {0.9, 36.0}, {1.0, 40.0}})
    EXPECT_DOUBLE_EQ(quantile(values, q), want) << q;
  EXPECT_TRUE(std::isnan(quantile<float>({}, 0.5)));
}

TEST(Statistics, SpreadIsTheInterquartileRangeOverTheMedian) {
  EXPECT_DOUBLE_EQ(relative_spread<float>({5, 1, 2, 4, 3}), 2.0 / 3);
  EXPECT_EQ(relative_spread<double>({7}), 0);
  EXPECT_TRUE(std::isnan(relative_spread<double>({})));
}

}  // namespace
}  // namespace ramp
