// SPDX-License-Identifier: Apache-2.0
// The configuration space as data: names that come back, refusals that say why, a layout of shared
// memory that the hardware accepts.
#include "kernels/ffn/space.hpp"

#include <gtest/gtest.h>

#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace ramp {
namespace {

std::string refusal_of(const FfnConfig& c) {
  const char* why = ffn_refusal(c);
  return why ? why : "";
}

std::string error_of(const std::string& knobs) {
  try {
    ffn_from_knobs(knobs);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

// The text with one knob's value changed.
std::string with(const char* knob, const std::string& value) {
  std::string text = ffn_knobs(FfnConfig{});
  const std::string key = std::string("\"") + knob + "\":";
  const auto at = text.find(key) + key.size();
  return text.replace(at, text.find_first_of(",}", at) - at, value);
}

TEST(Space, HasAtLeastFortyLegalConfigurationsAndNoTwoAlike) {
  std::set<std::string> labels, knobs, literals;
  for (const FfnConfig& c : ffn_space()) {
    EXPECT_EQ(refusal_of(c), "") << ffn_label(c);
    labels.insert(ffn_label(c));
    knobs.insert(ffn_knobs(c));
    literals.insert(ffn_literal(c));
  }
  EXPECT_GE(ffn_space().size(), 40u);
  EXPECT_EQ(labels.size(), ffn_space().size());
  EXPECT_EQ(knobs.size(), ffn_space().size());
  EXPECT_EQ(literals.size(), ffn_space().size());
}

// Whether any ring and staging make a legal configuration of these rows and columns.
bool possible(int rows, int cols) {
  for (int stages = 2; stages <= kFfnMaxStages; ++stages)
    for (int staging : {1, 2})
      if (!ffn_refusal({.rows = rows, .cols = cols, .stages = stages, .staging = staging}))
        return true;
  return false;
}

TEST(Space, CoversEveryRowCountAndWidthThatIsPossible) {
  std::set<std::pair<int, int>> built;
  for (const FfnConfig& c : ffn_space())
    if (c.topology == kF1) built.insert({c.rows, c.cols});
  for (int rows = 8; rows <= 64; rows += 8)
    for (int cols : {256, 512})
      EXPECT_EQ(built.count({rows, cols}), possible(rows, cols) ? 1u : 0u) << rows << " " << cols;
  for (int rows : {8, 16, 24, 32, 40, 48, 64}) EXPECT_TRUE(built.count({rows, 256})) << rows;
  for (int rows : {8, 16, 24, 32}) EXPECT_TRUE(built.count({rows, 512})) << rows;
}

TEST(Space, LabelsAndKnobsComeBackAsTheSameConfiguration) {
  for (const FfnConfig& c : ffn_space()) {
    EXPECT_EQ(ffn_literal(ffn_from_label(ffn_label(c))), ffn_literal(c));
    EXPECT_EQ(ffn_literal(ffn_from_knobs(ffn_knobs(c))), ffn_literal(c));
  }
}

TEST(Space, ALiteralNamesEveryFieldOnce) {
  const std::string literal = ffn_literal(FfnConfig{});
  FfnConfig c;
  int fields = 0;
  FfnConfig::fields(c, [&](const char* name, int value) {
    const std::string text = "." + std::string(name) + " = " + std::to_string(value);
    EXPECT_NE(literal.find(text), std::string::npos) << text << " in " << literal;
    ++fields;
  });
  EXPECT_NE(literal.find(".topology = 1"), std::string::npos) << literal;
  ++fields;  // the topology, which is the family's name elsewhere
  EXPECT_EQ(sizeof(FfnConfig), fields * sizeof(int)) << "a knob is missing from the list of fields";
}

TEST(Space, RefusalsNameTheKnobAndWhatIsAllowed) {
  const std::pair<FfnConfig, const char*> cases[] = {
      {{.rows = 12}, "rows"},      {{.rows = 0}, "rows"},       {{.rows = 56}, "rows"},
      {{.cols = 128}, "cols"},     {{.cols = 0}, "cols"},       {{.stages = 1}, "stages"},
      {{.stages = 9}, "stages"},   {{.stages = -6}, "stages"},  {{.staging = 0}, "staging"},
      {{.staging = 3}, "staging"}, {{.dynamic = 2}, "dynamic"}, {{.grouped = -1}, "grouped"},
  };
  for (const auto& [config, knob] : cases)
    EXPECT_EQ(refusal_of(config).rfind(knob, 0), 0u) << knob << ": " << refusal_of(config);
  EXPECT_NE(refusal_of({.rows = 64, .cols = 512, .stages = 3, .staging = 1}), "")
      << "more sums than registers";
  EXPECT_NE(refusal_of({.rows = 64, .cols = 256, .stages = 8, .staging = 2}), "")
      << "more shared memory than a block has";
}

TEST(Space, TwoPhasesHaveTilesOfTheirOwn) {
  for (int rows : {64, 128}) {
    bool built = false;
    for (const FfnConfig& c : ffn_space()) built |= c.topology == kF3 && c.rows == rows;
    EXPECT_TRUE(built) << rows;
  }
  const FfnConfig legal = ffn_from_label("f3-r128-c256-s3-w1-dynamic");
  FfnConfig c = legal;
  c.rows = 32;
  EXPECT_NE(refusal_of(c).find("64 and 128"), std::string::npos);
  c = legal, c.split = 2;
  EXPECT_EQ(refusal_of(c).rfind("split", 0), 0u);
  c = legal, c.stages = 4;
  EXPECT_EQ(refusal_of(c).rfind("shared memory", 0), 0u);
  c = legal, c.topology = 2;
  EXPECT_EQ(refusal_of(c).rfind("topology", 0), 0u);
  EXPECT_NE(ffn_occupancy(legal), ffn_occupancy(FfnConfig{})) << "no menu holds both";

  const Grid grid = ffn_grid(legal, 2048 + 128, 768, 132);
  ASSERT_EQ(grid.phases, 2);
  EXPECT_EQ(grid.phase[0].col_tiles, 6) << "128-blocks of h";
  EXPECT_EQ(grid.phase[1].col_tiles, 9) << "256-blocks of the output, the last half empty";
  EXPECT_EQ(grid.phase[1].rows, 128);
  EXPECT_EQ(ffn_additions(legal, 768), 1);
  EXPECT_EQ(ffn_additions(legal, 2560), 2) << "parts of h";
  EXPECT_EQ(ffn_additions(legal, 16384), DownParts::kMost);
  EXPECT_EQ(ffn_additions(FfnConfig{}, 768), 6);
  EXPECT_EQ(ffn_owned_experts(legal, 768, 132, 16), 16) << "as f1: six 128-blocks of h an expert";
}

TEST(Space, KnobsOfOthersAreRefusedByName) {
  EXPECT_NE(error_of("[]").find("JSON object"), std::string::npos);
  EXPECT_NE(error_of("{").find("JSON object"), std::string::npos);
  EXPECT_NE(error_of("{}").find("knobs/family"), std::string::npos);
  EXPECT_NE(error_of(R"({"family":"f9"})").find("f9"), std::string::npos);
  EXPECT_NE(error_of(R"({"family":"f1"})").find("(missing)"), std::string::npos);
  EXPECT_NE(error_of(with("rows", "12")).find("rows"), std::string::npos);
  EXPECT_NE(error_of(with("stages", "6.5")).find("knobs/stages"), std::string::npos);
  EXPECT_NE(error_of(with("cols", "\"256\"")).find("knobs/cols"), std::string::npos);
  EXPECT_NE(error_of(with("grouped", "0,\"colour\":1")).find("known knobs"), std::string::npos);
  EXPECT_EQ(error_of(ffn_knobs(FfnConfig{})), "");
}

TEST(Space, LabelsOfNothingAreRefusedWithAnExample) {
  for (const char* label : {"", "f1", "f1-r12-c256-s6-w2-dynamic", "f2-r8"})
    EXPECT_THROW(ffn_from_label(label), Error) << label;
}

TEST(SharedMemory, EveryConfigurationFitsABlock) {
  for (const FfnConfig& c : ffn_space())
    EXPECT_LE(ffn_shared_bytes(c), kSharedMemoryLimit) << ffn_label(c);
}

// Regions (begin, bytes) in order, none over another, all inside.
void expect_apart(std::span<const std::pair<int, int>> regions, int all, const std::string& label) {
  int end = 0;
  for (const auto& [begin, bytes] : regions) {
    EXPECT_GE(begin, end) << label;
    end = begin + bytes;
  }
  EXPECT_LE(end, all) << label;
}

// Swizzled tiles repeat every 1,024 bytes, vector loads and bulk copies need 16, floats 4.
TEST(SharedMemory, RegionsAreInOrderApartAndAlignedAsTheirReadersNeed) {
  for (const FfnConfig& c : ffn_space()) {
    if (c.topology != kF1) continue;
    const std::string label = ffn_label(c);
    const int places = c.stages + ffn_early(c);
    const FfnLayout l = ffn_layout(c, ffn_early(c));
    EXPECT_EQ(l.rows, c.stages * kFfnUnitBytes) << label << ": the ring comes first";
    EXPECT_EQ(l.rows % 1024, 0) << label;
    EXPECT_EQ(c.rows * kScaleGroup % 1024, 0) << label << ": one stage's rows follow another's";
    EXPECT_EQ(l.intermediate % 1024, 0) << label;
    EXPECT_EQ(l.staging % 16, 0) << label;
    EXPECT_EQ(l.exchange % 16, 0) << label;
    EXPECT_EQ(l.scales_x % 8, 0) << label;
    EXPECT_EQ(l.scales_w % 8, 0) << label;
    EXPECT_EQ(l.scales_mid % 8, 0) << label;
    EXPECT_EQ(l.items % 16, 0) << label;
    EXPECT_EQ(l.item_bytes % 16, 0) << label;
    const std::pair<int, int> regions[] = {
        {l.rows, places * c.split * c.rows * kScaleGroup},
        {l.intermediate, ffn_groups(c) * c.rows * kScaleGroup},
        {l.staging, std::max(kFfnConsumers * c.staging * c.rows * kFfnStagingPitch,
                             2 * kFfnConsumers * c.rows * kFfnSumsPitch)},
        {l.exchange, 2 * (c.split - 1) * c.rows * kScaleGroup / c.split * 4},
        {l.scales_x, places * c.split * c.rows * 4},
        {l.scales_w, places * c.split * 2 * 4},
        {l.scales_mid, ffn_groups(c) * c.rows * 4},
        {l.items, kFfnItemSlots * l.item_bytes}};
    expect_apart(regions, l.bytes, label);
    EXPECT_LT(l.bytes + 1024 + kFfnBarrierBytes - 1, ffn_shared_bytes(c) + 1) << label;
  }
}

TEST(SharedMemory, OfTwoPhasesToo) {
  for (const FfnConfig& c : ffn_space()) {
    if (c.topology != kF3) continue;
    const std::string label = ffn_label(c);
    const PhasedLayout l = phased_layout(c.rows, c.stages);
    EXPECT_EQ(l.rows % 1024, 0) << label;
    EXPECT_EQ(l.rows, c.stages * kFfnUnitBytes) << label << ": weights first, in one place for all";
    EXPECT_EQ(l.staging % 16, 0) << label;
    EXPECT_EQ(l.items % 16, 0) << label;
    EXPECT_EQ(l.item_bytes % 16, 0) << label;
    EXPECT_EQ(l.item_bytes, kPhasedHeadBytes + 2 * kPhasedMostUnits * 4 + c.rows * 8) << label;
    EXPECT_EQ(l.scales_x % 16, 0) << label << ": a bulk copy's place";
    EXPECT_LE(kPhasedMiddlePitch, kFfnStagingPitch) << "activated rows fit where outputs do";
    const std::pair<int, int> regions[] = {
        {0, c.stages * kFfnUnitBytes},          {l.rows, c.stages * c.rows * kScaleGroup},
        {l.staging, c.rows * kFfnStagingPitch}, {l.scales_x, c.stages * (c.rows + 4) * 4},
        {l.row_max, 2 * 64 * 4},                {l.items, kFfnItemSlots * l.item_bytes}};
    expect_apart(regions, l.bytes, label);
  }
}

TEST(Registers, WhatTheWarpgroupsAskForIsNoMoreThanTheLaunchHas) {
  EXPECT_LE(128 * kFfnProducerRegisters + (kFfnThreads - 128) * kFfnConsumerRegisters, 65536);
  EXPECT_EQ(kFfnProducerRegisters % 8, 0);
  EXPECT_EQ(kFfnConsumerRegisters % 8, 0);
}

TEST(SpaceGrid, CountsSlicesAndBlocksAsTheKernelDoes) {
  const FfnConfig narrow{.rows = 16, .cols = 256}, wide{.rows = 16, .cols = 512};
  EXPECT_EQ(ffn_slices(narrow, 768), 6);
  EXPECT_EQ(ffn_slices(wide, 768), 3);
  EXPECT_EQ(ffn_slices(wide, 1408), 6) << "the last slice is half empty";
  const Grid grid = ffn_grid(narrow, 2048, 768, 132);
  EXPECT_EQ(grid.phases, 1);
  EXPECT_EQ(grid.phase[0].rows, 16);
  EXPECT_EQ(grid.phase[0].col_tiles, 6);
  EXPECT_EQ(grid.phase[0].slots, 132);
}

TEST(SpaceGrid, BlocksOwnWholeExpertsAndNoMoreThanThereAre) {
  const FfnConfig c{.rows = 8, .cols = 256};
  EXPECT_EQ(ffn_owned_experts(c, 768, 132, 16), 16);
  EXPECT_EQ(ffn_owned_experts(c, 2048, 132, 32), 8) << "8 experts of 16 slices fill 128 blocks";
  EXPECT_EQ(ffn_owned_experts(c, 32768, 132, 8), 0) << "an expert has more slices than blocks";
  for (int experts : {1, 8, 16, 64, 512})
    for (int h : {128, 768, 1408, 2048, 16384}) {
      const int owned = ffn_owned_experts(c, h, 132, experts);
      EXPECT_LE(owned, experts);
      EXPECT_LE(owned * ffn_slices(c, h), 132);
    }
}

// What down_parts.h says of its thresholds, over lists of tiles one by one.
TEST(DownParts, AreWhatCostsLeast) {
  const int blocks = 132;
  for (const auto& [units, columns] : {std::pair{50, 16}, std::pair{128, 24}, std::pair{8, 8},
                                       std::pair{20, 14}, std::pair{6, 8}}) {
    DownParts parts = down_parts_of(units, columns, blocks);
    parts.last_tiles = 0, parts.last_parts = 1;  // which short lists know nothing of
    const auto cost = [&](int tiles, int p) {
      return 4.0 * tiles * columns * p / blocks + units / (2.0 * p);
    };
    for (int tiles = 1; tiles <= 200; ++tiles) {
      const int chosen = parts.of(tiles).parts;
      EXPECT_EQ(units % chosen, 0);
      if (tiles * columns > blocks) {
        EXPECT_EQ(chosen, 1) << units << " " << tiles;
        continue;
      }
      for (int p = 1; p <= DownParts::kMost; ++p)
        if (units % p == 0 && units / p >= DownParts::kLeastUnits) {
          EXPECT_LE(cost(tiles, chosen), cost(tiles, p) * (1 + 1e-9)) << units << " " << tiles;
        }
    }
  }
}

TEST(DownParts, FewTilesOfALargeHAreCutAndManyAreNot) {
  const DownParts mixtral = ffn_down_parts(6144, 16384, 132);
  EXPECT_EQ(mixtral.of(1).parts, 8);
  EXPECT_EQ(mixtral.of(5).parts, 4);
  EXPECT_EQ(mixtral.of(5).tile, 0) << "of all tiles";
  EXPECT_EQ(mixtral.of(6).tile, 3) << "more items than blocks: of the last three, 72 items";
  const DownParts qwen2 = ffn_down_parts(3584, 2560, 132);
  EXPECT_EQ(qwen2.of(8).parts, 2);
  EXPECT_EQ(qwen2.of(8).tile, 0);
  EXPECT_EQ(ffn_down_parts(2048, 1024, 132).of(8).parts, 1) << "every block has one item";
  EXPECT_EQ(DownParts{}.of(0).parts, 1) << "where a row's result has one place";
}

// Half a round of items, so that the blocks end together.
TEST(DownParts, OfALongListTheLastTilesAreCut) {
  const int blocks = 132;
  for (const auto& [hidden, intermediate] :
       {std::pair{4096, 6400}, std::pair{6144, 16384}, std::pair{2048, 1024}, std::pair{3584, 2560},
        std::pair{2048, 768}, std::pair{2048, 1408}, std::pair{7168, 2048}}) {
    const DownParts parts = ffn_down_parts(hidden, intermediate, blocks);
    const int units = intermediate / kScaleGroup, columns = ceil_div(hidden, kFfnUnitCols);
    for (int tiles = blocks / columns + 1; tiles < 300; ++tiles) {
      const DownCut cut = parts.of(tiles);
      EXPECT_EQ(units % cut.parts, 0);
      if (units < 2 * DownParts::kLeastUnits || units % 2) {
        EXPECT_EQ(cut.parts, 1) << intermediate;
        continue;
      }
      EXPECT_GE(cut.parts, 2) << intermediate;
      EXPECT_GE(units / cut.parts, DownParts::kLeastUnits) << intermediate;
      EXPECT_LE(cut.parts, ffn_additions({.topology = kF3}, intermediate));
      EXPECT_GE((tiles - cut.tile) * columns, blocks / 2);
      EXPECT_LT((tiles - cut.tile - 1) * columns, blocks / 2);
    }
  }
}

}  // namespace
}  // namespace ramp
