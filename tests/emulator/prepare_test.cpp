// SPDX-License-Identifier: Apache-2.0
// `prepare` alone, in one workspace pass after pass, against its host twin: loads that one block
// selects from and loads that are spread over runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "choice/select.hpp"
#include "kernels/numeric.h"
#include "kernels/prepare/runs.h"
#include "kernels/prepare/twin.hpp"
#include "kernels/prepare/workspace.hpp"
#include "problem/random.hpp"
#include "runtime/layer_arguments.hpp"
#include "runtime/trial.hpp"
#include "tests/emulator/device_code.hpp"
#include "tests/emulator/thread.hpp"

namespace ramp::emulator {
namespace {

constexpr int kSms = 12;

// A GPU's share of a layer, and what its menu believes to cost.
struct Share {
  LocalShape shape;
  int experts = 0, first_expert = 0;
  bool scattered = false;  // by an expert map, instead of a range
};

enum class Routing { kUniform, kOneExpert, kStrange, kForeign, kReady, kReadyTooMany, kSlots };
enum class Rows { kBf16, kE4m3, kE4m3ByColumn };

struct Given {
  Routing routing = Routing::kUniform;
  int tokens = 0, forced = -1;  // kSlots: tokens of each expert
  bool gates = true;
  Rows rows = Rows::kBf16;
};

struct Arrived {
  int tokens = 0, slots = 0;
  std::vector<int> ids, ready;
  std::vector<float> gates;
  std::vector<std::uint16_t> hidden, output;
  Rows rows = Rows::kBf16;
  std::vector<float> scales;  // as delivered, of e4m3 rows that nobody here looks at
  ScaleStrides strides;

