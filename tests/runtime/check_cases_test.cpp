// SPDX-License-Identifier: Apache-2.0
#include "runtime/check_cases.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "kernels/ffn/space.hpp"
#include "kernels/ffn/weight_maps.hpp"
#include "kernels/numeric.h"
#include "problem/random.hpp"
#include "runtime/check.hpp"
#include "runtime/trial.hpp"

namespace ramp {
namespace {

HostWeights weights_of(const LocalShape& s) {
  Random random(9);
  const auto half = static_cast<std::size_t>(s.experts) * s.hidden * s.intermediate;
  HostWeights w;
  for (std::size_t i = 0; i < 2 * half; ++i)
    w.w13.push_back(to_e4m3(static_cast<float>(random.normal())));
  for (std::size_t i = 0; i < half; ++i)
    w.w2.push_back(to_e4m3(static_cast<float>(random.normal())));
  w.s13.assign(2 * half / kScaleGroup / kScaleGroup, 0.1f);
  w.s2.assign(half / kScaleGroup / kScaleGroup, 0.1f);
  return w;
}

const CheckSetting kTiny{"tiny", {3, 2, 128, 128}, 12, 3, {}};

TEST(CheckCases, HoldEveryAwkwardRouting) {
  std::set<std::string> names;
  for (const CheckCase& c : check_cases(kTiny, Cases::kEvery, 1)) names.insert(c.name);
  for (const char* name : {"tokens-0",
                           "tokens-1",
                           "tokens-7",
                           "tokens-64",
                           "tokens-300",
                           "ragged",
                           "one-expert-300",
                           "one-token-each",
                           "strange-ids",
                           "nan-gate",
                           "zero-rows",
                           "ready-counts",
                           "pairs-7168",
                           "tokens-48-e4m3",
                           "ready-counts-e4m3",
                           "ready-counts-e4m3-by-column",
                           "slots",
                           "slots-e4m3",
                           "slots-e4m3-by-column",
                           "slots-full-e4m3-by-column",
                           "slots-empty-e4m3-by-column"})
    EXPECT_TRUE(names.count(name)) << name;
}

TEST(CheckCases, LeaveRaggedTailsForEveryTileThatIsBuilt) {
  const CheckSetting eight{"eight", {8, 2, 128, 128}, 16, 4, {}};
  CheckCase c = check_cases(eight, Cases::kRagged, 1).front();
  answer(eight, weights_of(eight.shape), c, 1);
  for (const int rows : {8, 16, 24, 32, 40, 48, 64}) {
    const auto tail = [&](int n) { return n > rows && n % rows == 1; };
    EXPECT_TRUE(std::any_of(c.grouped.counts.begin(), c.grouped.counts.end(), tail)) << rows;
    EXPECT_TRUE(std::any_of(c.grouped.counts.begin(), c.grouped.counts.end(),
                            [&](int n) { return n > 0 && n < rows; }));
  }
}

TEST(CheckCases, AnswerNanForTheTokensWithANanRouterWeightAndForNoOther) {
  std::vector<CheckCase> cases = check_cases(kTiny, Cases::kEvery, 2);
  const auto c = std::find_if(cases.begin(), cases.end(),
                              [](const CheckCase& one) { return one.name == "nan-gate"; });
  answer(kTiny, weights_of(kTiny.shape), *c, 2);
  for (int t = 0; t < 64; ++t)
    EXPECT_EQ(std::isnan(c->want[static_cast<std::size_t>(t) * 128]), t == 3 || t == 40) << t;
}

// Rows that are quantised exactly give what the bf16 rows that they stand for give; and no row is
// asked of slots that nobody fills.
TEST(CheckCases, AnswerSlotsThatAreFilledAndNoOthers) {
  const CheckSetting five{"five", {5, 2, 256, 128}, 12, 3, {}};
  const HostWeights weights = weights_of(five.shape);
  for (CheckCase& c : check_cases(five, Cases::kEvery, 3)) {
    if (c.slots == 0) continue;
    answer(five, weights, c, 2);
    ASSERT_EQ(c.batch.tokens, 5 * c.slots);
    for (int e = 0; e < 5; ++e) {
      const int n = std::clamp(c.ready_counts[static_cast<std::size_t>(e)], 0, c.slots);
      EXPECT_EQ(c.grouped.counts[static_cast<std::size_t>(e)], n);
      EXPECT_EQ(c.grouped.row_base[static_cast<std::size_t>(e)], e * c.slots);
      for (int s = 0; s < c.slots; ++s)
        EXPECT_EQ(std::isnan(c.want[static_cast<std::size_t>(e * c.slots + s) * 256]), s >= n)
            << c.name << " " << e << " " << s;
    }
    if (c.scales.empty()) continue;
    const ScaleStrides& by = c.scale_strides;  // what is delivered is what the reference has
    for (int r = 0; r < c.batch.tokens && by.row > 0; ++r)
      for (int g = 0; g < 2; ++g) {
        const float a = c.scales[static_cast<std::size_t>(r / c.slots * by.expert +
                                                          r % c.slots * by.row + g * by.group)];
        const float b = c.batch.hidden_scale[static_cast<std::size_t>(r * 2 + g)];
        EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << r << " " << g;
      }
  }
}

TEST(CheckCases, AnswerReadyCountsWithEachRowsOwnExpert) {
  const HostWeights weights = weights_of(kTiny.shape);
  std::vector<CheckCase> cases = check_cases(kTiny, Cases::kEvery, 3);
  const auto c = std::find_if(cases.begin(), cases.end(),
                              [](const CheckCase& one) { return one.name == "ready-counts"; });
  answer(kTiny, weights, *c, 2);
  EXPECT_EQ(c->grouped.counts, c->ready_counts);
  EXPECT_EQ(static_cast<int>(c->grouped.rows.size()), c->batch.tokens);
  // The last row is of the last expert with rows.
  HostBatch one;
  one.tokens = 1;
  one.hidden.assign(c->batch.hidden.end() - 128, c->batch.hidden.end());
  one.ids = {2};
  one.gates = {c->batch.gates.back()};
  one.expert_map = {0, 1, 2};
  LocalShape shape = kTiny.shape;
  shape.top_k = 1;
  const std::vector<double> want = reference_layer(shape, weights, one);
  EXPECT_TRUE(std::equal(want.begin(), want.end(), c->want.end() - 128));
}

TEST(CheckCases, GiveFreshInputsForEachSeedAndTheSameForOne) {
  const auto ids = [](std::uint64_t seed) {
    return check_cases(kTiny, Cases::kOrdinary, seed).front().batch.ids;
  };
  EXPECT_EQ(ids(1), ids(1));
  EXPECT_NE(ids(1), ids(2));
}

TEST(CheckSettings, HoldOnlyShapesThatTheKernelRunsAndMapsThatTheLayerTakes) {
  std::vector<CheckSetting> all = check_settings(false);
  all.push_back(check_settings(true).front());
  all.push_back(setting_of({32, 8, 7168, 2048}));
  for (const CheckSetting& s : all) {
    EXPECT_NO_THROW(require_ffn_shape(s.shape)) << s.name;
    EXPECT_GE(s.experts, s.shape.top_k) << s.name;
    const std::vector<int> map = full_map(s);
    EXPECT_EQ(static_cast<int>(map.size()), s.experts) << s.name;
    for (int e = 0; e < s.shape.experts; ++e)
      EXPECT_EQ(std::count(map.begin(), map.end(), e), 1) << s.name;
  }
}

TEST(CheckSettings, KeepTheReferenceOfALargeShapeCheap) {
  const CheckSetting s = cheap_setting_of({1, 2, 6144, 16384}, 3e9);
  EXPECT_EQ(s.shape.intermediate, 16384);
  EXPECT_LT(3.0 * s.shape.hidden * s.shape.intermediate * 9, 3e9);
  EXPECT_EQ(s.shape.hidden % 128, 0);
  EXPECT_EQ(cheap_setting_of({8, 8, 2048, 1024}, 3e9).shape.hidden, 2048);
}

TEST(Trial, SplitsTheReferenceOverThreadsWithoutChangingABit) {
  CheckCase c = check_cases(kTiny, Cases::kOrdinary, 4).front();
  const HostWeights weights = weights_of(kTiny.shape);
  EXPECT_EQ(reference_on_threads(kTiny.shape, weights, c.batch, 3),
            reference_layer(kTiny.shape, weights, c.batch));
}

TEST(Trial, SeesAMisplacedFragmentThatTheWholeErrorHides) {
  std::vector<double> want(300 * 2048);
  std::vector<std::uint16_t> out(want.size());
  Random random(5);
  for (std::size_t i = 0; i < want.size(); ++i) {
    out[i] = to_bf16(static_cast<float>(random.normal()));
    want[i] = from_bf16(out[i]);
  }
  EXPECT_EQ(output_error(want, out).worst_piece, 0);
  for (int i = 0; i < 4; ++i) std::swap(out[5000 + i], out[5004 + i]);  // an eighth of a fragment
  const OutputError error = output_error(want, out);
  EXPECT_LT(error.all, 0.01);
  EXPECT_GT(error.worst_piece, kPieceTolerance);
}

TEST(Trial, CallsUnwrittenMemoryInfinitelyWrong) {
  const std::vector<double> want(128, 1.0);
  std::vector<std::uint16_t> out(128, to_bf16(1.0f));
  out[77] = 0xffff;
  EXPECT_TRUE(std::isinf(output_error(want, out).all));
  EXPECT_TRUE(std::isinf(output_error(want, out).worst_piece));
}

TEST(CheckMenus, TryEveryTileHeightInMenusThatAreLegal) {
  const std::vector<std::vector<FfnConfig>> menus = check_menus(ffn_space());
  std::set<std::pair<int, int>> tried;
  for (const std::vector<FfnConfig>& menu : menus) {
    EXPECT_NO_THROW(require_legal_menu(menu));
    EXPECT_GE(menu.size(), 2u);
    for (const FfnConfig& c : menu) tried.insert({c.rows, c.cols});
  }
  for (const FfnConfig& c : ffn_space()) EXPECT_TRUE(tried.count({c.rows, c.cols})) << ffn_label(c);
}

TEST(Check, CountsTheAdditionsIntoAnOutputElement) {
  FfnConfig c;
  c.cols = 256;
  EXPECT_EQ(output_adds(c, 1408, 3), 11 * 3);
  c.cols = 512;
  EXPECT_EQ(output_adds(c, 1408, 3), 6 * 3);
}

}  // namespace
}  // namespace ramp
