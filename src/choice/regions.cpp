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
constexpr double kLoneUnitUs = 0.18;  // one SM draws 180 GB/s
constexpr double kL2Tbps =
    9.0;  // what all SMs draw from L2: 0.86 us a unit of 48 KB, and 0.6 of 40
constexpr double kReduceTbps = 2.6;    // bulk additions of 512-byte pieces (2.0) and longer (2.7)
constexpr double kPowerPflops = 1.29;  // what the power limit leaves of long products
// Latencies: what a launch of one item costs beside its units, without and with a second phase; a
// down unit; activation; meeting of a cluster; ends of two-phase items (docs/kernels.md).  The
// first three, kL2Tbps and kReduceTbps were set by hand on OLMoE, Qwen3-30B and DeepSeek-V2-Lite.
constexpr double kLatencyUs = 4.5, kPhasedLatencyUs = 6.6, kDownUnitUs = 0.25, kActivateUs = 0.6,
                 kActivateRowUs = 0.033, kExchangeUs = 0.5, kPhasedUpUs = 2.0, kPhasedDownUs = 1.5;
constexpr double kPromoteRowUs = 0.00105;
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
double products_us(int rows, double busy, double busy_from, const GpuSpec& gpu) {
  double pflops = matrix_share(rows) * gpu.matrix_pflops;
  if (busy > busy_from) pflops = std::min(pflops, kPowerPflops * gpu.matrix_pflops / 1.9);
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
               activate = kActivateUs + kActivateRowUs * rows + (split > 1 ? kExchangeUs : 0),
               fill = static_cast<double>(load.pairs) / row_tiles;
  // Units in flight before the routing is known, in the ring and in registers; lost where a
  // cluster's slots don't cover the local experts.
  double ahead = std::min(units, kPrefill +
                                     (rows <= 8    ? 4.0
                                      : rows <= 24 ? 3.0
                                                   : 2.0) -
                                     (split > 1 ? 1 : 0));
  if (split == 4) ahead *= std::min(1.0, static_cast<double>(slots) / (load.experts * columns));
  double us = kLatencyUs + activate - kActivateUs + kDownUnitUs * units / 3;
  int left = row_tiles * columns, fresh = load.active * columns;
  for (bool is_first = true; left > 0; is_first = false) {
    const int live = std::min(left, slots), unread = std::min(fresh, live), busy = live * split;
    const double products = products_us(rows, static_cast<double>(busy) / gpu.sms, 0.8, gpu) +
                            kPromoteRowUs * rows,
                 l2 = std::max(kLoneUnitUs, busy * kUnitMb / kL2Tbps),
                 memory = std::max(l2, unread * split * kUnitMb / gpu.stream_tbps),
                 add = fill * s.hidden * 2e-6 * live / kReduceTbps;
    if (is_first)
      us += units * products + (units - ahead) * std::max(0.0, memory - products) + add;
    else
      us += std::max(units * std::max(products, l2) + activate + add, units * memory);
    left -= live, fresh -= unread;
  }
  return std::max(stream_us(s, load, gpu), us);
}

// Two phases: items in list order on the SM that is free first; a down item waits for its rows.
double two_phase_us(const LocalShape& s, const Load& load, int rows, const GpuSpec& gpu) {
  const int row_tiles = load.row_tiles_of(rows),
            columns[] = {ceil_div(s.intermediate, 128), ceil_div(s.hidden, 256)};
  const double units[] = {s.hidden / 128.0, s.intermediate / 128.0},
               ends[] = {kPhasedUpUs * rows / 128, kPhasedDownUs * rows / 128};
  double item[2];
  for (int p = 0; p < 2; ++p) {
    const int live = std::min(row_tiles * columns[p], gpu.sms);
    const double unit = std::max({kLoneUnitUs, live * (kUnitMb + rows * 128e-6) / kL2Tbps,
                                  products_us(rows, static_cast<double>(live) / gpu.sms, 0.8, gpu),
                                  std::min(live, load.active * columns[p]) * kUnitMb /
                                      gpu.stream_tbps * load.active / row_tiles});
    item[p] = units[p] * unit + ends[p];
  }
  std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
  for (int i = 0; i < gpu.sms; ++i) free_at.push(0);
  const auto run = [&](double from, double us) {
    const double end = std::max(free_at.top(), from) + us;
    free_at.pop(), free_at.push(end);
    return end;
  };
  std::vector<double> rows_done(row_tiles, 0);
  for (double& done : rows_done)
    for (int c = 0; c < columns[0]; ++c) done = std::max(done, run(0, item[0]));
  double last = 0;
  for (const double done : rows_done)
    for (int c = 0; c < columns[1]; ++c) last = std::max(last, run(done, item[1]));
  return std::max(stream_us(s, load, gpu), kPhasedLatencyUs + last);
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
