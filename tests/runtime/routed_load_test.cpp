// SPDX-License-Identifier: Apache-2.0
#include "runtime/routed_load.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "problem/trace_file.hpp"
#include "problem/trace_generate.hpp"

namespace ramp {
namespace {

const Model& olmoe() { return find_model("olmoe"); }

long long pairs_on(const RoutedLayer& layer, const Layout& layout, int gpu) {
  const std::vector<int> map = expert_map(layout, olmoe().shape.experts, gpu);
  return std::count_if(layer.ids.begin(), layer.ids.end(),
                       [&](int id) { return id >= 0 && map[static_cast<std::size_t>(id)] >= 0; });
}

TEST(RoutedLoad, DrawsDifferentExpertsForATokenAndDifferentLayers) {
  const LoadSource source(olmoe(), parse_layout("ep8"), "uniform", "", 1);
  const std::vector<RoutedLayer> layers = source.draw(50, 3, 2);
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_NE(layers[0].ids, layers[1].ids);
  for (const RoutedLayer& layer : layers) {
    ASSERT_EQ(layer.ids.size(), 400u);
    for (int t = 0; t < 50; ++t)
      EXPECT_EQ(std::set<int>(layer.ids.begin() + t * 8, layer.ids.begin() + (t + 1) * 8).size(),
                8u);
    EXPECT_EQ(layer.rank, 2);
    EXPECT_EQ(layer.pairs(), pairs_on(layer, parse_layout("ep8"), 2));
  }
}

TEST(RoutedLoad, TakesTheGpuWithTheMostPairs) {
  const Layout layout = parse_layout("ep8");
  const LoadSource source(olmoe(), layout, "uniform", "", 7);
  for (const RoutedLayer& layer : source.draw(33, 8, kHeaviestRank))
    for (int gpu = 0; gpu < 8; ++gpu) EXPECT_GE(layer.pairs(), pairs_on(layer, layout, gpu));
}

TEST(RoutedLoad, GivesEveryGpuTheWholeLoadUnderTensorParallelism) {
  const LoadSource source(olmoe(), parse_layout("tp8"), "uniform", "", 1);
  const RoutedLayer layer = source.draw(10, 1, kHeaviestRank).front();
  EXPECT_EQ(layer.pairs(), 80);
  EXPECT_EQ(layer.shape.intermediate, 128);
  EXPECT_EQ(layer.shape.experts, 64);
}

TEST(RoutedLoad, RepeatsForASeedAndSkewsWhenGenerated) {
  const Layout layout = parse_layout("ep8");
  const LoadSource uniform(olmoe(), layout, "uniform", "", 5);
  const LoadSource same(olmoe(), layout, "uniform", "", 5);
  const LoadSource generated(olmoe(), layout, "generated", "", 5);
  EXPECT_EQ(uniform.draw(64, 4, 0)[3].ids, same.draw(64, 4, 0)[3].ids);
  const auto fullest = [](const std::vector<RoutedLayer>& layers) {
    long long sum = 0;
    for (const RoutedLayer& l : layers) sum += l.pairs();
    return sum;
  };
  EXPECT_GT(fullest(generated.draw(256, 12, kHeaviestRank)),
            fullest(uniform.draw(256, 12, kHeaviestRank)));
}

TEST(RoutedLoad, GeneratesEverySizeAndMoreLayersThanTheModelHas) {
  const LoadSource source(olmoe(), parse_layout("ep1"), "generated", "", 1);
  for (const int tokens : {1, 20, 700}) {
    const std::vector<RoutedLayer> layers = source.draw(tokens, 20, 0);  // OLMoE has 16
    ASSERT_EQ(layers.size(), 20u) << tokens;
    for (const RoutedLayer& layer : layers) EXPECT_EQ(layer.pairs(), 8 * tokens);
  }
}

TEST(RoutedLoad, RefusesOtherNamesOtherModelsTracesAndMoreTokensThanThereAre) {
  const Layout layout = parse_layout("ep8");
  EXPECT_THROW(LoadSource(olmoe(), layout, "zipf", "", 1), Error);
  EXPECT_THROW(LoadSource(olmoe(), layout, "recorded", "", 1), Error);
  GenerateOptions options;
  options.model = olmoe();
  options.calibration = find_calibration("olmoe");
  options.concurrency = {4};
  options.passes = 2;
  options.layers = 2;
  options.repeats = 1;
  options.burst_share = 0;
  const std::string path = testing::TempDir() + "routed_load.rtrace";
  write_trace(generate_trace(options), path);
  EXPECT_THROW(LoadSource(find_model("qwen3-30b"), layout, "recorded", path, 1), Error);
  const LoadSource recorded(olmoe(), layout, "recorded", path, 1);
  EXPECT_EQ(recorded.draw(8, 5, 1).size(), 5u);  // layers go round
  EXPECT_THROW(recorded.draw(1 << 20, 1, 1), Error);
}

}  // namespace
}  // namespace ramp
