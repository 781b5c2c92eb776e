// SPDX-License-Identifier: Apache-2.0
#include "problem/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "problem/catalog.hpp"
#include "problem/placement.hpp"
#include "problem/random.hpp"
#include "tests/problem/small_trace.hpp"

namespace ramp {
namespace {

TEST(Layout, ReadsItsNames) {
  EXPECT_EQ(parse_layout("ep8").gpus, 8);
  EXPECT_TRUE(parse_layout("EP16").is_expert_parallel());
  EXPECT_FALSE(parse_layout("tp2").is_expert_parallel());
  EXPECT_EQ(parse_layout("tp2").name(), "tp2");
  for (const char* bad :
       {"", "ep", "ep0", "ep-1", "xp8", "ep8x", "8", "ep99999", "tp4097", "ep 8", "ep+8"})
    EXPECT_THROW(parse_layout(bad), Error) << bad;
}

// vLLM: the first E mod N GPUs hold one expert more.
TEST(Layout, SplitsQwen15Over8GpusAsVllmDoes) {
  const Layout layout = parse_layout("ep8");
  const MoeShape shape = find_model("qwen15").shape;
  std::vector<int> counts;
  for (int gpu = 0; gpu < 8; ++gpu) counts.push_back(local_shape(shape, layout, gpu).experts);
  EXPECT_EQ(counts, (std::vector<int>{8, 8, 8, 8, 7, 7, 7, 7}));
  EXPECT_EQ(local_experts(layout, 60, 4).front(), 32);
  EXPECT_EQ(local_experts(layout, 60, 7).back(), 59);
  const std::vector<int> map = expert_map(layout, 60, 4);
  EXPECT_EQ(map[31], -1);
  EXPECT_EQ(map[32], 0);
  EXPECT_EQ(map[38], 6);
  EXPECT_EQ(map[39], -1);
}

TEST(Layout, GivesEveryExpertToOneGpuForEveryNumberOfGpus) {
  for (const int experts : {1, 7, 60, 64, 384})
    for (int gpus = 1; gpus <= experts; gpus += 1 + experts / 17) {
      Layout layout = parse_layout("ep" + std::to_string(gpus));
      std::vector<int> seen(experts, 0);
      int smallest = experts, largest = 0;
      for (int gpu = 0; gpu < gpus; ++gpu) {
        const std::vector<int> mine = local_experts(layout, experts, gpu);
        smallest = std::min<int>(smallest, static_cast<int>(mine.size()));
        largest = std::max<int>(largest, static_cast<int>(mine.size()));
        EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
        for (const int e : mine) ++seen[e];
      }
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), experts) << experts << " on " << gpus;
      EXPECT_LE(largest - smallest, 1);
    }
}

TEST(Layout, CutsHUnderTpAndRefusesACutThroughAScaleBlock) {
  const MoeShape olmoe = find_model("olmoe").shape;
  EXPECT_EQ(local_shape(olmoe, parse_layout("tp4"), 3).intermediate, 256);
  EXPECT_EQ(local_shape(olmoe, parse_layout("tp4"), 3).experts, 64);
  EXPECT_EQ(local_shape(olmoe, parse_layout("tp8"), 0).intermediate, 128);
  const std::string straddles = error_of([&] { local_shape(olmoe, parse_layout("tp16"), 0); });
  EXPECT_NE(straddles.find("scale block"), std::string::npos) << straddles;
  EXPECT_NE(straddles.find("64"), std::string::npos) << straddles;
  EXPECT_THROW(local_shape(olmoe, parse_layout("tp3"), 0), Error);
  // 1408 = 11 blocks: no number of GPUs but 1 and 11 cuts it.
  EXPECT_THROW(local_shape(find_model("qwen15").shape, parse_layout("tp2"), 0), Error);
  EXPECT_EQ(local_shape(find_model("qwen15").shape, parse_layout("tp11"), 0).intermediate, 128);
  // Whole experts are never cut: gpt-oss's 2,880 is no multiple of 128 and fits EP and one GPU.
  EXPECT_EQ(local_shape(find_model("gptoss-20b").shape, parse_layout("ep4"), 1).intermediate, 2880);
  EXPECT_EQ(local_shape(find_model("gptoss-20b").shape, parse_layout("tp1"), 0).intermediate, 2880);
}

