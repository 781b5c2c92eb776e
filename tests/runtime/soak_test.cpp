// SPDX-License-Identifier: Apache-2.0
// What a soak draws and how it judges, without a GPU.
#include "runtime/soak.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "kernels/numeric.h"
#include "kernels/prepare/runs.h"
#include "runtime/soak_loads.hpp"

namespace ramp {
namespace {

const CheckSetting kSetting{"soak", {8, 4, 256, 128}, 32, 8, {}};

int local_ids(const SoakLoad& load, int token) {
  int n = 0;
  for (int j = 0; j < 4; ++j) {
    const int id = load.ids[static_cast<std::size_t>(token * 4 + j)];
    n += id >= 8 && id < 16;
  }
  return n;
}

TEST(SoakLoads, DependOnSeedAndNumberAlone) {
  const SoakLoad a = draw_soak_load(kSetting, 48, 7, 1234),
                 b = draw_soak_load(kSetting, 48, 7, 1234),
                 c = draw_soak_load(kSetting, 48, 7, 1235),
                 d = draw_soak_load(kSetting, 48, 8, 1234);
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.gates, b.gates);
  EXPECT_NE(a.gates, c.gates);
  EXPECT_NE(a.gates, d.gates);
  EXPECT_EQ(soak_size_of(5, 7, 1234), soak_size_of(5, 7, 1234));
}

TEST(SoakLoads, AreOfEveryKindAndSize) {
  constexpr int kLoads = 3000;
  std::map<SoakKind, int> kinds;
  std::set<int> live;
  int at_the_end = 0, full = 0, idle = 0, most_of_one = 0;
  for (int n = 0; n < kLoads; ++n) {
    const SoakLoad load = draw_soak_load(kSetting, 48, 1, n);
    ASSERT_EQ(load.ids.size(), 48u * 4);
    ASSERT_EQ(load.gates.size(), 48u * 4);
    ++kinds[load.kind];
    live.insert(load.live);
    full += load.live == 48;
    std::map<int, int> rows;
    int tokens = 0, pairs = 0;
    for (int t = 0; t < 48; ++t) {
      const auto* ids = &load.ids[static_cast<std::size_t>(t) * 4];
      const bool any = std::any_of(ids, ids + 4, [](int id) { return id != -1; });
      tokens += any;
      pairs += local_ids(load, t);
      if (load.kind == SoakKind::kUniform || load.kind == SoakKind::kSkewed) {
        EXPECT_EQ(std::set<int>(ids, ids + 4).size(), any ? 4u : 1u) << "different experts";
      }
      for (int j = 0; j < 4; ++j)
        if (ids[j] >= 8 && ids[j] < 16) ++rows[ids[j]];
      if (any && t == 47 && load.live < 24) ++at_the_end;
    }
    if (load.kind != SoakKind::kStrange) {  // which may make nobody's ids of a token's last
      EXPECT_EQ(tokens, load.live) << load.name();
    }
    if (load.kind == SoakKind::kEmpty) {
      EXPECT_EQ(pairs, 0);
    }
    if (load.kind == SoakKind::kOneExpert) {
      EXPECT_EQ(rows.size(), 1u);
      most_of_one = std::max(most_of_one, rows.begin()->second);
    }
    if (load.kind == SoakKind::kOneToken) {
      EXPECT_EQ(load.live, 1);
    }
    idle += pairs == 0;
  }
  EXPECT_EQ(kinds.size(), std::size_t{kSoakKinds});
  for (const auto& [kind, n] : kinds) EXPECT_GT(n, kLoads / kSoakKinds / 2) << soak_kind_name(kind);
  EXPECT_EQ(live.size(), 48u) << "every size";
  EXPECT_GT(full, kLoads / 4);
  EXPECT_GT(at_the_end, 5) << "live tokens stand behind padding too";
  EXPECT_GT(idle, kLoads / kSoakKinds / 2);
  EXPECT_EQ(most_of_one, 48) << "all on one expert";
}

TEST(SoakLoads, OfALayerWithoutOtherGpusAreEmptyByPaddingAlone) {
  const CheckSetting all{"all", {8, 4, 256, 128}, 8, 0, {}};
  for (int n = 0; n < 200; ++n) {
    const SoakLoad load = draw_soak_load(all, 30, 2, n);
    if (load.kind != SoakKind::kEmpty) continue;
    EXPECT_EQ(std::count(load.ids.begin(), load.ids.end(), -1), std::ssize(load.ids));
  }
}

TEST(SoakSizes, TakeEachWayToSelectAndTheLargeOnesRarely) {
  for (const int k : {1, 2, 8, 32})
    for (const int experts : {1, 16, 512}) {
      const CheckSetting setting{"", {experts, k, 256, 128}, 2 * experts, 0, {}};
      const std::vector<SoakSize> sizes = soak_sizes(setting);
      ASSERT_EQ(sizes.size(), 5u);
      const SelectBy wanted[] = {SelectBy::kBlock, SelectBy::kCluster, SelectBy::kRuns,
                                 SelectBy::kRuns, SelectBy::kRuns};
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const bool slots = i == 2 || i == 3;
        EXPECT_EQ(sizes[i].slots > 0, slots);
        const int rows = sizes[i].rows(setting.shape);
        const Selecting selecting = selecting_of(slots ? rows : rows * k, slots);
        EXPECT_EQ(selecting.by, wanted[i]) << i << " " << k;
        if (slots) {
          EXPECT_EQ(selecting.blocks > 1, i == 3) << k;
        }
      }
    }
  int taken[5] = {};
  for (int n = 0; n < 10000; ++n) ++taken[soak_size_of(5, 1, n)];
  EXPECT_NEAR(taken[3], 156, 60);
  EXPECT_NEAR(taken[4], 156, 60);
  EXPECT_NEAR(taken[0], taken[2], 500);
}

