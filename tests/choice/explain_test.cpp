// SPDX-License-Identifier: Apache-2.0
#include "choice/explain.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace ramp {
namespace {

Plan two_entries() {
  Plan plan;
  plan.model = "m";
  plan.layout = "ep8";
  plan.gpus = 8;
  plan.shape = {16, 8, 2048, 768};
  plan.menu = {{"small", "{}", Grid{{{8, 1, 4}}, 1}, {1, 2, 0.5f, 0.25f}},
               {"large", "{}", Grid{{{32, 1, 4}}, 1}, {1, 3, 0.7f, 0.25f}}};
  plan.batch_table = {{16, 0}, {512, 1}};
  return plan;
}

const int kBalanced[16] = {8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8};
const int kSkewed[16] = {30, 30, 30, 30, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0};

TEST(Explain, RanksEntriesAndItsTermsAddUp) {
  const Explanation e = explain(two_entries(), kSkewed);
  ASSERT_EQ(e.ranked.size(), 2u);
  EXPECT_EQ(e.ranked[0].entry, 1);
  EXPECT_EQ(e.ranked[0].features.tiles, 12);
  EXPECT_EQ(e.ranked[1].features.tiles, 24);
  for (const ExplainedEntry& x : e.ranked)
    EXPECT_NEAR(x.fixed_us + x.waves_us + x.tiles_us + x.experts_us, x.predicted_us, 1e-4);
  EXPECT_NE(e.because.find("large leads small"), std::string::npos) << e.because;
  EXPECT_NE(e.because.find("tiles (12 against 24)"), std::string::npos) << e.because;
}

TEST(Explain, AgreesWithSelect) {
  const Plan plan = two_entries();
  for (const int* load : {kBalanced, kSkewed})
    EXPECT_EQ(explain(plan, std::span(load, 16)).ranked[0].entry,
              select(std::span(load, 16), menu_of(plan)).entry);
}

TEST(Explain, SaysWhatABatchTableWouldRun) {
  const Plan plan = two_entries();
  EXPECT_EQ(explain(plan, kSkewed, 16).table_entry, 0);
  EXPECT_EQ(explain(plan, kSkewed, 4096).table_entry, 1);
  // 128 pairs here, 8 GPUs, 8 experts a token: a batch of 128 if the others got as much.
  const Explanation e = explain(plan, kBalanced);
  EXPECT_TRUE(e.tokens_assumed);
  EXPECT_EQ(e.tokens, 128);
  Plan whole = plan;
  whole.layout = "tp8";
  EXPECT_EQ(explain(whole, kBalanced).tokens, 16);
  Plan none = plan;
  none.batch_table.clear();
  EXPECT_EQ(explain(none, kBalanced).table_entry, -1);
}

TEST(Explain, ATieIsCalledATie) {
  Plan plan = two_entries();
  plan.menu[1] = plan.menu[0];
  plan.menu[1].label = "twin";
  const Explanation e = explain(plan, kBalanced);
  EXPECT_EQ(e.ranked[0].entry, 0);
  EXPECT_NE(e.because.find("ties"), std::string::npos);
}

TEST(Explain, RefusesLoadsOfAnotherLayer) {
  const int short_load[3] = {1, 2, 3};
  int negative[16] = {-1}, huge[16] = {kMaxPairs, 1};
  EXPECT_THROW(explain(two_entries(), short_load), Error);
  EXPECT_THROW(explain(two_entries(), negative), Error);
  EXPECT_THROW(explain(two_entries(), huge), Error);
}

}  // namespace
}  // namespace ramp
