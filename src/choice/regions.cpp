// SPDX-License-Identifier: Apache-2.0
#include "choice/regions.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>

#include "base/error.hpp"
#include "choice/features.h"
#include "choice/times.hpp"

namespace ramp {
namespace {

// A unit: 256 weight rows of 128 bytes.
constexpr double kUnitMb = 0.032768;
constexpr double kPowerPflops = 1.29;  // what the power limit leaves of long products ...
constexpr double kPowerBusy = 0.8;     // ... where more of the SMs than this work
// What structure does not say: fitted on the first five shapes (docs/paper.md), in us and TB/s.
struct OnePhase {
  double latency, latency_of_two, latency_of_four;  // of a launch, more in clusters
  double down_unit, activate, activate_row, exchange, promote_row;
  double lone_unit;     // of a unit where few SMs draw
  double l2, reduce;    // what all SMs draw from L2, and add into it
  double above_stream;  // of a layer that is bound by its weights
};
constexpr OnePhase kOne{.latency = 4.38,
                        .latency_of_two = 1.58,
                        .latency_of_four = 0.419,
                        .down_unit = 0.43,
                        .activate = 0.301,
                        .activate_row = 0.0284,
                        .exchange = 0.205,
                        .promote_row = 0.00042,
                        .lone_unit = 0.225,
                        .l2 = 5.44,
                        .reduce = 2.74,
                        .above_stream = 0.52};
struct TwoPhases {
  double latency, latency_of_128;    // of a launch, more with tiles of 128 rows (a shorter ring)
  double hand_over;                  // from a tile's last up item to its first down item
  double tall_unit, short_unit;      // of tiles above and up to 64 rows
  double tall_end[2], short_end[2];  // of an item, up and down
  double l2;
  double bend;  // how sharply the stream's time gives way to that of the items
};
constexpr TwoPhases kTwo{.latency = 5.18,
                         .latency_of_128 = 0.834,
                         .hand_over = 0.542,
                         .tall_unit = 0.648,
                         .short_unit = 0.223,
                         .tall_end = {1.25, 1.8},
                         .short_end = {3.9, 1.13},
                         .l2 = 10.4,
                         .bend = 3.92};
// At most, and of a part at least: those of the kernel (DownParts), which this room does not know.
constexpr int kDownParts = 8, kDownUnits = 8;
constexpr int kPrefill = 6;

// wgmma's rate by N, PFLOP/s of all SMs, as a share of the best.
double matrix_share(int rows) {
  switch (rows) {
    case 8:
      return 0.421 / 1.9;
    case 16:
      return 0.759 / 1.9;
    case 24:
      return 1.010 / 1.9;
    case 32:
      return 1.263 / 1.9;
    case 40:
      return 1.420 / 1.9;
    case 48:
      return 1.580 / 1.9;
    default:
      return 1;
  }
}

// us of a unit's products with `rows` rows where `busy` of the SMs work.
double products_us(int rows, double busy, const GpuSpec& gpu) {
  double pflops = matrix_share(rows) * gpu.matrix_pflops;
  if (busy > kPowerBusy) pflops = std::min(pflops, kPowerPflops * gpu.matrix_pflops / 1.9);
  return 2 * 256 * 128 * rows * 1e-9 / (pflops / gpu.sms);
}

// Clusters of four that fit at once: a GPC of 18 SMs has room for four of them, not 4.5.
int slots_of(int split, const GpuSpec& gpu) {
  return split == 4 ? gpu.sms / 4 - 1 : gpu.sms / split;
}

struct Load {
  int experts = 0, active = 0, pairs = 0;
  std::span<const int> counts;

