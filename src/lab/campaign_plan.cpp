// SPDX-License-Identifier: Apache-2.0
#include "lab/campaign_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace ramp {
namespace {

// What decides which configuration is fast, as far as counts tell: size, spread and skew, each
// scaled to 0..1.
using Point = std::array<double, 3>;

int pairs_in(const std::vector<int>& load) { return std::accumulate(load.begin(), load.end(), 0); }

Point raw_point(const std::vector<int>& load) {
  const auto active = std::count_if(load.begin(), load.end(), [](int n) { return n > 0; });
  const int most = load.empty() ? 0 : load.front();
  return {std::log2(1.0 + pairs_in(load)), static_cast<double>(active), std::log2(1.0 + most)};
}

void scale(std::vector<Point>& points) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const Point& p : points) {
      low = std::min(low, p[axis]);
      high = std::max(high, p[axis]);
    }
    for (Point& p : points) p[axis] = high > low ? (p[axis] - low) / (high - low) : 0.0;
  }
}

double distance2(const Point& a, const Point& b) {
  double sum = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) sum += (a[axis] - b[axis]) * (a[axis] - b[axis]);
  return sum;
}

// Farthest point first: `order` has the points taken so far and grows to `total`.  Ties go to the
// lower index.  Each step is linear, so past kMaxFarthest the rest follows in a stride that still
// spreads.
constexpr std::size_t kMaxFarthest = 2000;

void extend_spread(const std::vector<Point>& points, std::vector<int>& order, std::size_t total) {
  total = std::min(total, points.size());
  std::vector<double> nearest(points.size(), std::numeric_limits<double>::infinity());
  std::vector<bool> taken(points.size(), false);
  const auto take = [&](int index) {
    taken[static_cast<std::size_t>(index)] = true;
    for (std::size_t i = 0; i < points.size(); ++i)
      nearest[i] =
          std::min(nearest[i], distance2(points[i], points[static_cast<std::size_t>(index)]));
  };
  for (int index : order) take(index);
  while (order.size() < std::min(total, kMaxFarthest)) {
    int best = -1;
    for (std::size_t i = 0; i < points.size(); ++i)
      if (!taken[i] && (best < 0 || nearest[i] > nearest[static_cast<std::size_t>(best)]))
        best = static_cast<int>(i);
    take(best);
    order.push_back(best);
  }
  std::vector<int> rest;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (!taken[i]) rest.push_back(static_cast<int>(i));
  // 61 is prime to most lengths; where it is not, the second sweep takes what the first left out.
  constexpr std::size_t kStride = 61;
  for (std::size_t first = 0; first < kStride; ++first)
    for (std::size_t i = first; i < rest.size() && order.size() < total; i += kStride)
      order.push_back(rest[i]);
}

std::uint64_t mix(std::uint64_t x) {  // splitmix64's finaliser
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

std::vector<int> choose_anchors(const Workload& workload, const PlanOptions& options) {
  const std::size_t loads = workload.loads.size();
  const std::size_t wanted = static_cast<std::size_t>(std::max(options.anchors, 2));
  std::vector<int> by_size(loads);
  std::iota(by_size.begin(), by_size.end(), 0);
  if (loads <= wanted) return by_size;
  std::stable_sort(by_size.begin(), by_size.end(), [&](int a, int b) {
    return pairs_in(workload.loads[static_cast<std::size_t>(a)]) <
           pairs_in(workload.loads[static_cast<std::size_t>(b)]);
  });
  std::vector<int> anchors;
  const std::size_t quantiles = std::max<std::size_t>(2, wanted * 2 / 3);
  for (std::size_t q = 0; q < quantiles; ++q)
    anchors.push_back(by_size[q * (loads - 1) / (quantiles - 1)]);
  std::vector<Point> points;
  for (const auto& load : workload.loads) points.push_back(raw_point(load));
  scale(points);
  extend_spread(points, anchors, wanted);
  std::sort(anchors.begin(), anchors.end());
  return anchors;
}

std::vector<int> order_loads(const Workload& workload) {
  // A pass is where its heaviest GPU is.
  std::vector<std::vector<int>> passes_of_role(3);
  std::vector<std::vector<Point>> points_of_role(3);
  for (std::size_t p = 0; p < workload.passes.size(); ++p) {
    const std::vector<int>* heaviest = nullptr;
    for (int load : workload.passes[p].load_of_gpu)
      if (load >= 0) {
        const auto& counts = workload.loads[static_cast<std::size_t>(load)];
        if (!heaviest || pairs_in(counts) > pairs_in(*heaviest)) heaviest = &counts;
      }
    if (!heaviest) continue;
    const auto role = static_cast<std::size_t>(workload.passes[p].role);
    passes_of_role[role].push_back(static_cast<int>(p));
    points_of_role[role].push_back(raw_point(*heaviest));
  }
  std::vector<std::vector<int>> queues(3);
  std::size_t longest = 0;
  for (std::size_t role = 0; role < 3; ++role) {
    scale(points_of_role[role]);
    std::vector<int> spread;
    extend_spread(points_of_role[role], spread, points_of_role[role].size());
    for (int i : spread) queues[role].push_back(passes_of_role[role][static_cast<std::size_t>(i)]);
    longest = std::max(longest, queues[role].size());
  }
  std::vector<int> order;
  std::vector<bool> taken(workload.loads.size(), false);
  const auto take = [&](int load) {
    if (load < 0 || taken[static_cast<std::size_t>(load)]) return;
    taken[static_cast<std::size_t>(load)] = true;
    order.push_back(load);
  };
  for (std::size_t turn = 0; turn < longest; ++turn)
    for (const auto& queue : queues)
      if (turn < queue.size())
        for (int load : workload.passes[static_cast<std::size_t>(queue[turn])].load_of_gpu)
          take(load);
  for (std::size_t load = 0; load < workload.loads.size(); ++load)
    take(static_cast<int>(load));  // of no pass
  return order;
}

std::vector<bool> choose_contenders(const std::vector<std::vector<float>>& anchor_us,
                                    double margin) {
  std::vector<bool> is_contender(anchor_us.size(), false);
  const std::size_t anchors = anchor_us.empty() ? 0 : anchor_us.front().size();
  for (std::size_t a = 0; a < anchors; ++a) {
    float best = std::numeric_limits<float>::infinity();
    for (const auto& us : anchor_us) best = std::min(best, us[a]);
    for (std::size_t c = 0; c < anchor_us.size(); ++c)
      if (std::isfinite(anchor_us[c][a]) && anchor_us[c][a] <= best * (1 + margin))
        is_contender[c] = true;
  }
  return is_contender;
}

bool is_drawn(const std::string& label, const std::vector<int>& load, const PlanOptions& options) {
  std::uint64_t h = mix(options.seed + 0x9e3779b97f4a7c15ULL);
  for (unsigned char c : label) h = mix(h + c);
  for (int n : load) h = mix(h + static_cast<std::uint64_t>(n) + 0x632be59bd9b4e019ULL);
  return static_cast<double>(h >> 11) * 0x1.0p-53 < options.random_share;
}

}  // namespace ramp
