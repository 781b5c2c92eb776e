// SPDX-License-Identifier: Apache-2.0
#include "choice/menu.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.hpp"
#include "tests/choice/lessons.hpp"
#include "tests/choice/synthetic.hpp"

namespace ramp {
namespace {

// The passes' time when every GPU runs the best of `menu`.
double time_of(const Lesson& lesson, const std::vector<int>& menu) {
  double sum = 0;
  for (const LessonPass& pass : lesson.passes) {
    float slowest = 0;
    for (int load : pass.load_of_gpu) {
      if (load < 0) continue;
      float best = INFINITY;
      for (int c : menu) best = std::min(best, lesson.us[c][load]);
      slowest = std::max(slowest, best);
    }
    sum += slowest;
  }
  return sum;
}

TEST(GreedyMenu, ItsLossIsTheTimeOfItsPassesOverTheFullSpace) {
  const Lesson lesson = lesson_of(synthetic_space());
  const GreedyMenu menu = greedy_menu(lesson, {.objective = MenuObjective::kTime});
  const double full = time_of(lesson, lesson.learnable);
  for (size_t n = 1; n <= menu.candidates.size(); ++n) {
    const std::vector<int> first(menu.candidates.begin(), menu.candidates.begin() + n);
    EXPECT_NEAR(menu.loss[n - 1], time_of(lesson, first) / full - 1, 1e-5);
  }
}

TEST(GreedyMenu, EachStepIsTheBestOneOfItsClass) {
  const Lesson lesson = lesson_of(synthetic_space());
  const GreedyMenu menu = greedy_menu(lesson, {.objective = MenuObjective::kTime});
  std::vector<int> grown;
  for (int picked : menu.candidates) {
    std::vector<int> with = grown;
    with.push_back(picked);
    for (int c : lesson.learnable) {
      if (lesson.candidates[c].occupancy != menu.occupancy) continue;
      std::vector<int> other = grown;
      other.push_back(c);
      EXPECT_GE(time_of(lesson, other), time_of(lesson, with) * (1 - 1e-6));
    }
    grown = with;
  }
}

TEST(GreedyMenu, HasOneOccupancyClassAndTheBestOfThem) {
  const Lesson lesson = lesson_of(synthetic_space());
  const GreedyMenu best = greedy_menu(lesson, {.entries = 6, .least_gain = 0});
  for (const char* name : {"one", "two"}) {
    const GreedyMenu menu = greedy_menu(lesson, {.entries = 6, .occupancy = name, .least_gain = 0});
    for (int c : menu.candidates) EXPECT_EQ(lesson.candidates[c].occupancy, name);
    EXPECT_GE(menu.loss.back(), best.loss.back());
  }
}

TEST(GreedyMenu, LossFallsWithEveryEntryAndStopsWhenNothingHelps) {
  const Lesson lesson = lesson_of(synthetic_space());
  const GreedyMenu menu = greedy_menu(lesson, {.entries = kMaxMenuEntries, .least_gain = 0});
  for (size_t n = 1; n < menu.loss.size(); ++n) EXPECT_LT(menu.loss[n], menu.loss[n - 1]);
  EXPECT_EQ(std::set<int>(menu.candidates.begin(), menu.candidates.end()).size(),
            menu.candidates.size());
  EXPECT_LE(menu.candidates.size(), 8u);  // one class of the sixteen
}

// An entry that the campaign finds a little faster makes the kernel slower by more.
TEST(GreedyMenu, AnEntryMustBringWhatIsAskedOfIt) {
  const Lesson lesson = lesson_of(synthetic_space());
  for (const MenuObjective objective : {MenuObjective::kTime, MenuObjective::kRelative}) {
    const GreedyMenu any =
        greedy_menu(lesson, {.entries = kMaxMenuEntries, .objective = objective, .least_gain = 0});
    for (const double least : {0.002, 0.01, 0.05}) {
      const GreedyMenu menu = greedy_menu(
          lesson, {.entries = kMaxMenuEntries, .objective = objective, .least_gain = least});
      ASSERT_LE(menu.candidates.size(), any.candidates.size());
      const auto gain = [&](size_t n) { return 1 - (1 + any.loss[n]) / (1 + any.loss[n - 1]); };
      for (size_t n = 1; n < menu.candidates.size(); ++n) EXPECT_GE(gain(n), least - 1e-9);
      if (menu.occupancy == any.occupancy && menu.candidates.size() < any.candidates.size()) {
        EXPECT_LT(gain(menu.candidates.size()), least);
      }
    }
  }
}

// A menu asks for as many weights ahead as the least of its entries can: one that would make the
// others start much later stands in no menu with them, and one that is little behind may.
TEST(GreedyMenu, AnEntryThatAsksForLittleAheadMakesTheOthersStartLate) {
  Lesson lesson = lesson_of(synthetic_space());
  const GreedyMenu any = greedy_menu(lesson, {.entries = 4, .least_gain = 0});
  ASSERT_GE(any.candidates.size(), 2u);
  const int shallow = any.candidates[1];
  for (Candidate& c : lesson.candidates) c.ahead_us = 6;
  lesson.candidates[shallow].ahead_us = 0;
  const auto with = [&](bool counts) {
    const std::vector<int> menu =
        greedy_menu(lesson, {.entries = 4, .least_gain = 0, .counts_company = counts}).candidates;
    return std::count(menu.begin(), menu.end(), shallow);
  };
  EXPECT_EQ(with(false), 1);
  EXPECT_EQ(with(true), 0);
  lesson.candidates[shallow].ahead_us = 5.999f;
  EXPECT_EQ(with(true), 1);
}

// Where the others' code costs more than they bring, one entry is the menu.
TEST(GreedyMenu, OneAloneIsBestWhereCompanyCostsMoreThanItBrings) {
  Lesson lesson = lesson_of(synthetic_space());
  const auto menu = [&](bool counts) {
    return greedy_menu(lesson, {.entries = 4, .least_gain = 0, .counts_company = counts});
  };
  const GreedyMenu one = greedy_menu(lesson, {.entries = 1}), any = menu(false);
  ASSERT_GE(any.candidates.size(), 2u);
  for (Candidate& c : lesson.candidates) c.company_us = 1000;
  EXPECT_EQ(menu(true).candidates, one.candidates);
  EXPECT_EQ(menu(true).loss, one.loss) << "alone it costs nothing";
  EXPECT_EQ(menu(false).candidates, any.candidates);
  for (Candidate& c : lesson.candidates) c.company_us = 0.001f;
  EXPECT_EQ(menu(true).candidates, any.candidates);
}

TEST(GreedyMenu, RelativeWeighsEveryPassAlike) {
  const Lesson lesson = lesson_of(synthetic_space());
  const GreedyMenu menu =
      greedy_menu(lesson, {.entries = 2, .occupancy = "", .objective = MenuObjective::kRelative});
  double logs = 0;
  for (const LessonPass& pass : lesson.passes) {
    float full = 0, chosen = 0;
    for (int load : pass.load_of_gpu) {
      if (load < 0) continue;
      float all = INFINITY, two = INFINITY;
      for (int c : lesson.learnable) all = std::min(all, lesson.us[c][load]);
      for (int c : menu.candidates) two = std::min(two, lesson.us[c][load]);
      full = std::max(full, all), chosen = std::max(chosen, two);
    }
    logs += std::log(chosen / full);
  }
  EXPECT_NEAR(menu.loss.back(), std::exp(logs / lesson.passes.size()) - 1, 1e-5);
}

TEST(GreedyMenu, PrefersWhatServesEveryPass) {
  MeasuredSpace space = synthetic_space();
  // A wonder that was never timed on the largest loads.
  for (size_t l = 0; l < space.loads.size(); ++l)
    if (pairs_of(space.loads[l]) > 600)
      space.samples[0][l].clear();
    else
      space.samples[0][l].assign(4, 0.5f);
  const Lesson lesson = lesson_of(space);
  const GreedyMenu menu = greedy_menu(lesson, {.entries = 3, .least_gain = 0});
  EXPECT_NE(menu.candidates[0], 0);
  EXPECT_EQ(menu.candidates[1], 0);
  EXPECT_TRUE(std::isfinite(menu.loss.back()));
}

// Passes' time when each runs the best entry of the menu of its size.
double time_of(const Lesson& lesson, const std::vector<SizedMenu>& menus) {
  double sum = 0;
  int above = -1;
  for (const SizedMenu& sized : menus) {
    Lesson part = lesson;
    std::erase_if(part.passes, [&](const LessonPass& pass) {
      return pass.tokens <= above || pass.tokens > sized.up_to;
    });
    sum += time_of(part, sized.menu.candidates);
    above = sized.up_to;
  }
  return sum;
}

TEST(MenusBySize, PartThePassesWhereTheClassesPart) {
  const Lesson lesson =
      lesson_of(synthetic_space({}, [](const Candidate& c, const std::vector<int>& load) {
        return eq3_time(c, load) * ((pairs_of(load) < 64) == (c.occupancy == "two") ? 1 : 1.5);
      }));
  for (const MenuObjective objective : {MenuObjective::kTime, MenuObjective::kRelative}) {
    const std::vector<SizedMenu> menus =
        menus_by_size(lesson, {.entries = 4, .objective = objective, .menus = 2});
    ASSERT_EQ(menus.size(), 2u);
    EXPECT_EQ(menus[0].menu.occupancy, "two");
    EXPECT_EQ(menus[1].menu.occupancy, "one");
    EXPECT_GE(menus[0].up_to, 16);   // 16 pairs a GPU
    EXPECT_LE(menus[0].up_to, 100);  // 100
    EXPECT_EQ(menus[1].up_to, SizedMenu::kAnySize);
    // As many as there may be: the class changes once all the same.
    const std::vector<SizedMenu> more =
        menus_by_size(lesson, {.entries = 4, .objective = objective});
    int changes = 0;
    for (std::size_t i = 1; i < more.size(); ++i)
      changes += more[i].menu.occupancy != more[i - 1].menu.occupancy;
    EXPECT_EQ(changes, 1);
  }
}

// No training pass is of 49 to 1,023 tokens, and the classes part at 600, which only uniform draws
// show.
TEST(MenusBySize, UniformDrawsServeRangesWithoutTrainingPasses) {
  SyntheticOptions gap;
  gap.sizes = {4, 48, 1024};
  const MeasuredSpace space =
      synthetic_space(gap, [](const Candidate& c, const std::vector<int>& load) {
        return eq3_time(c, load) * ((pairs_of(load) < 600) == (c.occupancy == "two") ? 1 : 1.5);
      });
  const MenuOptions two{.menus = 2};
  const std::vector<SizedMenu> trained = menus_by_size(lesson_of(space), two),
                               drawn = menus_by_size(make_lesson_of_all_sizes(space), two);
  ASSERT_EQ(trained.size(), 2u);
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_LT(trained[0].up_to, 256) << "half way by ratio";
  EXPECT_GE(drawn[0].up_to, 256);
  EXPECT_LT(drawn[0].up_to, 1024);
}

// Passes of 400 and 1,600 tokens were measured; from 1,300 pairs on the other class is faster.
TEST(MenusBySize, PartBetweenTheSizesThatWereMeasured) {
  SyntheticOptions few;
  few.sizes = {4, 400, 1600};
  few.skew = 0;
  const Lesson lesson =
      lesson_of(synthetic_space(few, [](const Candidate& c, const std::vector<int>& load) {
        const Features f = features(c.grid, load.data(), static_cast<int>(load.size()));
        const double pairs =
            static_cast<double>(f.tiles) * c.grid.phase[0].rows / c.grid.phase[0].col_tiles;
        return c.occupancy == "two" ? 5 + 0.02 * pairs : 18 + 0.01 * pairs;
      }));
  const std::vector<SizedMenu> menus = menus_by_size(lesson, {.menus = 2});
  ASSERT_EQ(menus.size(), 2u);
  EXPECT_EQ(menus[0].menu.occupancy, "two");
  EXPECT_EQ(menus[1].menu.occupancy, "one");
  EXPECT_GT(menus[0].up_to, 1000) << "800 is half way by ratio";
  EXPECT_LT(menus[0].up_to, 1600);
}

TEST(MenusBySize, AreFasterThanOneOrAreOne) {
  const Lesson lesson = lesson_of(synthetic_space());
  double before = time_of(lesson, greedy_menu(lesson, {.entries = 2}).candidates);
  for (int most = 1; most <= kMostMenus; ++most) {
    const std::vector<SizedMenu> menus =
        menus_by_size(lesson, {.entries = 2, .occupancy = "", .menus = most});
    EXPECT_LE(menus.size(), static_cast<size_t>(most));
    const double now = time_of(lesson, menus);
    // By a little they may be slower on these: they grew on passes of sizes near theirs too.
    EXPECT_LE(now, before * 1.005);
    before = now;
  }
  SyntheticOptions one_size;
  one_size.sizes = {64};
  EXPECT_EQ(menus_by_size(lesson_of(synthetic_space(one_size)), {}).size(), 1u);
}

// A pass of one token stands for three (one, one, two), one of 1,024 for five.
TEST(MenusBySize, NeedPassesToGrowOn) {
  static_assert(kLeastPasses == 5);
  SyntheticOptions few;
  few.sizes = {1, 1024};
  for (const auto& [passes, menus] : {std::pair(2, 1u), std::pair(4, 2u)}) {
    few.train_passes = passes;
    EXPECT_EQ(menus_by_size(lesson_of(synthetic_space(few)), {}).size(), menus);
  }
}

TEST(MenusBySize, RefuseWhatIsNoNumberOfMenus) {
  const Lesson lesson = lesson_of(synthetic_space());
  for (int menus : {0, kMostMenus + 1})
    EXPECT_THROW(menus_by_size(lesson, {.entries = 6, .occupancy = "", .menus = menus}), Error);
}

TEST(GreedyMenu, RefusesWhatItCannotDo) {
  const Lesson lesson = lesson_of(synthetic_space());
  EXPECT_THROW(greedy_menu(lesson, {.entries = 0}), Error);
  EXPECT_THROW(greedy_menu(lesson, {.entries = 17}), Error);
  EXPECT_THROW(greedy_menu(lesson, {.entries = 6, .occupancy = "three"}), Error);
  EXPECT_THROW(greedy_menu(Lesson{}, {}), Error);
}

}  // namespace
}  // namespace ramp
