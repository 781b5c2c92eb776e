// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/winners.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lab/paper/claims.hpp"
#include "tests/choice/synthetic.hpp"

namespace ramp {
namespace {

constexpr float kUntimed = std::numeric_limits<float>::infinity();

TEST(Winners, CountsThoseThatAPassNeeds) {
  // Three candidates on four loads.
  const TimeTable us = {{10, 20, 30, 40}, {11, 19, 31, 39}, {20, 20, 20.2f, 40}};
  const std::vector<int> all = {0, 1, 2, 3};
  EXPECT_EQ(winners_of(us, all, 0), 3);
  EXPECT_EQ(winners_of(us, std::vector<int>{1, 3}, 0), 1);
  EXPECT_EQ(winners_of(us, all, 0.1), 2);  // the second serves all but the third load
  EXPECT_EQ(winners_of(us, all, 1.0), 1);
}

TEST(Winners, ATieServesBothAndAnUntimedLoadHasNone) {
  const TimeTable us = {{10, 20, kUntimed}, {10, 21, kUntimed}};
  EXPECT_EQ(winners_of(us, std::vector<int>{0, 1}, 0), 1);
  EXPECT_EQ(winners_of(us, std::vector<int>{0, 2}, 0), 0);
}

TEST(Winners, OneConfigurationThatIsAlwaysFastestNeedsNoOther) {
  const MeasuredSpace space =
      synthetic_space({}, [](const Candidate& c, const std::vector<int>& load) {
        return (c.label == "r16-q4-s132" ? 1.0 : 2.0) * (5.0 + load[0]);
      });
  const WinnerCount count = count_winners(space, 128);
  ASSERT_FALSE(count.exact.empty());
  EXPECT_EQ(count.one_exact, 1);
  EXPECT_EQ(*std::max_element(count.exact.begin(), count.exact.end()), 1);
}

TEST(Winners, SkewMakesGpusOfOnePassWantDifferentOnes) {
  const WinnerCount even = count_winners(synthetic_space({.skew = 0}), 128),
                    skewed = count_winners(synthetic_space({.skew = 2}), 128);
  const auto mean = [](const std::vector<double>& v) {
    return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
  };
  EXPECT_GT(mean(skewed.exact), mean(even.exact));
  EXPECT_LE(mean(skewed.close), mean(skewed.exact));
}

TEST(SmallTiles, CostOnLargePassesWhatTheyWerePlantedToCost) {
  // A tile of 8 rows takes one unit under 100 pairs and three above; every other takes two.
  const MeasuredSpace space =
      synthetic_space({}, [](const Candidate& c, const std::vector<int>& load) {
        const int pairs = std::accumulate(load.begin(), load.end(), 0);
        return c.grid.phase[0].rows == 8 ? (pairs < 100 ? 1.0 : 3.0) : 2.0;
      });
  EXPECT_NEAR(small_tiles_on_large(space, 32, 512), 1.5, 1e-6);
  EXPECT_TRUE(std::isnan(small_tiles_on_large(space, 32, 100'000)));
}

TEST(WinningRows, AreThoseOfTheFastest) {
  const MeasuredSpace space = synthetic_space();
  const TimeTable us = {{9, 1}, {8, 2}, {7, 3}, {6, 4}};  // candidates 0 to 3 are of 8 rows
  EXPECT_EQ(winning_rows(space, us, std::vector<int>{0, 1}), (std::vector<int>{8, 8}));
}

TEST(Spanning, IsARangeOrOneValueOrNothing) {
  EXPECT_FALSE(spanning({}).is_known());
  EXPECT_DOUBLE_EQ(spanning({2}).value, 2);
  const Number range = spanning({3, 1, NAN, 2});
  EXPECT_TRUE(std::isnan(range.value));
  EXPECT_DOUBLE_EQ(range.low, 1);
  EXPECT_DOUBLE_EQ(range.high, 3);
}

}  // namespace
}  // namespace ramp
