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
  const auto d = static_cast<std::size_t>(answered().setting.shape.hidden);
  for (std::size_t t = 0; c.slots > 0 && t < c.batch.ids.size(); ++t)
    if (c.batch.ids[t] < 0) {
      EXPECT_TRUE(std::all_of(&result.output[t * d], &result.output[t * d] + d,
                              [](std::uint16_t x) { return x == 0xffff; }))
          << c.name << ": slot " << t << " is empty, so nobody writes it";
    }
}

class Emulated : public testing::TestWithParam<std::string> {};

// Passes that take their entries and depths of prefill in turn.
std::vector<Pass> passes_over(const Menu& menu, const std::vector<std::string>& names) {
  std::vector<Pass> passes;
  for (const CheckCase& c : answered().cases)
    if (names.empty() || std::find(names.begin(), names.end(), c.name) != names.end())
      passes.push_back({&c, static_cast<int>(passes.size() % menu.configs.size()),
                        static_cast<int>(passes.size() * 5 % 12), passes.size() % 3 == 1});
  return passes;
}

void expect_right(const LayerSetup& setup, const std::vector<Pass>& passes, std::uint64_t seed) {
  const std::vector<PassResult> results = run_passes(setup, passes, seed);
  for (std::size_t i = 0; i < passes.size(); ++i)
    expect_right(results[i], *passes[i].work,
                 setup.menu->configs[static_cast<std::size_t>(passes[i].forced)]);
}
void expect_right(const Menu& menu, const std::vector<Pass>& passes, std::uint64_t seed) {
  expect_right(setup_of(menu), passes, seed);
}

TEST_P(Emulated, AwkwardRoutingsOneBehindTheOtherAreRight) {
  const Menu& menu = find_menu(GetParam());
  expect_right(menu, passes_over(menu, {"ragged", "one-token-each", "strange-ids", "ready-counts"}),
               1);
}

TEST_P(Emulated, RowsAsAnAllToAllDeliversThemAreRight) {
  const Menu& menu = find_menu(GetParam());
  expect_right(menu,
               passes_over(menu, {"tokens-48-e4m3", "ready-counts-e4m3-by-column", "slots",
                                  "slots-empty-e4m3-by-column", "slots-e4m3-by-column"}),
               3);
}

TEST_P(Emulated, EveryDepthOfPrefillIsRight) {
  const Menu& menu = find_menu(GetParam());
  std::vector<Pass> passes;
  for (int prefill = 0; prefill <= kFfnMaxStages + kFfnMaxEarly; ++prefill) {
    passes.push_back(passes_over(menu, {"tokens-7"})[0]);
    passes.back().prefill = prefill;
    passes.back().forced = prefill % static_cast<int>(menu.configs.size());
    passes.back().prefill_down = prefill % 4 < 2;
  }
  expect_right(menu, passes, 4);
}

TEST_P(Emulated, SmallLoadsAreRightInWhateverOrderThingsHappen) {
  const Menu& menu = find_menu(GetParam());
  const std::vector<Pass> passes = passes_over(menu, {"tokens-1", "one-token-each", "tokens-7"});
  ASSERT_EQ(passes.size(), 3u);
  for (std::uint64_t seed = 10; seed < 13; ++seed) expect_right(menu, passes, seed);
}

class EmulatedPhased : public testing::TestWithParam<std::string> {};

TEST_P(EmulatedPhased, ARowForEachPairIsRight) {
  const Menu& menu = find_menu(GetParam());
  LayerSetup setup = setup_of(menu);
  setup.row_a_pair = true;
  expect_right(setup,
               passes_over(menu, {"ragged", "one-token-each", "strange-ids", "ready-counts",
                                  "tokens-7", "slots-e4m3", "ready-counts-e4m3"}),
               6);
}

// Loads of a few tiles in three parts of h, taller ones whole; or the last two tiles of every load.
TEST_P(EmulatedPhased, DownItemsInPartsAreRight) {
  const Menu& menu = find_menu(GetParam());
  LayerSetup setup = setup_of(menu);
  std::vector<Pass> passes =
      passes_over(menu, {"ragged", "one-token-each", "ready-counts", "tokens-7", "tokens-300"});
  for (std::size_t i = 0; i < passes.size(); ++i) passes[i].prefill_down = i % 2 == 1;
  for (const DownParts& parts : {DownParts{{0, 0, 0, 9}}, DownParts{{}, 2, 3}}) {
    setup.down_parts = parts;
    for (std::uint64_t seed = 7; seed < 9; ++seed) expect_right(setup, passes, seed);
  }
}

