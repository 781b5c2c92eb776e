// SPDX-License-Identifier: Apache-2.0
#include "kernels/prepare/twin.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "problem/random.hpp"

namespace ramp {
namespace {

const std::vector<int> kMap = {-1, 0, 1, -1, 2, -1};  // 6 experts, 3 of them here

TEST(Twin, KeepsPairsOfAnExpertInTheOrderOfTheTokens) {
  const std::vector<int> ids = {4, 1, /**/ 1, 3, /**/ 4, 2, /**/ 2, 1};
  const std::vector<float> gates = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f};
  const GroupedRows g = group_ids(ids, gates, 2, kMap, 3);
  EXPECT_EQ(g.counts, (std::vector<int>{3, 2, 2}));
  EXPECT_EQ(g.row_base, (std::vector<int>{0, 3, 5}));
  const std::vector<Row> want = {{0, 0.2f}, {1, 0.3f}, {3, 0.8f}, {2, 0.6f},
                                 {3, 0.7f}, {0, 0.1f}, {2, 0.5f}};
  ASSERT_EQ(g.rows.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(g.rows[i].token, want[i].token) << i;
    EXPECT_EQ(g.rows[i].gate, want[i].gate) << i;
  }
}

TEST(Twin, SkipsIdsOfNobodyAndCountsAnIdThatComesTwiceTwice) {
  const std::vector<int> ids = {-1, 6, 1000000, -7, 1, 1};
  const GroupedRows g = group_ids(ids, {}, 2, kMap, 3);
  EXPECT_EQ(g.counts, (std::vector<int>{2, 0, 0}));
  ASSERT_EQ(g.rows.size(), 2u);
  EXPECT_EQ(g.rows[0].token, 2);
  EXPECT_EQ(g.rows[1].token, 2);
  EXPECT_EQ(g.rows[0].gate, 1.0f);  // no router weights: 1
}

TEST(Twin, TakesReadyCountsAsRowsInTheirOrderAndNegativeOnesAsNone) {
  const std::vector<int> counts = {2, -3, 0, 1};
  const GroupedRows g = group_counts(counts);
  EXPECT_EQ(g.counts, (std::vector<int>{2, 0, 0, 1}));
  ASSERT_EQ(g.rows.size(), 3u);
  for (int r = 0; r < 3; ++r) EXPECT_EQ(g.rows[static_cast<std::size_t>(r)].token, r);
}

TEST(Twin, PutsTheFirstRowsOfAnExpertIntoItsFixedPlace) {
  std::vector<int> counts = {3, 0, kHeadRows + 5};
  const GroupedRows g = group_counts(counts);
  const std::vector<Row> head = head_rows(g);
  ASSERT_EQ(head.size(), 3u * kHeadRows);
  EXPECT_EQ(head[2].token, 2);
  EXPECT_EQ(head[2 * kHeadRows].token, 3);
  EXPECT_EQ(head[3 * kHeadRows - 1].token, 3 + kHeadRows - 1);
}

// Every row of the claimed tiles and of the owned first tiles once, and no other: for every tile
// height, however many experts are owned.
TEST(Twin, CoversEveryRowExactlyOnce) {
  Random random(3);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int> counts(1 + random.below(40));
    for (int& n : counts) n = random.below(3) ? static_cast<int>(random.below(150)) : 0;
    const GroupedRows g = group_counts(counts);
    for (const int rows : {8, 24, 64}) {
      const int owned = static_cast<int>(random.below(counts.size() + 1));
      std::vector<int> seen(g.rows.size(), 0);
      const auto cover = [&](int row0, int n) {
        for (int r = row0; r < row0 + n; ++r) ++seen.at(static_cast<std::size_t>(r));
      };
      for (int e = 0; e < owned; ++e)
        cover(g.row_base[static_cast<std::size_t>(e)],
              std::min(rows, counts[static_cast<std::size_t>(e)]));
      const std::vector<Tile> tiles =
          listed_tiles(g.counts, g.row_base, Grid{{{rows, 8, 132}, {}}, 1}, owned, 1);
      for (const Tile& t : tiles) {
        EXPECT_LE(t.expert_rows >> 16, rows);
        EXPECT_GT(t.expert_rows >> 16, 0);
        cover(t.row0, t.expert_rows >> 16);
      }
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<long>(seen.size()));
    }
  }
}

