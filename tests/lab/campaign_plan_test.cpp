// SPDX-License-Identifier: Apache-2.0
#include "lab/campaign_plan.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <set>

#include "tests/lab/measured_example.hpp"

namespace ramp {
namespace {

int pairs(const std::vector<int>& load) { return std::accumulate(load.begin(), load.end(), 0); }

TEST(CampaignPlan, AnchorsSpanAllSizes) {
  const Workload workload = example_workload(200);
  const std::vector<int> anchors = choose_anchors(workload, {.anchors = 9});
  EXPECT_EQ(anchors.size(), 9u);
  EXPECT_EQ(std::set<int>(anchors.begin(), anchors.end()).size(), 9u);
  int smallest = 1 << 30, largest = 0, least = 1 << 30, most = 0;
  for (const auto& load : workload.loads)
    smallest = std::min(smallest, pairs(load)), largest = std::max(largest, pairs(load));
  for (int a : anchors)
    least = std::min(least, pairs(workload.loads[a])),
    most = std::max(most, pairs(workload.loads[a]));
  EXPECT_EQ(least, smallest);
  EXPECT_EQ(most, largest);
}

TEST(CampaignPlan, AnchorsOfOneSizeDifferInSkew) {
  Workload workload = example_workload(1);
  workload.loads.clear();
  for (int i = 0; i < 60; ++i)
    workload.loads.push_back({8 + i % 3, 8 - i % 3, 8, 8, 8, 8, 8, 8});  // balanced
  workload.loads.push_back({64, 0, 0, 0, 0, 0, 0, 0});
  const std::vector<int> anchors = choose_anchors(workload, {.anchors = 6});
  EXPECT_TRUE(std::count(anchors.begin(), anchors.end(), 60)) << "the one skewed load is an anchor";
}

TEST(CampaignPlan, FewLoadsAreAllAnchors) {
  const Workload workload = example_workload(3);
  EXPECT_EQ(choose_anchors(workload, {.anchors = 50}).size(), workload.loads.size());
}

TEST(CampaignPlan, EveryLoadIsOrderedOnce) {
  Workload workload = example_workload(300);
  workload.loads.push_back({9999, 0, 0, 0, 0, 0, 0, 0});  // of no pass
  const std::vector<int> order = order_loads(workload);
  EXPECT_EQ(order.size(), workload.loads.size());
  EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), workload.loads.size());
}

TEST(CampaignPlan, AnyPrefixHasWholePassesOfEveryRoleAndSpreadOverSizes) {
  Workload workload = example_workload(300);
  for (std::size_t p = 0; p < workload.passes.size(); p += 10)
    workload.passes[p].role = Role::kUniform;
  const std::vector<int> order = order_loads(workload);
  const std::size_t cut = order.size() / 5;
  const std::set<int> measured(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(cut));
  int whole[3] = {0, 0, 0};
  std::size_t covered = 0;
  int largest = 0;
  for (const MeasuredPass& pass : workload.passes) {
    bool is_whole = true;
    for (int load : pass.load_of_gpu) is_whole = is_whole && (load < 0 || measured.count(load));
    if (is_whole)
      ++whole[static_cast<int>(pass.role)], covered += pass.load_of_gpu.size(),
          largest = std::max(largest, pass.tokens);
  }
  for (int n : whole) EXPECT_GE(n, 5);
  EXPECT_EQ(largest, 256);      // the largest passes are in it
  EXPECT_GE(covered + 2, cut);  // at most one pass is cut through
}

TEST(CampaignPlan, TheOrderIsAFunctionOfTheTraffic) {
  EXPECT_EQ(order_loads(example_workload(100)), order_loads(example_workload(100)));
  EXPECT_EQ(choose_anchors(example_workload(100), {}), choose_anchors(example_workload(100), {}));
}

TEST(CampaignPlan, ThousandsOfPassesAreOrderedInReasonableTime) {
  Workload workload = example_workload(1);
  workload.loads.clear();
  workload.passes.clear();
  for (int i = 0; i < 20'000; ++i) {
    workload.loads.push_back({i + 1, i % 7, 0, 0, 0, 0, 0, 0});
    workload.passes.push_back(
        {.tokens = i, .role = i % 2 ? Role::kTest : Role::kTrain, .load_of_gpu = {i, -1}});
  }
  EXPECT_EQ(order_loads(workload).size(), 20'000u);
}

TEST(CampaignPlan, ContendersAreThoseNearTheBestSomewhere) {
  const float none = std::numeric_limits<float>::infinity();
  const std::vector<bool> is = choose_contenders(
      {{10, 100, 50}, {11, 90, 50}, {12, 80, none}, {20, 200, 99}, {none, none, none}}, 0.05);
  EXPECT_EQ(is, (std::vector<bool>{true, true, true, false, false}));
  EXPECT_EQ(choose_contenders({{10, 100}, {11, 90}, {13, 80}}, 0.0),
            (std::vector<bool>{true, false, true}));
}

TEST(CampaignPlan, TheRandomShareIsItsShareAndStays) {
  PlanOptions options{.random_share = 0.1};
  int drawn = 0, again = 0, other_seed = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::vector<int> load = {i, 1, 0, 0};
    const bool is = is_drawn("a", load, options);
    drawn += is;
    again += is == is_drawn("a", load, options);
    other_seed += is && is_drawn("a", load, {.random_share = 0.1, .seed = 2});
  }
  EXPECT_NEAR(drawn, 500, 70);
  EXPECT_EQ(again, 5000);
  EXPECT_LT(other_seed, 100);
  options.random_share = 0;
  EXPECT_FALSE(is_drawn("a", {1}, options));
}

}  // namespace
}  // namespace ramp