TEST(SoakSizes, SlotsAreLeftEmptyAndAskedForTooMuch) {
  const CheckSetting setting = soak_setting();
  const SoakSize size = soak_sizes(setting)[2];
  const std::vector<int> map = full_map(setting);
  int empty = 0, filled = 0, too_many = 0;
  for (int n = 0; n < 300; ++n)
    for (const int rows : soak_counts(draw_soak_load(setting, size.tokens, 1, n), map, 16)) {
      empty += rows == 0;
      filled += rows > 0 && rows < size.slots;
      too_many += rows > size.slots;
    }
  EXPECT_GT(empty, 300);
  EXPECT_GT(filled, 300);
  EXPECT_GT(too_many, 50);
}

TEST(SoakSizes, ThePoolStaysCheapAndIsNeverEmpty) {
  EXPECT_EQ(soak_pool(soak_setting().shape), 256);
  EXPECT_EQ(soak_pool({32, 8, 7168, 2048}), 8);
}

// A table and an output that has the very sums.
struct Judged {
  SoakTable table{16, 8, 256, {}};
  std::vector<int> map = full_map(kSetting);
  SoakLoad load;
  std::vector<std::uint16_t> output;

  explicit Judged(SoakKind kind, int number = 0) {
    const auto rows = random_rows(16 * 8, 256, 3);
    table.rows.assign(rows.begin(), rows.end());
    do load = draw_soak_load(kSetting, 48, 5, number++);
    while (load.kind != kind || load.live < (kind == SoakKind::kOneToken ? 1 : 20));
    for (int t = 0; t < 48; ++t)
      for (int i = 0; i < 256; ++i) {
        double sum = 0;
        for (int j = 0; j < 4; ++j) {
          const auto at = static_cast<std::size_t>(t * 4 + j);
          const int id = load.ids[at];
          if (id >= 8 && id < 16) sum += load.gates[at] * from_bf16(table.row(id - 8, t)[i]);
        }
        output.push_back(to_bf16(static_cast<float>(sum)));
      }
  }
  OutputError error() const { return soak_error(table, load, map, output.data()); }
};

TEST(SoakError, OfTheRightSumsIsARounding) {
  for (const SoakKind kind :
       {SoakKind::kUniform, SoakKind::kSkewed, SoakKind::kOneExpert, SoakKind::kStrange}) {
    const Judged judged(kind);
    EXPECT_GT(most_local_pairs(judged.load, judged.map), 0);
    EXPECT_LT(judged.error().all, 0.003) << soak_kind_name(kind);
    EXPECT_GT(judged.error().all, 0.0005);
    EXPECT_LT(judged.error().worst_piece, 0.004);
  }
}

