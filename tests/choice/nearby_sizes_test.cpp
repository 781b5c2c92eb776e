// SPDX-License-Identifier: Apache-2.0
#include "choice/nearby_sizes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/choice/lessons.hpp"
#include "tests/choice/synthetic.hpp"

namespace ramp {
namespace {

int pairs(const std::vector<int>& load) { return std::accumulate(load.begin(), load.end(), 0); }

// Where Eq. 3 is the truth, a time carried over is the time of the load it was carried to, but for
// a few that are larger than what theta was told apart on.
TEST(NearbySizes, TimesAreThoseOfTheNearbyLoads) {
  const Lesson lesson = lesson_of(synthetic_space());
  const KnownTimes nearby = with_nearby_sizes(known_times(lesson), lesson);
  ASSERT_GT(nearby.lesson.loads.size(), 4 * lesson.loads.size());
  size_t off = 0;
  for (size_t c = 0; c < nearby.lesson.us.size(); ++c)
    for (size_t l = 0; l < nearby.lesson.loads.size(); ++l) {
      const double us = eq3_time(lesson.candidates[c], nearby.lesson.loads[l]);
      off += !(std::abs(nearby.lesson.us[c][l] / us - 1) < 2e-3);
    }
  EXPECT_LT(off, nearby.lesson.loads.size() * nearby.lesson.us.size() / 1000);
}

TEST(NearbySizes, ThePassesThemselvesStayAndTheOthersAreOfHalfToTwice) {
  SyntheticOptions one_size;
  one_size.sizes = {512};
  one_size.train_passes = 20;
  const Lesson lesson = lesson_of(synthetic_space(one_size));
  const KnownTimes times = known_times(lesson), nearby = with_nearby_sizes(times, lesson);
  ASSERT_EQ(nearby.passes.size(), 5 * times.passes.size());
  std::map<int, int> passes;
  std::map<int, double> mean_pairs;
  for (const KnownPass& pass : nearby.passes) {
    ++passes[pass.tokens];
    for (int load : pass.loads)
      mean_pairs[pass.tokens] += pairs(nearby.lesson.loads[load]) / (20.0 * one_size.gpus);
  }
  for (const int tokens : {256, 362, 512, 724, 1024}) {
    EXPECT_EQ(passes[tokens], 20) << tokens;
    // 64 experts, top 8, 8 GPUs: a pair a token.
    EXPECT_NEAR(mean_pairs[tokens] / tokens, 1, 0.02) << tokens;
  }
  EXPECT_TRUE(std::is_sorted(nearby.passes.begin(), nearby.passes.end(),
                             [](const auto& a, const auto& b) { return a.tokens < b.tokens; }));
  for (size_t c = 0; c < lesson.us.size(); ++c)
    for (size_t l = 0; l < lesson.loads.size(); ++l)
      EXPECT_EQ(nearby.lesson.us[c][l], lesson.us[c][l]) << "a measured time is left alone";
}

TEST(NearbySizes, WhatIsUntimedHereIsUntimedNearby) {
  MeasuredSpace space = synthetic_space();
  for (auto& samples : space.samples[3]) samples.clear();
  const Lesson lesson = lesson_of(space);
  const KnownTimes nearby = with_nearby_sizes(known_times(lesson), lesson);
  for (const float us : nearby.lesson.us[3]) EXPECT_FALSE(is_time(us));
  for (const float us : nearby.lesson.us[4]) EXPECT_TRUE(is_time(us));
}

TEST(NearbySizes, TheSameLessonGivesTheSamePasses) {
  const Lesson lesson = lesson_of(synthetic_space());
  const KnownTimes times = known_times(lesson), one = with_nearby_sizes(times, lesson),
                   two = with_nearby_sizes(times, lesson);
  EXPECT_EQ(one.lesson.loads, two.lesson.loads);
  EXPECT_EQ(one.lesson.us, two.lesson.us);
}

}  // namespace
}  // namespace ramp
