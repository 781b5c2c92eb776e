// SPDX-License-Identifier: Apache-2.0
// The kernels' own code, run thread by thread, against the reference.
#include "tests/emulator/layer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/ffn/program.hpp"
#include "kernels/ffn/space.hpp"
#include "runtime/check.hpp"

namespace ramp::emulator {
namespace {

// A little layer: experts with rows in every tile that is built, d and h of odd numbers of blocks.
CheckSetting small_setting() { return {"small", {3, 2, 1152, 384}, 12, 3, {}}; }

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
                        static_cast<int>(passes.size() * 5 % 12)});
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

TEST_P(Emulated, EveryDepthOfPrefillIsRight) {
  const Menu& menu = find_menu(GetParam());
  std::vector<Pass> passes;
  for (int prefill = 0; prefill <= kFfnMaxStages + kFfnMaxEarly; ++prefill) {
    passes.push_back(passes_over(menu, {"tokens-7"})[0]);
    passes.back().prefill = prefill;
    passes.back().forced = prefill % static_cast<int>(menu.configs.size());
  }
  expect_right(menu, passes, 4);
}

TEST_P(Emulated, SmallLoadsAreRightInWhateverOrderThingsHappen) {
  const Menu& menu = find_menu(GetParam());
  const std::vector<Pass> passes = passes_over(menu, {"tokens-1", "one-token-each", "tokens-7"});
  ASSERT_EQ(passes.size(), 3u);
  for (std::uint64_t seed = 10; seed < 13; ++seed) expect_right(menu, passes, seed);
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