  float scale(long long row, long long group) const {
    const long long expert = slots > 0 ? row / slots : 0;
    return scales[static_cast<std::size_t>(
        expert * strides.expert + (row - expert * slots) * strides.row + group * strides.group)];
  }
};

std::vector<int> map_of(const Share& share) {
  std::vector<int> map(static_cast<std::size_t>(share.experts), -1);
  for (int e = 0; e < share.shape.experts; ++e)
    map[static_cast<std::size_t>(share.scattered ? (e * 7 + 3) % share.experts
                                                 : share.first_expert + e)] = e;
  return map;
}

Arrived arrive(const Share& share, const Given& given, Random& random) {
  const int k = share.shape.top_k;
  const bool ready = given.routing == Routing::kReady || given.routing == Routing::kReadyTooMany;
  Arrived a;
  a.tokens = given.tokens;
  if (given.routing == Routing::kSlots) {
    a.slots = given.tokens;
    a.tokens = a.slots * share.shape.experts;
    for (int e = 0; e < share.shape.experts; ++e) {  // few, all, too many, none, less than none
      const int some = static_cast<int>(random.below(static_cast<std::uint64_t>(a.slots) + 1));
      const int counts[] = {some, a.slots, a.slots + 1, 0, -7, some / 8};
      a.ready.push_back(counts[random.below(std::size(counts))]);
    }
  } else if (ready) {
    a.ready.assign(static_cast<std::size_t>(share.shape.experts), 0);
    const int rows = given.tokens * (given.routing == Routing::kReadyTooMany ? 2 : 1);
    for (int r = 0; r < rows; ++r) ++a.ready[random.below(a.ready.size())];
    a.ready[a.ready.size() / 2] = given.routing == Routing::kReadyTooMany ? -5 : 0;
  } else {
    const std::vector<int> map = map_of(share);
    for (int i = 0; i < given.tokens * k; ++i) {
      int id = static_cast<int>(random.below(static_cast<std::uint64_t>(share.experts)));
      if (given.routing == Routing::kOneExpert && random.below(4)) id = share.experts / 2;
      if (given.routing == Routing::kForeign)
        while (map[static_cast<std::size_t>(id)] >= 0) id = (id + 1) % share.experts;
      if (given.routing == Routing::kStrange) {
        const int strange[] = {-1, -2, share.experts, std::numeric_limits<int>::max(),
                               std::numeric_limits<int>::min()};
        if (random.below(3) == 0) id = strange[random.below(std::size(strange))];
        // One of them a token, or it would be a question whether they are duplicates.
        if (id < -1 || id >= share.experts) id = i % k ? -1 : id;
      }
      a.ids.push_back(id);
    }
  }
  if (given.gates) a.gates = random_gates(a.tokens, a.ready.empty() ? k : 1, random.below(1 << 20));
  a.hidden = random_rows(a.tokens, share.shape.hidden, random.below(1 << 20));
  a.output.assign(a.hidden.size(), 0xffff);
  a.rows = given.rows;
  const long long groups = share.shape.hidden / kScaleGroup;
  const long long height = a.slots > 0 ? a.slots : a.tokens;  // of an expert's columns
  a.strides = {height * groups, groups, 1};
  if (given.rows == Rows::kE4m3ByColumn) a.strides = {height * groups, 1, height};
  if (given.rows != Rows::kBf16)
    for (long long i = 0; i < a.tokens * groups; ++i) a.scales.push_back(random.uniform_float());
  return a;
}

// What one pass left, and whether it is what the twin says.
struct Counted {
  long long passes = 0, foreign = 0, padded = 0, invalid = 0, duplicate = 0;
};

bool same_rows(const Row* got, const Row* want, int rows) {
  return std::memcmp(got, want, static_cast<std::size_t>(rows) * sizeof(Row)) == 0;
}

// Every pair's row is its own, and says so.
void expect_positions(const PrepareArgs& p, const GroupedRows& want, const std::vector<int>& ids,
                      const std::vector<int>& map) {
  std::vector<int> seen(want.rows.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool known = ids[i] >= 0 && ids[i] < static_cast<int>(map.size());
    const int expert = known ? map[static_cast<std::size_t>(ids[i])] : -1, at = p.position[i];
    if (expert < 0) {
      EXPECT_EQ(at, -1) << i;
      continue;
    }
    const auto e = static_cast<std::size_t>(expert);
    ASSERT_GE(at, want.row_base[e]) << i;
    ASSERT_LT(at, want.row_base[e] + want.counts[e]) << i;
    EXPECT_EQ(want.rows[static_cast<std::size_t>(at)].token, static_cast<int>(i) / p.top_k);
    ++seen[static_cast<std::size_t>(at)];
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), std::ssize(seen));
}

void expect_prepared(const PrepareArgs& p, const Share& share, const Arrived& a, Counted& counted) {
  const std::vector<int> map = map_of(share);
  GroupedRows want = a.ready.empty()
                         ? group_ids(a.ids, a.gates, share.shape.top_k, map, share.shape.experts)
                         : GroupedRows{};
  if (a.slots > 0) {
    want = group_slots(a.ready, a.slots, a.gates);
  } else if (!a.ready.empty()) {
    std::vector<int> cut;
    for (int rows = 0; const int n : a.ready) {
      cut.push_back(std::clamp(n, 0, p.tokens - rows));
      rows += cut.back();
    }
    want = group_counts(cut, a.gates);
  }
  const std::vector<MenuEntry> menu(p.menu.entry, p.menu.entry + p.menu.entries);
  const int choice =
      p.forced >= 0 ? p.forced : select(std::span<const int>(want.counts), menu).entry;
  const int experts = share.shape.experts, rows = static_cast<int>(want.rows.size());
  EXPECT_EQ(std::vector<int>(p.counts, p.counts + experts), want.counts);
  ASSERT_EQ(p.state->rows, rows);
  EXPECT_EQ(p.state->choice, choice);
  EXPECT_EQ(p.state->claim, 0);
  for (std::size_t e = 0, before = 0; e < want.counts.size(); ++e) {
    EXPECT_TRUE(same_rows(p.rows + want.row_base[e], want.rows.data() + before, want.counts[e]));
    before += static_cast<std::size_t>(want.counts[e]);
  }
  const std::vector<Row> head = head_rows(want);
  for (int e = 0; e < experts; ++e)
    EXPECT_TRUE(same_rows(p.head + e * kHeadRows, head.data() + e * kHeadRows,
                          std::min(want.counts[static_cast<std::size_t>(e)], kHeadRows)))
        << e;
  const Grid& grid = p.menu.entry[choice].grid;
  const std::vector<Tile> tiles =
      listed_tiles(want.counts, want.row_base, grid, p.owned_experts, p.together);
  ASSERT_EQ(p.state->tiles, static_cast<int>(tiles.size()));
  EXPECT_EQ(std::memcmp(p.tile, tiles.data(), tiles.size() * sizeof(Tile)), 0);

  ++counted.passes;
  if (a.ready.empty()) {
    const Selection s = select(a.ids, share.shape.top_k, map, experts, menu);
    counted.foreign += s.ids.foreign;
    counted.padded += s.ids.padding;
    counted.invalid += s.ids.invalid;
    counted.duplicate += s.ids.duplicates;
  }
  for (std::size_t e = 0; e < a.ready.size(); ++e) counted.invalid += a.ready[e] != want.counts[e];
  EXPECT_EQ(p.state->passes, counted.passes);
  EXPECT_EQ(p.state->foreign, counted.foreign);
  EXPECT_EQ(p.state->padded, counted.padded);
  EXPECT_EQ(p.state->invalid, counted.invalid);
  EXPECT_EQ(p.state->duplicate, counted.duplicate);

  if (grid.phases > 1) {
    EXPECT_EQ(std::count(p.ready, p.ready + tiles.size(), 0), std::ssize(tiles));
  }
  if (p.position) expect_positions(p, want, a.ids, map);
  int wrong = 0, wrong_output = 0;
  std::vector<bool> read(
      static_cast<std::size_t>(p.tokens));  // of the others large loads leave out
  for (const Row& row : want.rows) read[static_cast<std::size_t>(row.token)] = true;
  const std::size_t groups = static_cast<std::size_t>(p.hidden_size) / kScaleGroup;
  const auto scale_of = [&](std::size_t row, std::size_t group) {
    return p.rows_scale[scale_at(p.scale_pitch, static_cast<long long>(row),
                                 static_cast<int>(group), static_cast<int>(groups))];
  };
  // Group g of what came stands at `at` of what was made.
  const auto expect_quantised = [&](std::size_t g, std::size_t at) {
    float amax = 0;
    const std::uint16_t* x = a.hidden.data() + g * kScaleGroup;
    for (int i = 0; i < kScaleGroup; ++i) amax = std::fmax(amax, std::fabs(from_bf16(x[i])));
    wrong += scale_of(at / groups, at % groups) != group_scale(amax);
    for (int i = 0; i < kScaleGroup; ++i)
      wrong += p.rows_q[at * kScaleGroup + static_cast<std::size_t>(i)] !=
               to_e4m3(quantise_divide(from_bf16(x[i]), group_scale(amax)));
  };
  for (std::size_t g = 0; g < a.hidden.size() / kScaleGroup; ++g) {
    // Cleared; or left to `combine`, to `ffn`, or to nobody.
    const int output = p.output && (a.slots == 0 || read[g / groups]) ? 0 : 0xffff;
    wrong_output +=
        std::count(a.output.begin() + static_cast<std::ptrdiff_t>(g * kScaleGroup),
                   a.output.begin() + static_cast<std::ptrdiff_t>((g + 1) * kScaleGroup),
                   output) != kScaleGroup;
    if (!read[g / groups] || a.rows == Rows::kE4m3 || p.row_a_pair) continue;
    if (a.rows == Rows::kE4m3ByColumn) {
      wrong += scale_of(g / groups, g % groups) !=
               a.scale(static_cast<long long>(g / groups), static_cast<long long>(g % groups));
      continue;
    }
    expect_quantised(g, g);
  }
  for (std::size_t r = 0; p.row_a_pair && r < want.rows.size(); ++r)
    for (std::size_t g = 0; g < groups; ++g)
      expect_quantised(static_cast<std::size_t>(want.rows[r].token) * groups + g, r * groups + g);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(wrong_output, 0);
}

constexpr WorkspaceParts kParts{.middle = true, .slots = true, .row_a_pair = true};

void expect_passes(const Share& share, const std::vector<Given>& passes, std::uint64_t seed,
                   bool phased = false) {
  LayerOptions options;
  options.shape = share.shape;
  options.experts = share.experts;
  options.menu = {{.rows = 8, .cols = 256, .stages = 6, .staging = 1, .dynamic = 1},
                  {.rows = 16, .cols = 256, .stages = 6, .staging = 1, .dynamic = 1},
                  {.rows = 64, .cols = 256, .stages = 3, .staging = 1, .dynamic = 1}};
  if (phased)
    options.menu = {{.rows = 64, .stages = 4, .staging = 1, .topology = kF3},
                    {.rows = 128, .stages = 3, .staging = 1, .topology = kF3}};
  Random random(seed, 11);
  for (std::size_t i = 0; i < options.menu.size(); ++i)
    options.theta.push_back({random.uniform_float(), random.uniform_float(),
                             0.02f * random.uniform_float(), 0.1f * random.uniform_float()});
  const std::vector<int> map = map_of(share);
  const LayerArguments shared =
      shared_arguments(options, share.first_expert, share.scattered ? map.data() : nullptr, nullptr,
                       nullptr, kSms, 4.58);

  std::vector<Arrived> arrived;
  int most = 1;
  for (const Given& given : passes) {
    arrived.push_back(arrive(share, given, random));
    most = std::max(most, arrived.back().tokens);
  }
  const std::size_t bytes = workspace_layout(share.shape, most, kParts).bytes;
  std::unique_ptr<char, decltype(&std::free)> workspace(
      static_cast<char*>(std::aligned_alloc(kWorkspaceAlignment, bytes)), &std::free);
  std::memset(workspace.get(), 0xff, bytes);
  std::memset(workspace.get(), 0, sizeof(LayerState));

  Counted counted;
  std::vector<Launch> launches;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    Arrived& a = arrived[i];
    LayerArguments arguments = shared;
    place_in_workspace(arguments, workspace_layout(share.shape, a.tokens, kParts), workspace.get());
    PrepareArgs& p = arguments.prepare;
    p.ids = a.ready.empty() ? a.ids.data() : nullptr;
    p.ready_counts = a.ready.empty() ? nullptr : a.ready.data();
    p.gates = a.gates.empty() ? nullptr : a.gates.data();
    p.output = arguments.ffn.output = a.output.data();
    set_rows(arguments, a.hidden.data(), a.scales.empty() ? nullptr : a.scales.data(), a.strides,
             a.slots);
    p.tokens = a.tokens;
    p.forced = passes[i].forced;
    set_mode(arguments,
             {phased, phased && i % 3 > 0, phased && i % 2 == 0 && p.ids && a.rows == Rows::kBf16});
    // The router and what stands before it: until it is complete, nobody may look.
    Launch router;
    router.name = "router";
    router.body = [written = a, &a] {
      launch_dependents();
      wait_for_dependencies();
      for (int turn = 0; turn < 20; ++turn) exchange("router", 0);
      if (place().thread.x != 0) return;
      std::copy(written.ids.begin(), written.ids.end(), a.ids.begin());
      std::copy(written.ready.begin(), written.ready.end(), a.ready.begin());
      std::copy(written.hidden.begin(), written.hidden.end(), a.hidden.begin());
      std::copy(written.scales.begin(), written.scales.end(), a.scales.begin());
    };
    std::fill(a.ids.begin(), a.ids.end(), -1);
    std::fill(a.ready.begin(), a.ready.end(), 0);
    std::fill(a.hidden.begin(), a.hidden.end(), std::uint16_t{0xffff});
    std::fill(a.scales.begin(), a.scales.end(), std::nanf(""));
    launches.push_back(router);
    for (Launch& launch : prepare_launches(p, kSms)) launches.push_back(std::move(launch));
    Launch look;
    look.name = "look";
    look.threads = 1;
    look.programmatic = false;
    look.body = [p, &share, &a, &counted, i] {
      SCOPED_TRACE("pass " + std::to_string(i));
      expect_prepared(p, share, a, counted);
    };
    launches.push_back(look);
  }
  run(launches, seed);
  EXPECT_EQ(counted.passes, static_cast<long long>(passes.size()));
}