TEST(Layout, RefusesMoreGpusThanExperts) {
  EXPECT_THROW(local_shape(find_model("mixtral").shape, parse_layout("ep16"), 0), Error);
  EXPECT_THROW(local_shape(find_model("mixtral").shape, parse_layout("ep8"), 8), Error);
}

TEST(Layout, BalancedPlacementKeepsTheNumbersOfExpertsAndLowersTheMaximum) {
  Random random(5);
  for (int trial = 0; trial < 200; ++trial) {
    const int gpus = 1 + static_cast<int>(random.below(16));
    const int experts = gpus + static_cast<int>(random.below(64));
    std::vector<double> loads(experts);
    for (double& load : loads) load = std::floor(std::exp(1.5 * random.normal()) * 100);
    const std::vector<int> placement = balanced_placement(loads, gpus);
    Layout layout = parse_layout("ep" + std::to_string(gpus));
    const std::vector<int> contiguous = gpu_of_experts(layout, experts);
    auto totals = [&](const std::vector<int>& gpu_of) {
      std::vector<double> total(gpus, 0.0);
      for (int e = 0; e < experts; ++e) total[gpu_of[e]] += loads[e];
      return *std::max_element(total.begin(), total.end());
    };
    for (int gpu = 0; gpu < gpus; ++gpu)
      EXPECT_EQ(std::count(placement.begin(), placement.end(), gpu),
                std::count(contiguous.begin(), contiguous.end(), gpu));
    // No placement beats these two.
    const double heaviest = *std::max_element(loads.begin(), loads.end());
    const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
    EXPECT_GE(totals(placement) + 1e-9, sum / gpus);
    EXPECT_GE(totals(placement) + 1e-9, heaviest);
  }
  // The two hot experts part; contiguous would keep them together.
  const std::vector<double> loads = {10, 9, 1, 1};
  EXPECT_EQ(balanced_placement(loads, 2), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_THROW(balanced_placement(loads, 5), Error);
}

TEST(Layout, TakesAnyPlacementFromJson) {
  const Layout ep2 = parse_layout("ep2");
  const Layout one = with_placement_json(ep2, 4, "[1,0,0,1]", "mine");
  EXPECT_EQ(one.name(), "ep2+mine");
  EXPECT_EQ(local_experts(one, 4, 1), (std::vector<int>{0, 3}));
  EXPECT_EQ(local_experts(one, 4, 1, 7), (std::vector<int>{0, 3}));  // one map serves every layer
  const Layout two = with_placement_json(ep2, 4, R"({"placement":[[0,0,0,1],[1,1,0,0]]})", "mine");
  EXPECT_EQ(local_experts(two, 4, 0, 0).size(), 3u);
  EXPECT_EQ(local_experts(two, 4, 0, 1), (std::vector<int>{2, 3}));
  EXPECT_THROW(local_experts(two, 4, 0, 2), Error);
  EXPECT_THROW(local_experts(two, 5, 0, 0), Error);
  for (const char* bad :
       {"", "{}", "[]", "[0,1]", "[0,1,2,0]", "[0,1,-1,0]", "[0,1,0.5,0]", "[0,1,\"a\",0]",
        "[[0,1,0,1],[0,1]]", "{\"placement\":3}", "[0,1,0,99999999999999999999]"})
    EXPECT_THROW(with_placement_json(ep2, 4, bad, "bad"), Error) << bad;
  EXPECT_THROW(with_placement_json(parse_layout("tp2"), 4, "[0,0,1,1]", "x"), Error);
}

}  // namespace
}  // namespace ramp