std::string id_of(const testing::TestParamInfo<std::string>& info) {
  std::string id;
  for (char c : info.param) id += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return id;
}

std::vector<std::string> phased_labels() {
  std::vector<std::string> labels = menu_labels();
  std::erase_if(labels,
                [](const std::string& l) { return !runs_ordered(find_menu(l).configs[0]); });
  return labels;
}

INSTANTIATE_TEST_SUITE_P(Menus, Emulated, testing::ValuesIn(menu_labels()), id_of);
INSTANTIATE_TEST_SUITE_P(Menus, EmulatedPhased, testing::ValuesIn(phased_labels()), id_of);

TEST(EmulatedMenu, EveryEntryIsRightForEveryRouting) {
  for (const std::string& labels : menu_labels()) {
    const Menu& menu = find_menu(labels);
    if (menu.configs.size() > 1) expect_right(menu, passes_over(menu, {}), 2);
  }
}

// `ordered` mode: the bits of a token's output depend on the token alone.
TEST(EmulatedOrdered, EveryEntryInEveryOrderGivesTheSameBits) {
  std::vector<std::vector<std::uint16_t>> first;
  for (const std::string& labels : menu_labels()) {
    const Menu& menu = find_menu(labels);
    if (menu.configs[0].topology != kF3) continue;
    LayerSetup setup = setup_of(menu);
    setup.ordered = true;
    setup.row_a_pair = labels.size() % 2 == 1;
    const std::vector<Pass> passes = passes_over(
        menu, {"ragged", "one-token-each", "strange-ids", "ready-counts", "tokens-7", "slots",
               "tokens-48-e4m3", "slots-e4m3", "slots-e4m3-by-column", "ready-counts-e4m3"});
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      const std::vector<PassResult> results = run_passes(setup, passes, seed);
      for (std::size_t i = 0; i < passes.size(); ++i) {
        expect_right(results[i], *passes[i].work,
                     menu.configs[static_cast<std::size_t>(passes[i].forced)]);
        if (first.size() <= i) first.push_back(results[i].output);
        EXPECT_EQ(results[i].output, first[i]) << labels << " " << passes[i].work->name;
      }
    }
  }
  EXPECT_FALSE(first.empty());
}

TEST(EmulatedOrdered, WhereATokenStandsDoesNotMatter) {
  const Menu& menu = find_menu("f3-r64-c256-s4-w1-dynamic-grouped+f3-r128-c256-s3-w1-dynamic");
  const auto whole = std::find_if(answered().cases.begin(), answered().cases.end(),
                                  [](const CheckCase& c) { return c.name == "ragged"; });
  ASSERT_NE(whole, answered().cases.end());
  const LocalShape& shape = answered().setting.shape;
  const auto k = static_cast<std::size_t>(shape.top_k), d = static_cast<std::size_t>(shape.hidden);
  // The last tokens alone, and in reverse.
  CheckCase part = *whole;
  part.batch.tokens = whole->batch.tokens / 3;
  std::vector<std::size_t> token(static_cast<std::size_t>(part.batch.tokens));
  for (std::size_t t = 0; t < token.size(); ++t)
    token[t] = static_cast<std::size_t>(whole->batch.tokens) - 1 - t;
  for (std::size_t t = 0; t < token.size(); ++t) {
    std::copy_n(&whole->batch.ids[token[t] * k], k, &part.batch.ids[t * k]);
    std::copy_n(&whole->batch.gates[token[t] * k], k, &part.batch.gates[t * k]);
    std::copy_n(&whole->batch.hidden[token[t] * d], d, &part.batch.hidden[t * d]);
  }
  part.batch.ids.resize(token.size() * k);
  part.batch.gates.resize(token.size() * k);
  part.batch.hidden.resize(token.size() * d);
  LayerSetup setup = setup_of(menu);
  setup.ordered = true;
  const std::vector<PassResult> results =
      run_passes(setup, {{&*whole, 1, 3}, {&part, 0, 2, true}}, 3);
  for (std::size_t t = 0; t < token.size(); ++t)
    EXPECT_TRUE(std::equal(results[1].output.begin() + static_cast<std::ptrdiff_t>(t * d),
                           results[1].output.begin() + static_cast<std::ptrdiff_t>((t + 1) * d),
                           results[0].output.begin() + static_cast<std::ptrdiff_t>(token[t] * d)))
        << "token " << token[t];
}

}  // namespace
}  // namespace ramp::emulator
