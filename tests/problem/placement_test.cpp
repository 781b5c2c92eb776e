// SPDX-License-Identifier: Apache-2.0
#include "problem/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "problem/imbalance.hpp"
#include "problem/load.hpp"
#include "tests/problem/small_trace.hpp"

namespace ramp {
namespace {

Layout replicated(const std::vector<double>& loads, int gpus, const ReplicaOptions& options) {
  return with_replicas(parse_layout("ep" + std::to_string(gpus)), {loads}, options);
}

// By hand: loads 90, 40, 20, 10 on two GPUs of three slots.  The two replicas more go to expert 0
// (90), then to expert 0 again (45 > 40): 30, 30, 30, 40, 20, 10.  Packed: 40 | 30, then 30 onto
// the second again would be twice expert 0, so onto the first: 70 | 30; ...
TEST(Replicas, GoToTheHottestExpertAndApart) {
  const std::vector<int> slots =
      replicated_placement(std::vector<double>{90, 40, 20, 10}, 2, {.redundant = 2});
  ASSERT_EQ(slots.size(), 6u);
  EXPECT_EQ(std::count(slots.begin(), slots.end(), 0), 3);
  for (const int e : {1, 2, 3}) EXPECT_EQ(std::count(slots.begin(), slots.end(), e), 1) << e;
  for (int gpu = 0; gpu < 2; ++gpu)
    EXPECT_GE(std::count(slots.begin() + 3 * gpu, slots.begin() + 3 * gpu + 3, 0), 1) << gpu;
}

TEST(Replicas, WithoutAnyItIsTheBalancedPlacement) {
  const std::vector<double> loads = {10, 9, 1, 1, 5, 3, 8, 2};
  const std::vector<int> slots = replicated_placement(loads, 4, {});
  const std::vector<int> gpu_of = balanced_placement(loads, 4);
  for (std::size_t p = 0; p < slots.size(); ++p)
    EXPECT_EQ(gpu_of[slots[p]], static_cast<int>(p / 2));
}

TEST(Replicas, EveryExpertHasASlotAndLoadsOfTheSplitAddUp) {
  Random random(8);
  for (int trial = 0; trial < 100; ++trial) {
    const int gpus = 1 + static_cast<int>(random.below(8));
    const int experts = gpus * (1 + static_cast<int>(random.below(6)));
    const int redundant = gpus * static_cast<int>(random.below(3));
    std::vector<double> loads(experts);
    ExpertLoad counts(experts);
    for (int e = 0; e < experts; ++e) {
      loads[e] = std::exp(1.5 * random.normal());
      counts[e] = static_cast<int>(random.below(50));
    }
    const Layout layout = replicated(loads, gpus, {.redundant = redundant});
    EXPECT_NO_THROW(check_layout({experts, 1, 128, 128}, layout));
    const std::vector<ExpertLoad> split = split_load(counts, layout, 3);
    ExpertLoad sum(experts, 0);
    for (int gpu = 0; gpu < gpus; ++gpu) {
      const std::vector<int> mine = local_experts(layout, experts, gpu);
      ASSERT_EQ(mine.size(), split[gpu].size());
      ASSERT_LE(static_cast<int>(mine.size()) * gpus, experts + redundant);
      for (std::size_t i = 0; i < mine.size(); ++i) sum[mine[i]] += split[gpu][i];
    }
    ASSERT_EQ(sum, counts);
  }
}

TEST(Replicas, HalveAHotExpertsShare) {
  // Expert 0 has half of everything: no placement of whole experts gets below 2, replicas do.
  const std::vector<double> loads = {700, 100, 100, 100, 100, 100, 100, 100};
  const ExpertLoad counts = {700, 100, 100, 100, 100, 100, 100, 100};
  const Layout balanced = with_balanced_placement(parse_layout("ep4"), {loads});
  EXPECT_NEAR(imbalance_of(split_load(counts, balanced)), 800.0 / 350, 1e-9);
  const Layout hot = replicated(loads, 4, {.redundant = 4});
  // Five replicas of 140 on four GPUs: one GPU has two of them, 380 of a mean of 350.
  EXPECT_NEAR(imbalance_of(split_load(counts, hot)), 380.0 / 350, 1e-9);
}

TEST(Replicas, AnOddTokenDoesNotAlwaysFallOnTheFirstGpu) {
  // Eight experts, one replica each on both GPUs: 8 experts of one token spread 4 and 4.
  const Layout layout = replicated(std::vector<double>(8, 1.0), 2, {.redundant = 8});
  const std::vector<ExpertLoad> split = split_load(ExpertLoad(8, 1), layout);
  EXPECT_EQ(pairs_of(split[0]), 4);
  EXPECT_EQ(pairs_of(split[1]), 4);
}

// Group-limited routing: a group's experts stay on one node, replicas too.
TEST(Replicas, HierarchicalKeepsGroupsInsideANode) {
  Random random(3);
  std::vector<double> loads(32);
  for (double& load : loads) load = std::exp(random.normal());
  const std::vector<int> slots =
      replicated_placement(loads, 8, {.redundant = 8, .nodes = 2, .groups = 4});
  ASSERT_EQ(slots.size(), 40u);
  std::vector<int> node_of_group(4, -1);
  for (std::size_t p = 0; p < slots.size(); ++p) {
    int& node = node_of_group[slots[p] / 8];
    if (node < 0) node = static_cast<int>(p / 20);
    EXPECT_EQ(node, static_cast<int>(p / 20)) << "expert " << slots[p];
  }
  EXPECT_EQ(std::count(node_of_group.begin(), node_of_group.end(), 0), 2);
}

TEST(Replicas, RefuseWhatDoesNotFit) {
  const std::vector<double> loads(8, 1.0);
  EXPECT_THROW(replicated_placement(loads, 3, {.redundant = 0}), Error);
  EXPECT_THROW(replicated_placement(loads, 4, {.redundant = 3}), Error);
  EXPECT_THROW(replicated_placement(loads, 4, {.redundant = -4}), Error);
  EXPECT_THROW(replicated_placement(loads, 4, {.redundant = 4, .nodes = 3}), Error);
  EXPECT_THROW(with_replicas(parse_layout("tp4"), {loads}, {}), Error);
  const Layout layout = replicated(loads, 4, {.redundant = 4});
  const std::string error = error_of([&] { gpu_of_experts(layout, 8); });
  EXPECT_NE(error.find("without replicas"), std::string::npos) << error;
}

TEST(PlacementFile, ComesBackAsItWasWritten) {
  const std::vector<double> loads = {10, 9, 1, 1, 5, 3, 8, 2};
  const Layout hot = replicated(loads, 4, {.redundant = 4});
  EXPECT_EQ(with_placement_json(parse_layout("ep4"), 8, placement_json(hot), "x").replicas,
            hot.replicas);
  const Layout balanced = with_balanced_placement(parse_layout("ep4"), {loads, loads});
  EXPECT_EQ(with_placement_json(parse_layout("ep4"), 8, placement_json(balanced), "x").placement,
            balanced.placement);
  for (const char* bad :
       {R"({"physical_to_logical_map":[0,1,2]})", R"({"physical_to_logical_map":[0,1,2,3,3]})",
        R"({"physical_to_logical_map":[[0,1,2,4,0,0]]})", R"({"physical_to_logical_map":[[]]})",
        R"({"physical_to_logical_map":[0,1,2,-1]})"})
    EXPECT_THROW(with_placement_json(parse_layout("ep2"), 4, bad, "bad"), Error) << bad;
  // Every expert needs a slot.
  EXPECT_THROW(check_layout({4, 1, 128, 128},
                            with_placement_json(parse_layout("ep2"), 4,
                                                R"({"physical_to_logical_map":[0,1,2,2]})", "x")),
               Error);
}

}  // namespace
}  // namespace ramp
