// SPDX-License-Identifier: Apache-2.0
// The workspace: every region has its size, none overlaps another, nothing overflows.
#include "kernels/prepare/workspace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/prepare/program.hpp"
#include "kernels/prepare/runs.h"
#include "kernels/prepare/state.h"

namespace ramp {
namespace {

using Region = std::pair<std::size_t, std::size_t>;  // offset, bytes

std::vector<Region> regions(const LocalShape& s, std::size_t tokens, bool row_a_pair) {
  const Workspace w = workspace_layout(s, static_cast<int>(tokens),
                                       {.middle = true, .slots = true, .row_a_pair = row_a_pair});
  const std::size_t rows = tokens * (row_a_pair ? s.top_k : 1);
  const std::size_t pairs = tokens * s.top_k, experts = s.experts, d = s.hidden, h = s.intermediate;
  const Selecting selecting = selecting_of(static_cast<int>(pairs), false);
  const bool by_runs = selecting.by == SelectBy::kRuns;
  return {{w.state, sizeof(LayerState)},
          {w.counts, experts * 4},
          {w.rows, (pairs + kHeadRows) * sizeof(Row)},
          {w.head, experts * kHeadRows * sizeof(Row)},
          {w.tiles, (pairs + experts) * sizeof(Tile)},
          {w.run_counts, by_runs ? selecting.blocks * experts * 4 : 0},
          {w.places, by_runs ? pairs * 4 : 0},
          {w.rows_scale, (rows + 3) / 4 * 4 * (d / 128) * 4},
          {w.rows_q, rows * d},
          {w.ready, (pairs + experts) * 4},
          {w.middle_scale, (pairs + 3) / 4 * 4 * (h / 128) * 4},
          {w.middle_q, pairs * h},
          {w.position, pairs * 4},
          {w.slots, pairs * d * 2}};
}

const LocalShape kShapes[] = {{16, 8, 2048, 768},
                              {8, 8, 2048, 1024},
                              {32, 8, 7168, 2048},
                              {1, 1, 128, 128},
                              {512, 32, 128, 128}};

// A workspace for any call of a size serves the calls that need less.
TEST(Workspace, RowsThatComeGroupedOrQuantisedNeedNoMore) {
  for (const LocalShape& shape : kShapes)
    for (const int tokens : {1, 64, 4096, 131072 / shape.top_k})
      for (const bool slots : {false, true}) {
        const std::size_t all = workspace_layout(shape, tokens, {true, slots}).bytes;
        for (const bool grouped : {false, true})
          for (const bool scale : {false, true})
            EXPECT_LE(workspace_layout(shape, tokens, {true, slots, grouped, false, scale}).bytes,
                      all);
        EXPECT_LE(workspace_layout(shape, tokens, {true, slots, true}).bytes, all);
      }
  // A pair each: nothing is sized by ids a token.
  const std::size_t ids = workspace_layout({32, 8, 7168, 2048}, 32768, {true}).bytes,
                    grouped =
                        workspace_layout({32, 8, 7168, 2048}, 32768, {true, false, true}).bytes;
  EXPECT_LT(grouped * 2, ids);
}

TEST(Workspace, RegionsAreAlignedApartAndInside) {
  for (const LocalShape& shape : kShapes)
    for (const auto& [tokens, row_a_pair] : {std::pair{0, false},
                                             {1, false},
                                             {7, false},
                                             {64, false},
                                             {4096, false},
                                             {131072 / shape.top_k, false},
                                             {1, true},
                                             {4096, true}}) {
      std::vector<Region> all = regions(shape, static_cast<std::size_t>(tokens), row_a_pair);
      std::sort(all.begin(), all.end());
      std::size_t end = 0;
      for (const auto& [at, bytes] : all) {
        EXPECT_EQ(at % kWorkspaceAlignment, 0u);
        EXPECT_GE(at, end);
        end = at + bytes;
      }
      EXPECT_LE(end, workspace_layout(shape, tokens,
                                      {.middle = true, .slots = true, .row_a_pair = row_a_pair})
                         .bytes);
    }
}

TEST(Workspace, TheStateComesFirstWhateverTheSize) {
  for (const LocalShape& shape : kShapes) {
    EXPECT_EQ(workspace_layout(shape, 1, {true, true}).state, 0u);
    EXPECT_EQ(workspace_layout(shape, 4096, {true, true}).state, 0u);
  }
}

TEST(Workspace, GrowsWithTheTokensSoThatTheLargestCallsServesAll) {
  std::size_t before = 0;
  for (int tokens = 0; tokens < 3000; tokens += 7) {
    const std::size_t bytes = workspace_layout(kShapes[0], tokens, {true, true}).bytes;
    EXPECT_GE(bytes, before);
    before = bytes;
  }
}

TEST(Workspace, MiddleRowsTakeNoPlaceWhereNobodyNeedsThem) {
  const Workspace without = workspace_layout(kShapes[0], 4096, {}),
                  with = workspace_layout(kShapes[0], 4096, {true, true});
  EXPECT_EQ(without.rows_q, with.rows_q) << "what both have lies alike";
  EXPECT_EQ(without.bytes, with.ready);
  EXPECT_GE(with.bytes - without.bytes, std::size_t{4096} * 8 * 768);
}

TEST(Workspace, HoldsWhatNoIntCould) {
  const LocalShape wide{512, 8, 16384, 128};
  const int tokens = 1 << 20;
  EXPECT_GT(workspace_layout(wide, tokens, {true, true}).bytes, std::size_t{1} << 34);
  const Workspace w = workspace_layout(wide, tokens, {true, true});
  EXPECT_GE(w.bytes - w.rows_q, std::size_t{tokens} * 16384);
}

TEST(PrepareBlocks, OneSelectsAndTheOthersShareTheRows) {
  const Selecting one{SelectBy::kBlock, 1};
  EXPECT_EQ(prepare_blocks(1, 2048, 132, one), 2) << "at least one quantises";
  EXPECT_EQ(prepare_blocks(4, 2048, 132, one), 2);
  EXPECT_EQ(prepare_blocks(5, 2048, 132, one), 3);
  EXPECT_EQ(prepare_blocks(128, 2048, 132, one), 33);
  EXPECT_EQ(prepare_blocks(1 << 20, 16384, 132, one), 132) << "no more than the GPU holds";
}

TEST(PrepareBlocks, LargeLoadsHaveABlockARunBesideThose) {
  EXPECT_EQ(selecting_of(0, false).by, SelectBy::kBlock);
  EXPECT_EQ(selecting_of(kPairsAlone, false).blocks, 1);
  EXPECT_EQ(selecting_of(kPairsAlone + 1, false).by, SelectBy::kCluster);
  EXPECT_EQ(selecting_of(kPairsOfCluster, false).blocks, kBlocksOfCluster);
  EXPECT_EQ(selecting_of(kPairsOfCluster + 1, false).by, SelectBy::kRuns);
  EXPECT_EQ(selecting_of(kPairsOfCluster + 1, false).blocks, 33);
  EXPECT_EQ(selecting_of(1 << 20, false).blocks, kMostRuns);
  EXPECT_EQ(selecting_of(0, true).blocks, 1) << "nobody counts rows that come grouped";
  EXPECT_EQ(selecting_of(kPairsOfRun + 1, true).by, SelectBy::kRuns);
  EXPECT_EQ(selecting_of(kPairsOfRun + 1, true).blocks, 2);

  const Selecting runs{SelectBy::kRuns, 8};
  EXPECT_EQ(prepare_blocks(1024, 2048, 132, runs), 132);
  EXPECT_EQ(prepare_blocks(128, 2048, 132, runs), 8 + 32);
  EXPECT_EQ(prepare_blocks(1 << 17, 2048, 16, {SelectBy::kRuns, 48}), 49) << "somebody quantises";
}

TEST(PrepareBlocks, AClusterSelectsBesideWholeClusters) {
  const Selecting cluster{SelectBy::kCluster, kBlocksOfCluster};
  EXPECT_EQ(prepare_blocks(128, 2048, 132, cluster), 8 + 32);
  EXPECT_EQ(prepare_blocks(129, 2048, 132, cluster), 8 + 40);
  EXPECT_EQ(prepare_blocks(4096, 2048, 132, cluster), 128) << "no more than the GPU holds";
  EXPECT_EQ(prepare_blocks(4096, 2048, 120, cluster), 120) << "where it has room for fifteen";
  EXPECT_EQ(prepare_blocks(128, 2048, 12, cluster), 16) << "somebody quantises";
}

// Of a call: nobody stands by where nothing is left to do, and few slots are likely to be filled.
TEST(PrepareBlocks, FollowWhatIsLeftToDoBesideTheChoice) {
  const Selecting runs{SelectBy::kRuns, 8};
  unsigned short rows = 0;
  int counts = 0;
  PrepareArgs args{};
  args.tokens = 8192, args.hidden_size = 2048, args.ready_counts = &counts;
  EXPECT_EQ(prepare_blocks(args, 132, runs), 8) << "quantised rows, an output written whole";
  args.hidden = &rows;
  EXPECT_EQ(prepare_blocks(args, 132, runs), 132);
  args.expected_rows = 128;
  EXPECT_EQ(prepare_blocks(args, 132, runs), 8 + 32);
  args.hidden = nullptr, args.output = &rows;
  EXPECT_EQ(prepare_blocks(args, 132, runs), 8 + 32);
  args.output = nullptr, args.ready_counts = nullptr, args.expected_rows = 0;
  EXPECT_EQ(prepare_blocks(args, 132, runs), 132) << "ids have to be inspected";
}

}  // namespace
}  // namespace ramp
