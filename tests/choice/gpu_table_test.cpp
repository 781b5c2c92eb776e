// SPDX-License-Identifier: Apache-2.0
// The policies of Table 4, and those that are set beside them, on spaces whose truth is planted.
#include "choice/gpu_table.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "choice/batch_table.hpp"
#include "choice/policy.hpp"
#include "tests/choice/lessons.hpp"
#include "tests/choice/synthetic.hpp"

namespace ramp {
namespace {

// How often a policy picks the fastest, over the held-out loads.
double share_right(std::string_view name, const MeasuredSpace& space) {
  const auto policy = learned(name, space);
  int right = 0, all = 0;
  for (const MeasuredPass& pass : space.passes) {
    if (pass.role != Role::kTest) continue;
    for (int load : pass.load_of_gpu) {
      if (load < 0) continue;
      float best = INFINITY;
      for (const auto& row : space.samples) best = std::min(best, row[load][0]);
      const int choice = policy->choose({pass.tokens, space.loads[load], {}});
      right += space.samples[choice][load][0] <= best * 1.0001f;
      ++all;
    }
  }
  return all ? static_cast<double>(right) / all : 0;
}

// The two GPUs of Section 2.3: 128 tokens on 16 experts, even and uneven.
TEST(Spread, TellsApartThePapersTwoGpus) {
  std::vector<int> even(16, 8), uneven(16, 0);
  for (int e = 0; e < 12; ++e) uneven[e] = e < 4 ? 30 : 1;
  const Spread a = spread_of(even, 8), b = spread_of(uneven, 8);
  EXPECT_EQ(a.pairs, 128);
  EXPECT_EQ(b.pairs, 128);
  EXPECT_EQ(a.active, 16);
  EXPECT_EQ(b.active, 12);
  EXPECT_DOUBLE_EQ(a.padding, 0);                // 16 full tiles
  EXPECT_DOUBLE_EQ(b.padding, 1 - 128 / 192.0);  // 24 tiles of 8
  EXPECT_DOUBLE_EQ(spread_of(even, 32).padding, 0.75);
  EXPECT_DOUBLE_EQ(spread_of(uneven, 32).padding, 1 - 128 / (12 * 32.0));
  EXPECT_DOUBLE_EQ(a.peak, 1);
  EXPECT_DOUBLE_EQ(b.peak, 30 / 8.0);
  EXPECT_DOUBLE_EQ(a.variation, 0);
  EXPECT_NEAR(b.variation, std::sqrt((4 * 900 + 8) / 16.0 - 64) / 8, 1e-12);
  const Spread nothing = spread_of(std::vector<int>(4, 0), 8);
  EXPECT_EQ(nothing.pairs, 0);
  EXPECT_EQ(nothing.peak, 0);
}

TEST(GpuTable, RowsAreBatchSizesInPairsOfOneGpu) {
  // 8 of 64 experts a GPU and top 8: a GPU gets one pair a token of the pass.
  const Lesson lesson = lesson_of(synthetic_space({.sizes = {16, 256}}));
  GpuTable table;
  table.set_rows(lesson);
  ASSERT_FALSE(table.rows().empty());
  for (int row : table.rows())
    EXPECT_NE(std::find(std::begin(kVllmBatchSizes), std::end(kVllmBatchSizes), row),
              std::end(kVllmBatchSizes))
        << row;
  EXPECT_GT(table.rows().front(), 1);  // nothing near 1 was seen
}

TEST(GpuTable, ACellThatSawNothingTakesWhatItsRowWould) {
  const Lesson lesson = lesson_of(synthetic_space());
  GpuTable whole, split;
  whole.set_rows(lesson);
  whole.fill(lesson, 1, [](int, std::span<const int>) { return 0; });
  split.set_rows(lesson);
  bool learning = true;  // training loads fall into cell 0, later ones into the empty cell 1
  split.fill(lesson, 2, [&learning](int, std::span<const int>) { return learning ? 0 : 1; });
  learning = false;
  for (const auto& load : lesson.loads) EXPECT_EQ(whole.lookup(load), split.lookup(load));
  EXPECT_GT(split.bytes(), whole.bytes());
}

const SyntheticOptions kVaried = {.train_passes = 300,
                                  .test_passes = 100,
                                  .uniform_passes = false,
                                  .skew = 1.5,
                                  .other_skew = 0.3,
                                  .samples = 2};

// Tall tiles are right for half of the loads, those that say so.
SyntheticTime tall_where(std::function<bool(const Spread&)> wanted) {
  return [wanted](const Candidate& c, const std::vector<int>& load) {
    return (c.grid.phase[0].rows >= 32) == wanted(spread_of(load, 32)) ? 20.0 : 40.0;
  };
}

// The table keyed on the measure that decides finds it; the one keyed on the count alone can't.
TEST(GpuTable, ATableFindsWhatItIsKeyedOn) {
  struct Case {
    const char* policy;
    double Spread::*measure;
  };
  for (const Case& c :
       {Case{"gpu-active", &Spread::active}, Case{"gpu-peak", &Spread::peak},
        Case{"gpu-variation", &Spread::variation}, Case{"gpu-padding", &Spread::padding}}) {
    SCOPED_TRACE(c.policy);
    SyntheticOptions options = kVaried;
    options.sizes = {12, 20};
    if (c.measure == &Spread::padding) options.sizes = {200, 300};  // few tokens are all padding
    std::vector<double> seen;
    for (const auto& load : synthetic_space(options).loads)
      seen.push_back(spread_of(load, 32).*c.measure);
    std::nth_element(seen.begin(), seen.begin() + seen.size() / 2, seen.end());
    const double middle = seen[seen.size() / 2];
    const MeasuredSpace space = synthetic_space(
        options, tall_where([&](const Spread& s) { return s.*c.measure > middle; }));
    EXPECT_GT(share_right(c.policy, space), 0.8);
    EXPECT_GT(share_right(c.policy, space), share_right("gpu-table", space) + 0.04);
  }
}

TEST(GpuTable, ThreeKeysFindWhatNeedsThree) {
  SyntheticOptions options = kVaried;
  options.sizes = {40, 60};
  const MeasuredSpace space = synthetic_space(
      options, tall_where([](const Spread& s) { return (s.active > 7.5) != (s.padding > 0.75); }));
  EXPECT_GT(share_right("gpu-3d", space), share_right("gpu-active", space) + 0.05);
}

TEST(Neighbors, FollowTheLoadsThatResemble) {
  SyntheticOptions options = kVaried;
  options.sizes = {96, 128};
  const MeasuredSpace space =
      synthetic_space(options, tall_where([](const Spread& s) { return s.peak > 2.5; }));
  EXPECT_GT(share_right("neighbors-8", space), 0.85);
  EXPECT_GT(share_right("neighbors-8", space), share_right("gpu-table", space) + 0.1);
}

TEST(NearestSpectrum, TellsSkewedFromEvenAtOneCount) {
  SyntheticOptions options = kVaried;
  options.sizes = {96, 128};
  const MeasuredSpace space =
      synthetic_space(options, tall_where([](const Spread& s) { return s.peak > 2.5; }));
  EXPECT_GT(share_right("nearest-spectrum", space), 0.8);
  EXPECT_GT(share_right("nearest-spectrum", space), share_right("gpu-table", space) + 0.1);
  // Drawn from a fixed seed: the same exemplars on every machine, the same choices.
  const auto a = learned("nearest-spectrum", space), b = learned("nearest-spectrum", space);
  for (const auto& load : space.loads)
    EXPECT_EQ(a->choose({1, load, {}}), b->choose({1, load, {}}));
}

TEST(TileFormula, IsExactOnItsOwnFormAndBlindToWaves) {
  const auto by_tiles = [](const Candidate& c, const std::vector<int>& load) {
    const int tiles = features(c.grid, load.data(), static_cast<int>(load.size())).tiles;
    const double rows = c.grid.phase[0].rows, fixed = 30 - 0.2 * rows;
    return fixed + 0.004 * rows * tiles + (2 + 0.01 * rows) * std::log(tiles);
  };
  EXPECT_GT(share_right("tile-formula", synthetic_space({}, by_tiles)), 0.98);
  const MeasuredSpace with_waves = synthetic_space({.skew = 1.6});
  EXPECT_LT(share_right("tile-formula", with_waves), share_right("cost-model", with_waves) - 0.1);
}

// For the same batch, vLLM's own tuner tunes on as many pairs as all GPUs together get.
TEST(VllmTuner, EntriesAreTunedOnEveryPairOfTheBatch) {
  const auto by_pairs = [](const Candidate& c, const std::vector<int>& load) {
    const double rows = c.grid.phase[0].rows;
    return 5 + 0.3 * rows + static_cast<double>(pairs_of(load)) * 2 / rows;
  };
  const MeasuredSpace space = synthetic_space({}, by_pairs);
  const auto own = learned("vllm-tuner", space), share = learned("vllm-tuning", space);
  const std::vector<int> load(8, 1);
  int taller = 0;
  for (int tokens : {8, 16, 32, 64, 128}) {
    const int a = space.candidates[own->choose({tokens, load, {}})].grid.phase[0].rows,
              b = space.candidates[share->choose({tokens, load, {}})].grid.phase[0].rows;
    EXPECT_GE(a, b) << tokens;
    taller += a > b;
  }
  EXPECT_GE(taller, 2);
  // A GPU's share of 8 B tokens is what the tuner gives B tokens: 8 GPUs, k = 8, E = 64.
  for (int tokens : {4, 8, 16, 32, 64, 128})
    EXPECT_EQ(own->choose({tokens, load, {}}), share->choose({8 * tokens, load, {}})) << tokens;
}

}  // namespace
}  // namespace ramp