const Share kFew{{8, 8, 128, 512}, 32, 8};

TEST(Prepare, LoadsAroundTheThresholdTakeTurnsInOneWorkspace) {
  const int alone = kPairsAlone / kFew.shape.top_k, one = kPairsOfCluster / kFew.shape.top_k;
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    expect_passes(kFew,
                  {{Routing::kUniform, one},
                   {Routing::kUniform, one + 1},
                   {Routing::kUniform, alone},
                   {Routing::kUniform, alone + 1},
                   {Routing::kStrange, 700},
                   {Routing::kUniform, 7},
                   {Routing::kForeign, 1100},
                   {Routing::kOneExpert, 1024, 1, false},
                   {Routing::kStrange, 40, 2},
                   {Routing::kUniform, 1024}},
                  seed);
}

TEST(Prepare, EveryNumberOfExpertsIsSummedOverTheRuns) {
  for (const int experts : {1, 31, 33, 160, 512})
    for (const bool scattered : {false, true}) {
      const Share share{{experts, 4, 128, 256}, experts + 3, scattered ? 0 : 2, scattered};
      expect_passes(share, {{Routing::kUniform, 1500}, {Routing::kStrange, 9000}},
                    static_cast<std::uint64_t>(experts));
    }
}

TEST(Prepare, RowsOfManyColumnsAreTakenInPieces) {
  const Share share{{4, 32, 1152, 256}, 40, 5};
  expect_passes(share,
                {{Routing::kUniform, 40}, {Routing::kForeign, 45}, {Routing::kStrange, 1100}}, 1);
}

