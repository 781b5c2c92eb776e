// SPDX-License-Identifier: Apache-2.0
#include "problem/imbalance.hpp"

#include <algorithm>
#include <limits>

#include "base/statistics.hpp"

namespace ramp {
namespace {

BalanceRow row_of(std::span<const BalancePoint> points, int low, int high) {
  BalanceRow row;
  row.low = low;
  row.high = high;
  std::vector<double> tokens, imbalance, active, padding[4];
  for (const BalancePoint& p : points) {
    if (p.tokens < low || p.tokens > high) continue;
    tokens.push_back(p.tokens);
    imbalance.push_back(p.imbalance);
    active.push_back(p.active);
    for (int i = 0; i < 4; ++i) padding[i].push_back(p.padding[i]);
  }
  row.points = static_cast<int>(tokens.size());
  if (row.points == 0) return row;
  row.median_tokens = median(tokens);
  row.median = median(imbalance);
  row.p90 = quantile(imbalance, 0.9);
  row.worst = *std::max_element(imbalance.begin(), imbalance.end());
  row.active = median(active);
  for (int i = 0; i < 4; ++i) row.padding[i] = median(padding[i]);
  return row;
}

}  // namespace

double imbalance_of(std::span<const ExpertLoad> gpus) {
  long long most = 0, all = 0;
  for (const ExpertLoad& load : gpus) {
    const long long pairs = pairs_of(load);
    most = std::max(most, pairs);
    all += pairs;
  }
  return all == 0 ? 1
                  : static_cast<double>(most) * static_cast<double>(gpus.size()) /
                        static_cast<double>(all);
}

double padding_factor(const ExpertLoad& load, int rows) {
  long long padded = 0, pairs = 0;
  for (const int n : load) {
    padded += round_up(n, rows);
    pairs += n;
  }
  return pairs == 0 ? 1 : static_cast<double>(padded) / static_cast<double>(pairs);
}

int active_experts(const ExpertLoad& load) {
  return static_cast<int>(std::count_if(load.begin(), load.end(), [](int n) { return n > 0; }));
}

BalancePoint balance_point(int tokens, std::span<const ExpertLoad> gpus) {
  BalancePoint point;
  point.tokens = tokens;
  point.imbalance = imbalance_of(gpus);
  ExpertLoad all;
  int active = 0;
  for (const ExpertLoad& load : gpus) {
    active += active_experts(load);
    all.insert(all.end(), load.begin(), load.end());
  }
  point.active = gpus.empty() ? 0 : static_cast<double>(active) / static_cast<double>(gpus.size());
  for (int i = 0; i < 4; ++i) point.padding[i] = padding_factor(all, kPaddingRows[i]);
  return point;
}

std::vector<BalanceRow> balance_table(std::span<const BalancePoint> points) {
  constexpr int kBounds[] = {1, 8, 32, 128, 512, 2048};
  std::vector<BalanceRow> table;
  auto add = [&](int low, int high) {
    const BalanceRow row = row_of(points, low, high);
    if (row.points > 0) table.push_back(row);
  };
  for (int i = 0; i < 6; ++i)
    add(kBounds[i], i + 1 < 6 ? kBounds[i + 1] - 1 : std::numeric_limits<int>::max());
  add(128, std::numeric_limits<int>::max());
  return table;
}

}  // namespace ramp