TEST(Twin, ListsTheOwnedTilesFirstWhereThereAreTwoPhases) {
  const std::vector<int> counts = {20, 0, 33, 8, 9};
  const GroupedRows g = group_counts(counts);
  const std::vector<Tile> tiles =
      listed_tiles(g.counts, g.row_base, Grid{{{8, 8, 132}, {8, 8, 132}}, 2}, 3, 1);
  ASSERT_EQ(tiles.size(), 3u + 2u + 4u + 1u + 2u);
  const auto expert = [&](std::size_t i) { return tiles[i].expert_rows & 0xffff; };
  const auto rows = [&](std::size_t i) { return tiles[i].expert_rows >> 16 & 0xff; };
  const auto shares = [&](std::size_t i) { return (tiles[i].expert_rows & kTileShares) != 0; };
  for (std::size_t e = 0; e < 3; ++e) {
    EXPECT_EQ(expert(e), static_cast<int>(e));
    EXPECT_EQ(rows(e), std::min(counts[e], 8));
    EXPECT_EQ(tiles[e].row0, g.row_base[e]);
    EXPECT_EQ(tiles[e].group_count, 1);
    EXPECT_EQ(shares(e), counts[e] > 8);
  }
  EXPECT_EQ(tiles[3].row0, 8) << "expert 0's second";
  EXPECT_EQ(tiles[3].group_first, 3);
  EXPECT_FALSE(shares(9)) << "expert 3 has one tile";
  EXPECT_TRUE(shares(11));
  int all = 0;
  for (std::size_t i = 0; i < tiles.size(); ++i) all += rows(i);
  EXPECT_EQ(all, static_cast<int>(g.rows.size()));
}

TEST(Twin, ListsShortTilesLastWhereItemsAreFewRounds) {
  const std::vector<int> counts = {130, 0, 400, 90, 40, 256};
  const GroupedRows g = group_counts(counts);
  const auto list = [&](int col_tiles, int owned = 1, int together = 1) {
    return listed_tiles(g.counts, g.row_base, Grid{{{128, col_tiles, 132}, {}}, 2}, owned,
                        together);
  };
  const auto rows = [](const Tile& t) { return t.expert_rows >> 16 & 0xff; };
  const std::vector<Tile> few = list(8), many = list(80);
  ASSERT_EQ(few.size(), 10u);
  ASSERT_EQ(many.size(), few.size());
  std::vector<int> few_rows, many_rows, few_experts;
  for (const Tile& t : few) few_rows.push_back(rows(t)), few_experts.push_back(t.expert_rows & 255);
  for (const Tile& t : many) many_rows.push_back(rows(t));
  EXPECT_EQ(few_rows, (std::vector<int>{128, 128, 128, 128, 90, 128, 128, 2, 16, 40}));
  EXPECT_EQ(few_experts, (std::vector<int>{0, 2, 2, 2, 3, 5, 5, 0, 2, 4}));
  EXPECT_EQ(many_rows, (std::vector<int>{128, 2, 128, 128, 128, 16, 90, 40, 128, 128}));
  EXPECT_EQ(few[2].group_first, 1);
  EXPECT_EQ(few[2].group_count, 3) << "the short one stands apart";
  EXPECT_EQ(few[8].group_first, 8);
  EXPECT_EQ(few[8].group_count, 1);
  EXPECT_EQ(many[4].group_count, 4);
  EXPECT_TRUE(few[8].expert_rows & kTileShares) << "the expert has other tiles";

  std::vector<int> paired_rows;
  for (const Tile& t : list(8, 0, 2)) paired_rows.push_back(rows(t));
  EXPECT_EQ(paired_rows, (std::vector<int>{128, 2, 128, 128, 128, 16, 90, 128, 128, 40}))
      << "a short tile stays with the one that a cluster takes with it";
}

TEST(Twin, TellsATileItsExpertsWholeGroup) {
  const std::vector<int> counts = {20, 0, 33};
  const GroupedRows g = group_counts(counts);
  const std::vector<Tile> tiles =
      listed_tiles(g.counts, g.row_base, Grid{{{8, 8, 132}, {}}, 1}, 1, 1);
  ASSERT_EQ(tiles.size(), 2u + 5u);  // expert 0 owns its first of three
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const bool first = i < 2;
    EXPECT_EQ(tiles[i].expert_rows & 0xffff, first ? 0 : 2);
    EXPECT_EQ(tiles[i].group_first, first ? 0 : 2);
    EXPECT_EQ(tiles[i].group_count, first ? 2 : 5);
  }
  EXPECT_EQ(tiles[0].row0, 8);
  EXPECT_EQ(tiles[6].expert_rows >> 16, 1);  // 33 = 4 x 8 + 1
}

}  // namespace
}  // namespace ramp