// Rows find back to their pairs, and the list begins with the tiles that blocks own.
TEST(Prepare, TwoPhasesListTheOwnedTilesToo) {
  const Share odd{{3, 4, 128, 256}, 7, 2}, wide{{8, 8, 128, 4096}, 32, 8};
  for (const Share& share : {odd, wide})
    for (std::uint64_t seed = 1; seed <= 2; ++seed)
      expect_passes(share,
                    {{Routing::kUniform, 300},
                     {Routing::kStrange, 700},
                     {Routing::kOneExpert, 900},
                     {Routing::kForeign, 40},
                     {Routing::kUniform, 2},
                     {Routing::kStrange, 1500},
                     {Routing::kReady, 300},
                     {Routing::kOneExpert, 1200}},
                    seed, true);
}

// The most runs there are, each with fewer or more pairs than a lane takes at once.
TEST(Prepare, LongRunsGoRoundByRound) {
  const Share wide{{24, 32, 128, 256}, 40, 5};
  expect_passes(wide, {{Routing::kUniform, 2000}, {Routing::kStrange, 8192}}, 1);
  const int at_once = kMostRuns * kPairsOfRun * 8 / 32;
  expect_passes(wide, {{Routing::kUniform, at_once + 1}, {Routing::kOneExpert, 600}}, 2);
}

