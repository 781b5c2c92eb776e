// SPDX-License-Identifier: Apache-2.0
#include "choice/plan_diff.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/error.hpp"
#include "choice/tune.hpp"
#include "tests/choice/synthetic.hpp"

namespace ramp {
namespace {

Plan layer(const char* layout, int gpus, int experts) {
  Plan plan;
  plan.layout = layout;
  plan.gpus = gpus;
  plan.shape = {experts, 8, 2048, 1024};
  return plan;
}

TEST(ProbeLoads, AreLoadsThatAPassCanBring) {
  for (const Plan& plan : {layer("ep8", 8, 8), layer("tp2", 2, 64), layer("ep32", 32, 1)}) {
    const auto loads = probe_loads(plan);
    EXPECT_EQ(std::set(loads.begin(), loads.end()).size(), loads.size());
    long long most = 0;
    for (const auto& load : loads) {
      ASSERT_EQ(load.size(), static_cast<size_t>(plan.shape.experts));
      EXPECT_TRUE(std::is_sorted(load.rbegin(), load.rend()));
      EXPECT_GE(load.back(), 0);
      EXPECT_LE(load.front(), 4096);  // an expert gets a token once
      EXPECT_GT(pairs_of(load), 0);
      most = std::max(most, pairs_of(load));
    }
    // The largest batch: under TP every GPU gets every pair, under EP its share.
    const long long share = 4096 * 8 / (plan.layout[0] == 't' ? 1 : plan.gpus);
    EXPECT_EQ(most, std::min(share, 4096LL * plan.shape.experts)) << plan.layout;
  }
}

TEST(PlanDiff, FindsNothingInOnePlanAndRefusesLoadsOfAnotherLayer) {
  const MeasuredSpace space = synthetic_space();
  const Plan plan = tune_from(space, {});
  const PlanDiff none = diff_plans(plan, plan, space.loads);
  EXPECT_TRUE(none.same());
  EXPECT_TRUE(none.choices.empty());
  EXPECT_EQ(none.loads, static_cast<int>(space.loads.size()));
  EXPECT_DOUBLE_EQ(none.predicted, 1);
  EXPECT_THROW(diff_plans(plan, plan, {{1, 2, 3}}), Error);
}

TEST(PlanDiff, AnEntryThatOnlyMovedIsNeitherAddedNorRemoved) {
  const Plan a = tune_from(synthetic_space({.skew = 1.6}), {.menus = 1});
  ASSERT_GE(a.menu.size(), 2u);
  Plan b = a;
  std::swap(b.menu[0], b.menu[1]);
  const PlanDiff diff = diff_plans(a, b, probe_loads(a));
  ASSERT_EQ(diff.entries.size(), 2u);
  for (const EntryChange& change : diff.entries) {
    EXPECT_EQ(change.a + change.b, 1);
    EXPECT_FALSE(change.other_knobs);
  }
  // The same configurations at the same prices: only a tie could fall otherwise.
  EXPECT_TRUE(diff.choices.empty());
  EXPECT_DOUBLE_EQ(diff.predicted, 1);
}

}  // namespace
}  // namespace ramp