TEST(SoakError, OfAnEmptyLoadIsNoneOrInfinite) {
  Judged judged(SoakKind::kEmpty);
  EXPECT_EQ(judged.error().all, 0);
  EXPECT_EQ(most_local_pairs(judged.load, judged.map), 0);
  judged.output[77] = to_bf16(1e-6f);
  EXPECT_TRUE(std::isinf(judged.error().all)) << "a token without experts has zeros";
}

TEST(SoakError, SeesOneRowTooManyOneTooFewAndWhatNobodyWrote) {
  const Judged right(SoakKind::kUniform);
  int busy = 0, idle = 0;
  while (local_ids(right.load, busy) == 0) ++busy;
  while (local_ids(right.load, idle) > 0) ++idle;
  Judged twice = right, missing = right, unwritten = right, moved = right, stray = right;
  for (std::size_t i = 0; i < 256; ++i) {
    const auto at = static_cast<std::size_t>(busy) * 256 + i;
    twice.output[at] = to_bf16(2 * from_bf16(right.output[at]));
    missing.output[at] = 0;
  }
  EXPECT_GT(twice.error().worst_piece, 0.9);
  EXPECT_GT(missing.error().worst_piece, 0.9);
  unwritten.output[static_cast<std::size_t>(busy) * 256 + 200] = 0xffff;
  EXPECT_TRUE(std::isinf(unwritten.error().all));
  std::swap(moved.output[static_cast<std::size_t>(busy) * 256],
            moved.output[static_cast<std::size_t>(busy) * 256 + 1]);
  EXPECT_GT(moved.error().worst_piece, 0.005) << "two columns that changed places";
  stray.output[static_cast<std::size_t>(idle) * 256] = 0xffff;
  EXPECT_TRUE(std::isinf(stray.error().all));
}

TEST(SoakError, OfSlotsSeesEveryPlace) {
  const Judged judged(SoakKind::kUniform);
  const std::vector<int> counts{0, 3, 20, 1, 7, 0, 20, 2};
  constexpr int kSlots = 20;
  std::vector<std::uint16_t> output(8 * kSlots * 256, 0xffff);
  for (int e = 0; e < 8; ++e)
    for (int s = 0; s < counts[static_cast<std::size_t>(e)]; ++s)
      std::copy_n(judged.table.row(e, s), 256, output.begin() + (e * kSlots + s) * 256);
  const auto error = [&](const std::vector<std::uint16_t>& out) {
    return soak_slots_error(judged.table, counts, kSlots, out.data(), 0xffff);
  };
  EXPECT_EQ(error(output).all, 0);
  std::vector<std::uint16_t> stray = output, missing = output, other = output;
  stray[3 * 256 + 5] = 0;  // a place of the first expert, which has no rows
  EXPECT_TRUE(std::isinf(error(stray).all));
  missing[(kSlots + 2) * 256] = 0xffff;
  EXPECT_TRUE(std::isinf(error(missing).all));
  std::copy_n(judged.table.row(1, 2), 256, other.begin() + kSlots * 256);
  EXPECT_GT(error(other).worst_piece, 0.5) << "another place's row";
}

TEST(SoakLayers, AreTheDefaultMenuAndAnOrderedOneOfSeveralEntries) {
  gpu::DeviceInfo device;
  device.name = "NVIDIA H200";
  const std::vector<SoakLayer> layers = default_soak(device, soak_setting());
  ASSERT_EQ(layers.size(), 2u);
  for (const SoakLayer& layer : layers) {
    const LayerOptions& o = layer.sizes.front().options;
    EXPECT_NO_THROW(check_layer_options(o)) << layer.name;
    EXPECT_GE(o.menu.size(), 2u) << layer.name;
    EXPECT_GT(o.experts, o.shape.experts) << "some are elsewhere";
  }
  EXPECT_FALSE(layers[0].sizes.front().options.ordered);
  EXPECT_TRUE(layers[1].sizes.front().options.ordered);
}

}  // namespace
}  // namespace ramp