// Rows that come quantised, in each of the ways to select; only the output is left to clear, or
// scales to put in order.
TEST(Prepare, RowsThatComeQuantisedAreLeftAlone) {
  for (const bool phased : {false, true})
    for (const Rows rows : {Rows::kE4m3, Rows::kE4m3ByColumn})
      expect_passes({{8, 8, 640, 512}, 32, 8},
                    {{Routing::kUniform, 40, -1, true, rows},
                     {Routing::kStrange, 300, -1, true, rows},
                     {Routing::kUniform, 4500, -1, true, rows},
                     {Routing::kUniform, 30},
                     {Routing::kReady, 90, 1, false, rows},
                     {Routing::kReady, kPairsOfRun + 7, -1, true, rows}},
                    7, phased);
}

// Of slots those that are filled are grouped, quantised and cleared, and no others.
TEST(Prepare, SlotsAreTakenAsFarAsTheyAreFilled) {
  const Share few{{5, 8, 640, 512}, 32, 8}, many{{160, 2, 128, 256}, 160, 0};
  for (const bool phased : {false, true})
    for (const Rows rows : {Rows::kBf16, Rows::kE4m3, Rows::kE4m3ByColumn})
      for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        expect_passes(few,
                      {{Routing::kSlots, 1, -1, true, rows},
                       {Routing::kSlots, 70, -1, false, rows},
                       {Routing::kUniform, 60},
                       {Routing::kSlots, 1000, -1, true, rows},
                       {Routing::kSlots, 33, 1, true, rows}},
                      seed, phased);
        expect_passes(many,
                      {{Routing::kSlots, 20, -1, true, rows},
                       {Routing::kSlots, 40, -1, true, rows},
                       {Routing::kUniform, 200}},
                      seed, phased);
      }
}

TEST(Prepare, ReadyCountsOfManyRowsAreSharedByTheBlocks) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    expect_passes(kFew,
                  {{Routing::kReady, kPairsOfRun},
                   {Routing::kReady, kPairsOfRun + 1},
                   {Routing::kUniform, 1024},
                   {Routing::kReadyTooMany, 9000, -1, false},
                   {Routing::kReadyTooMany, 300}},
                  seed);
}

}  // namespace
}  // namespace ramp::emulator
