// SPDX-License-Identifier: Apache-2.0
#include "choice/select.hpp"

#include <gtest/gtest.h>

#include <climits>
#include <map>

#include "base/error.hpp"
#include "problem/random.hpp"

namespace ramp {
namespace {

MenuEntry entry(int rows, Theta theta) { return {Grid{{{rows, 1, 4}}, 1}, theta}; }

// 8-row and 32-row tiles that cost the same a row: padding decides.
const std::vector<MenuEntry> kTwo = {entry(8, {1, 1, 0.1f, 0}), entry(32, {1, 2, 0.2f, 0})};

TEST(Select, CountsLocalExpertsAndSkipsTheRest) {
  const std::int32_t map[] = {-1, -1, 0, 1};  // this GPU holds experts 2 and 3
  const std::int32_t ids[] = {2, 3, 0, 2, -1, 3, 7, 2, -5, 1};
  const Selection s = select(ids, 2, map, 2, kTwo);
  EXPECT_EQ(s.load, (std::vector<int>{3, 2}));
  EXPECT_EQ(s.ids.local, 5);
  EXPECT_EQ(s.ids.foreign, 2);
  EXPECT_EQ(s.ids.padding, 1);
  EXPECT_EQ(s.ids.invalid, 2);
  EXPECT_EQ(s.ids.duplicates, 0);
}

TEST(Select, NoIdIsHarmful) {
  const std::int32_t map[] = {0, 1};
  const std::int32_t ids[] = {INT_MIN, INT_MAX, -2, 2, 1, 0};
  const Selection s = select(ids, 3, map, 2, kTwo);
  EXPECT_EQ(s.ids.invalid, 4);
  EXPECT_EQ(s.load, (std::vector<int>{1, 1}));
}

TEST(Select, AnIdThatATokenHasTwiceCountsTwiceAndIsReported) {
  const std::int32_t map[] = {0, 1};
  const std::int32_t ids[] = {1, 1, 0, 1};
  const Selection s = select(ids, 2, map, 2, kTwo);
  EXPECT_EQ(s.load, (std::vector<int>{1, 3}));
  EXPECT_EQ(s.ids.duplicates, 1);
}

// Section 2.3's two GPUs: the same tokens, another entry.
TEST(Select, FollowsTheSplitAndNotTheTokens) {
  const int balanced[] = {8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8};
  const int skewed[] = {30, 30, 30, 30, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0};
  const std::vector<MenuEntry> menu = {entry(8, {0, 0, 1, 0}), entry(32, {0, 0, 1.5f, 0})};
  EXPECT_EQ(select(balanced, menu).entry, 0);  // 16 tiles against 16 dearer ones
  EXPECT_EQ(select(skewed, menu).entry, 1);    // 24 against 12
  EXPECT_EQ(select(skewed, menu).predicted_us, (std::vector<float>{24, 18}));
}

TEST(Select, TiesGoToTheLowerIndex) {
  const int load[] = {5, 0};
  const std::vector<MenuEntry> menu = {entry(16, {3, 0, 0, 0}), entry(8, {2, 0, 0, 0}),
                                       entry(32, {2, 0, 0, 0})};
  EXPECT_EQ(select(load, menu).entry, 1);
}

TEST(Select, NoTokensIsALoadLikeAnyOther) {
  const std::int32_t map[] = {0, 1};
  const Selection s = select(std::span<const std::int32_t>{}, 8, map, 2, kTwo);
  EXPECT_EQ(s.load, (std::vector<int>{0, 0}));
  EXPECT_EQ(s.predicted_us, (std::vector<float>{1, 1}));
  EXPECT_EQ(s.entry, 0);
}

TEST(Select, AgreesWithACountByHandOnRandomRouting) {
  Random random(11);
  for (int trial = 0; trial < 200; ++trial) {
    const int experts = 1 + static_cast<int>(random.below(64)),
              local = 1 + static_cast<int>(random.below(experts));
    std::vector<std::int32_t> map(experts, -1), ids;
    for (int e = 0; e < local; ++e) map[experts - local + e] = e;
    const int tokens = static_cast<int>(random.below(40));
    for (int i = 0; i < tokens * 4; ++i)
      ids.push_back(static_cast<std::int32_t>(random.below(experts + 3)) - 2);
    std::map<int, int> by_hand;
    for (std::int32_t id : ids)
      if (id >= experts - local && id < experts) ++by_hand[id - (experts - local)];
    const Selection s = select(ids, 4, map, local, kTwo);
    for (int e = 0; e < local; ++e) EXPECT_EQ(s.load[e], by_hand[e]);
    EXPECT_EQ(s.ids.local + s.ids.foreign + s.ids.padding + s.ids.invalid,
              static_cast<long long>(ids.size()));
    EXPECT_EQ(select(s.load, kTwo).entry, s.entry);
  }
}

TEST(Select, RefusesWhatIsNotItsInput) {
  const std::int32_t map[] = {0, 1}, wrong_map[] = {0, 2}, ids[] = {0, 1, 1};
  const int negative[] = {1, -1};
  EXPECT_THROW(select(ids, 2, map, 2, kTwo), Error);
  EXPECT_THROW(select(ids, 0, map, 2, kTwo), Error);
  EXPECT_THROW(select(ids, 3, wrong_map, 2, kTwo), Error);
  EXPECT_THROW(select(ids, 3, map, 2, {}), Error);
  EXPECT_THROW(select(negative, kTwo), Error);
}

}  // namespace
}  // namespace ramp