  int row_tiles_of(int rows) const {
    int tiles = 0;
    for (const int n : counts) tiles += ceil_div(n, rows);
    return tiles;
  }
};

double stream_us(const LocalShape& s, const Load& load, const GpuSpec& gpu) {
  return gpu.stream_start_us + 1e-6 * load.active *
                                   static_cast<double>(expert_bytes(s.hidden, s.intermediate)) /
                                   gpu.stream_tbps;
}

// One phase.  The chain of a launch: latency, a wave that waits for its weights from memory, waves
// that find them in L2 or stream on; never below the stream.
double one_phase_us(const LocalShape& s, const Load& load, int rows, int split,
                    const GpuSpec& gpu) {
  const int columns = ceil_div(s.intermediate, 128), slots = slots_of(split, gpu),
            row_tiles = load.row_tiles_of(rows);
  const double units = 3.0 * s.hidden / 256 / split,
               activate =
                   kOne.activate + kOne.activate_row * rows + (split > 1 ? kOne.exchange : 0),
               fill = static_cast<double>(load.pairs) / row_tiles;
  // Units in flight before the routing is known, in the ring and in registers; lost where a
  // cluster's slots don't cover the local experts.
  double ahead = std::min(units, kPrefill +
                                     (rows <= 8    ? 4.0
                                      : rows <= 24 ? 3.0
                                                   : 2.0) -
                                     (split > 1 ? 1 : 0));
  if (split == 4) ahead *= std::min(1.0, static_cast<double>(slots) / (load.experts * columns));
  double us = kOne.latency + activate - kOne.activate + kOne.down_unit * units / 3 +
              (split == 4   ? kOne.latency_of_four
               : split == 2 ? kOne.latency_of_two
                            : 0.0);
  int left = row_tiles * columns, fresh = load.active * columns;
  for (bool is_first = true; left > 0; is_first = false) {
    const int live = std::min(left, slots), unread = std::min(fresh, live), busy = live * split;
    const double products = products_us(rows, static_cast<double>(busy) / gpu.sms, gpu) +
                            kOne.promote_row * rows,
                 l2 = std::max(kOne.lone_unit, busy * kUnitMb / kOne.l2),
                 memory = std::max(l2, unread * split * kUnitMb / gpu.stream_tbps),
                 add = fill * s.hidden * 2e-6 * live / kOne.reduce;
    if (is_first)
      us += units * products + (units - ahead) * std::max(0.0, memory - products) + add;
    else
      us += std::max(units * std::max(products, l2) + activate + add, units * memory);
    left -= live, fresh -= unread;
  }
  return std::max(stream_us(s, load, gpu) + kOne.above_stream, us);
}

// Two phases: items in list order on the SM that is free first; a down item waits for its rows, and
// is cut into parts of h where there are fewer than SMs.
double two_phase_us(const LocalShape& s, const Load& load, int rows, const GpuSpec& gpu) {
  const int row_tiles = load.row_tiles_of(rows), h_blocks = ceil_div(s.intermediate, 128),
            down_columns = ceil_div(s.hidden, 256);
  int parts = 1;
  for (int p = 2; p <= kDownParts && row_tiles * down_columns <= gpu.sms; ++p)
    if (h_blocks % p == 0 && h_blocks / p >= kDownUnits) parts = p;
  const double units[] = {s.hidden / 128.0, static_cast<double>(h_blocks) / parts};
  const int columns[] = {h_blocks, down_columns * parts};
  // us of an item: a tile of up to 64 rows costs as much in either class.
  const auto item_us = [&](int phase, int tile_rows) {
    const bool is_tall = tile_rows > 64;
    const int live = std::min(row_tiles * columns[phase], gpu.sms);
    const double unit = std::max(is_tall ? kTwo.tall_unit : kTwo.short_unit,
                                 live * (kUnitMb + tile_rows * 128e-6) / kTwo.l2);
    return units[phase] * unit + (is_tall ? kTwo.tall_end : kTwo.short_end)[phase];
  };
  std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
  for (int i = 0; i < gpu.sms; ++i) free_at.push(0);
  const auto run = [&](double from, double us) {
    const double end = std::max(free_at.top(), from) + us;
    free_at.pop(), free_at.push(end);
    return end;
  };
  struct Tile {
    int rows;
    double done = 0;  // its middle rows
  };
  std::vector<Tile> tiles;
  for (const int n : load.counts)
    for (int at = 0; at < n; at += rows) tiles.push_back({std::min(rows, n - at)});
  for (Tile& tile : tiles)
    for (int c = 0; c < columns[0]; ++c)
      tile.done = std::max(tile.done, run(0, item_us(0, tile.rows)));
  double last = 0;
  for (const Tile& tile : tiles)
    for (int c = 0; c < columns[1]; ++c)
      last = std::max(last, run(tile.done + kTwo.hand_over, item_us(1, tile.rows)));
  // Neither hides the other whole.
  const double stream = stream_us(s, load, gpu);
  return kTwo.latency + (rows > 64 ? kTwo.latency_of_128 : 0) +
         std::pow(std::pow(stream, kTwo.bend) + std::pow(last, kTwo.bend), 1 / kTwo.bend);
}

}  // namespace

std::string_view region_name(Region region) {
  constexpr std::string_view kNames[kRegions] = {"cluster-4", "cluster-2", "short",
                                                 "tall",      "phased-64", "phased-128"};
  return kNames[static_cast<int>(region)];
}

Region region_of(const Grid& grid, const GpuSpec& gpu) {
  const Phase& phase = grid.phase[0];
  if (grid.phases > 1) return phase.rows > 64 ? Region::kPhased128 : Region::kPhased64;
  const int split = phase.slots > 0 ? gpu.sms / phase.slots : 1;
  if (split >= 4) return Region::kCluster4;
  if (split >= 2) return Region::kCluster2;
  return phase.rows <= 24 ? Region::kShort : Region::kTall;
}

std::vector<RegionTime> predict_regions(const LocalShape& shape, std::span<const int> load,
                                        const GpuSpec& gpu) {
  Load l{static_cast<int>(load.size()), 0, 0, load};
  for (const int n : load) l.active += n > 0, l.pairs += n;
  if (l.pairs == 0) throw Error("load", "no token", "1 or more", "leave this GPU out");
  std::vector<RegionTime> out;
  const auto consider = [&](Region region, int rows, double us) {
    for (RegionTime& known : out)
      if (known.region == region) {
        if (us < known.us) known = {region, rows, us};
        return;
      }
    out.push_back({region, rows, us});
  };
  for (const int rows : {8, 16, 24})
    consider(Region::kCluster4, rows, one_phase_us(shape, l, rows, 4, gpu));
  for (const int rows : {8, 16, 24, 32, 40, 48})
    consider(Region::kCluster2, rows, one_phase_us(shape, l, rows, 2, gpu));
  for (const int rows : {8, 16, 24, 32, 40, 48, 64})
    consider(rows <= 24 ? Region::kShort : Region::kTall, rows,
             one_phase_us(shape, l, rows, 1, gpu));
  consider(Region::kPhased64, 64, two_phase_us(shape, l, 64, gpu));
  consider(Region::kPhased128, 128, two_phase_us(shape, l, 128, gpu));
  std::stable_sort(out.begin(), out.end(),
                   [](const RegionTime& a, const RegionTime& b) { return a.us < b.us; });
  return out;
}

RegionScore score_regions(const MeasuredSpace& space, const GpuSpec& gpu) {
  const TimeTable us = median_times(space, Half::kBoth);
  std::vector<int> timed(space.loads.size(), 0);
  int most = 0;
  for (std::size_t l = 0; l < timed.size(); ++l) {
    for (const auto& row : us) timed[l] += is_time(row[l]);
    most = std::max(most, timed[l]);
  }
  RegionScore score;
  double loss = 0;
  int with_time = 0;
  for (std::size_t l = 0; l < timed.size(); ++l) {
    // A third of what the anchors have: the contenders, not the random share.
    if (timed[l] == 0 || 3 * timed[l] < most) continue;
    const Region predicted = predict_regions(space.shape, space.loads[l], gpu).front().region;
    float own = std::numeric_limits<float>::infinity(), fastest = own;
    Region best = predicted;
    for (std::size_t c = 0; c < us.size(); ++c) {
      if (!is_time(us[c][l])) continue;
      const Region region = region_of(space.candidates[c].grid, gpu);
      if (us[c][l] < fastest) fastest = us[c][l], best = region;
      if (region == predicted) own = std::min(own, us[c][l]);
    }
    const double over = own / fastest - 1;
    ++score.loads;
    if (std::isfinite(over)) loss += over, ++with_time;
    if (over <= kRegionMargin)
      ++score.hits;
    else
      score.misses.push_back({static_cast<int>(l), predicted, best, over});
  }
  score.mean_loss = with_time ? loss / with_time : 0;
  return score;
}

}  // namespace ramp
