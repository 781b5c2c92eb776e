// SPDX-License-Identifier: Apache-2.0
// The kernels' own code, run thread by thread, against the reference.
#include "tests/emulator/layer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/ffn/program.hpp"
#include "kernels/ffn/space.hpp"
#include "kernels/ffn/whole.h"
#include "runtime/check.hpp"

namespace ramp::emulator {
namespace {

// A little layer: experts with rows in every tile that is built, d and h of odd numbers of blocks.
CheckSetting small_setting() { return {"small", {3, 2, 640, 384}, 12, 3, {}}; }

struct Answered {
  CheckSetting setting;
  HostWeights weights;
  std::vector<CheckCase> cases;
};

const Answered& answered() {
  static const Answered all = [] {
    Answered a{small_setting(), random_host_weights(small_setting().shape, 5), {}};
    a.cases = check_cases(a.setting, Cases::kEvery, 5);
    for (CheckCase& c : a.cases) answer(a.setting, a.weights, c, 0);
    return a;
  }();
  return all;
}

LayerSetup setup_of(const Menu& menu) {
  LayerSetup setup{answered().setting, &answered().weights, &menu, {}, 6};
  setup.theta.resize(menu.configs.size());
  return setup;
}

void expect_right(const PassResult& result, const CheckCase& c, const FfnConfig& config) {
  EXPECT_EQ(result.counts, c.grouped.counts) << c.name;
  const OutputError error = output_error(c.want, result.output);
  const double adds = output_adds(config, answered().setting.shape.intermediate, c.most_pairs);
  EXPECT_LE(error.all, fast_tolerance(adds, static_cast<double>(c.grouped.rows.size()) *
                                                answered().setting.shape.intermediate))
      << c.name;
  EXPECT_LE(error.worst_piece, kPieceTolerance) << c.name;
}

class Emulated : public testing::TestWithParam<std::string> {};

// Passes that take their entries and depths of prefill in turn.
std::vector<Pass> passes_over(const Menu& menu, const std::vector<std::string>& names) {
  std::vector<Pass> passes;
  for (const CheckCase& c : answered().cases)
    if (names.empty() || std::find(names.begin(), names.end(), c.name) != names.end())
      passes.push_back({&c, static_cast<int>(passes.size() % menu.configs.size()),
                        static_cast<int>(passes.size() * 2 % 7)});
  return passes;
}

void expect_right(const Menu& menu, const std::vector<Pass>& passes, std::uint64_t seed) {
  const std::vector<PassResult> results = run_passes(setup_of(menu), passes, seed);
  for (std::size_t i = 0; i < passes.size(); ++i)
    expect_right(results[i], *passes[i].work,
                 menu.configs[static_cast<std::size_t>(passes[i].forced)]);
}

TEST_P(Emulated, AwkwardRoutingsOneBehindTheOtherAreRight) {
  const Menu& menu = find_menu(GetParam());
  expect_right(menu, passes_over(menu, {"ragged", "one-token-each", "strange-ids", "ready-counts"}),
               1);
}

TEST_P(Emulated, SmallLoadsAreRightInWhateverOrderThingsHappen) {
  const Menu& menu = find_menu(GetParam());
  const std::vector<Pass> passes = passes_over(menu, {"tokens-1", "one-token-each", "tokens-7"});
  ASSERT_EQ(passes.size(), 3u);
  for (std::uint64_t seed = 10; seed < 13; ++seed) expect_right(menu, passes, seed);
}

// Small enough for one launch.
bool is_small(const CheckCase& c) {
  const LocalShape& shape = answered().setting.shape;
  return c.ready_counts.empty() && c.batch.tokens > 0 &&
         ffn_whole_takes(c.batch.tokens, shape.top_k, shape.experts);
}

TEST_P(Emulated, TheWholeLayerInOneLaunchIsRightBetweenOthers) {
  const Menu& menu = find_menu(GetParam());
  if (!has_whole_form(menu.configs)) GTEST_SKIP() << "no such form of this menu";
  std::vector<Pass> passes =
      passes_over(menu, {"tokens-1", "tokens-7", "one-token-each", "strange-ids", "ragged"});
  for (std::size_t i = 0; i < passes.size(); ++i)  // two in a row, then one of the other kind
    passes[i].whole = i % 3 != 2 && is_small(*passes[i].work);
  EXPECT_GE(std::count_if(passes.begin(), passes.end(), [](const Pass& p) { return p.whole; }), 3);
  expect_right(menu, passes, 20);
}

TEST(EmulatedMenu, BothWaysChooseAlike) {
  const Menu& menu = find_menu("f1-r8-c256-s6-w2-dynamic+f1-r16-c256-s5-w2-static");
  LayerSetup setup = setup_of(menu);
  setup.theta = {{1.0f, 0.5f, 0.02f, 0.3f}, {3.0f, 0.1f, 0.01f, 0.2f}};
  std::vector<Pass> passes;
  for (const CheckCase& c : answered().cases)
    if (is_small(c) && c.batch.tokens <= 100)
      for (bool whole : {false, true}) passes.push_back({&c, -1, 4, whole});
  const std::vector<PassResult> results = run_passes(setup, passes, 7);
  std::set<int> chosen;
  for (std::size_t i = 0; i < passes.size(); i += 2) {
    const LayerState &two = results[i].state, &one = results[i + 1].state;
    EXPECT_EQ(one.choice, two.choice) << passes[i].work->name;
    EXPECT_EQ(one.tiles, two.tiles);
    EXPECT_EQ(one.rows, two.rows);
    EXPECT_EQ(results[i + 1].counts, results[i].counts);
    EXPECT_EQ(one.passes, two.passes + 1);
    // The counters of the second pass add what those of the first did.
    const LayerState before = i ? results[i - 1].state : LayerState{};
    EXPECT_EQ(one.foreign - two.foreign, two.foreign - before.foreign);
    EXPECT_EQ(one.padded - two.padded, two.padded - before.padded);
    EXPECT_EQ(one.invalid - two.invalid, two.invalid - before.invalid);
    EXPECT_EQ(one.duplicate - two.duplicate, two.duplicate - before.duplicate);
    EXPECT_EQ(one.nan_gate - two.nan_gate, two.nan_gate - before.nan_gate);
    EXPECT_EQ(one.cleared + one.whole_claim + one.left, 0) << "left as it was found";
    chosen.insert(one.choice);
  }
  EXPECT_EQ(chosen.size(), 2u) << "the loads don't part the entries";
}

INSTANTIATE_TEST_SUITE_P(Menus, Emulated, testing::ValuesIn(menu_labels()), [](const auto& name) {
  std::string id;
  for (char c : name.param) id += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return id;
});

TEST(EmulatedMenu, EveryEntryIsRightForEveryRouting) {
  for (const std::string& labels : menu_labels()) {
    const Menu& menu = find_menu(labels);
    if (menu.configs.size() > 1) expect_right(menu, passes_over(menu, {}), 2);
  }
}

}  // namespace
}  // namespace ramp::emulator
