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
  EXPECT_EQ(soak_size_of(3, 7, 1234), soak_size_of(3, 7, 1234));
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

TEST(SoakSizes, TakeEachWayToSelectAndTheLargestRarely) {
  for (const int k : {1, 2, 8, 32}) {
    const std::vector<int> sizes = soak_sizes({8, k, 256, 128});
    ASSERT_EQ(sizes.size(), 3u);
    EXPECT_EQ(selecting_of(sizes[0] * k, false).by, SelectBy::kBlock);
    EXPECT_EQ(selecting_of(sizes[1] * k, false).by, SelectBy::kCluster);
    EXPECT_EQ(selecting_of(sizes[2] * k, false).by, SelectBy::kRuns);
  }
  int taken[3] = {};
  for (int n = 0; n < 10000; ++n) ++taken[soak_size_of(3, 1, n)];
  EXPECT_NEAR(taken[2], 156, 60);
  EXPECT_NEAR(taken[0], taken[1], 500);
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
