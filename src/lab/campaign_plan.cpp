// SPDX-License-Identifier: Apache-2.0
#include "lab/campaign_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "choice/sizes.hpp"

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

// A pass is where its heaviest GPU is; -1 where no GPU got a token.
int heaviest_load(const Workload& workload, const MeasuredPass& pass) {
  int heaviest = -1;
  for (int load : pass.load_of_gpu)
    if (load >= 0 &&
        (heaviest < 0 || pairs_in(workload.loads[static_cast<std::size_t>(load)]) >
                             pairs_in(workload.loads[static_cast<std::size_t>(heaviest)])))
      heaviest = load;
  return heaviest;
}

constexpr std::size_t kMostOfRange = 64;

// [range]: its training passes, the middle one first and then those least like the ones before.
// Where there are none, uniform draws say at least which configuration suits the size.
std::vector<std::vector<int>> passes_by_range(const Workload& workload) {
  std::vector<std::vector<int>> by_range(kSizeRanges);
  for (const Role role : {Role::kTrain, Role::kUniform, Role::kTest}) {
    std::vector<std::vector<int>> found(kSizeRanges);
    for (std::size_t p = 0; p < workload.passes.size(); ++p)
      if (workload.passes[p].role == role && heaviest_load(workload, workload.passes[p]) >= 0)
        found[static_cast<std::size_t>(size_range(workload.passes[p].tokens))].push_back(
            static_cast<int>(p));
    for (std::size_t r = 0; r < by_range.size(); ++r)
      if (by_range[r].empty()) by_range[r] = std::move(found[r]);
  }
  for (std::vector<int>& passes : by_range) {
    if (passes.empty()) continue;
    std::stable_sort(passes.begin(), passes.end(), [&](int a, int b) {
      return workload.passes[static_cast<std::size_t>(a)].tokens <
             workload.passes[static_cast<std::size_t>(b)].tokens;
    });
    std::vector<Point> points;
    for (int p : passes) {
      const int load = heaviest_load(workload, workload.passes[static_cast<std::size_t>(p)]);
      points.push_back(raw_point(workload.loads[static_cast<std::size_t>(load)]));
    }
    scale(points);
    std::vector<int> spread = {static_cast<int>(passes.size() / 2)};
    extend_spread(points, spread, kMostOfRange);
    std::vector<int> ordered;
    for (int i : spread) ordered.push_back(passes[static_cast<std::size_t>(i)]);
    passes = std::move(ordered);
  }
  return by_range;
}

// [range]: the heaviest loads of its passes, each once.
std::vector<std::vector<int>> heaviest_by_range(const Workload& workload) {
  std::vector<std::vector<int>> loads;
  std::set<int> taken;
  for (const std::vector<int>& passes : passes_by_range(workload)) {
    loads.emplace_back();
    for (int p : passes)
      if (const int load = heaviest_load(workload, workload.passes[static_cast<std::size_t>(p)]);
          taken.insert(load).second)
        loads.back().push_back(load);
  }
  return loads;
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
  const auto take = [&](int load) {
    if (anchors.size() < wanted && std::find(anchors.begin(), anchors.end(), load) == anchors.end())
      anchors.push_back(load);
  };
  const std::vector<std::vector<int>> heaviest = heaviest_by_range(workload);
  const std::size_t by_size_wanted = std::max<std::size_t>(2, wanted * 2 / 3);
  take(by_size.front());
  take(by_size.back());
  // The smallest and the largest load stand in for the outermost ranges where there are few.
  for (std::size_t turn = 0; turn == 0 || anchors.size() < by_size_wanted; ++turn) {
    bool is_one = false;
    for (const int range : {4, 3, 2, 1, 5, 0}) {
      static_assert(kSizeRanges == 6);
      const std::vector<int>& of_range = heaviest[static_cast<std::size_t>(range)];
      if (turn >= of_range.size() || (turn > 0 && anchors.size() >= by_size_wanted)) continue;
      take(of_range[turn]);
      is_one = true;
    }
    if (!is_one) break;
  }
  std::vector<Point> points;
  for (const auto& load : workload.loads) points.push_back(raw_point(load));
  scale(points);
  extend_spread(points, anchors, wanted);
  std::sort(anchors.begin(), anchors.end());
  return anchors;
}

std::vector<int> ranges_of_loads(const Workload& workload) {
  std::vector<int> tokens(workload.loads.size(), std::numeric_limits<int>::max());
  for (const MeasuredPass& pass : workload.passes)
    for (int load : pass.load_of_gpu)
      if (load >= 0) {
        int& least = tokens[static_cast<std::size_t>(load)];
        least = std::min(least, pass.tokens);
      }
  std::vector<int> ranges;
  for (int n : tokens) ranges.push_back(size_range(n));
  return ranges;
}

std::vector<std::vector<int>> anchor_turns(const Workload& workload,
                                           const std::vector<int>& anchors) {
  const std::vector<int> range_of = ranges_of_loads(workload);
  const std::set<int> is_anchor(anchors.begin(), anchors.end());
  std::vector<std::vector<int>> queues(kSizeRanges);
  std::set<int> taken;
  const auto queue = [&](int load) {
    if (is_anchor.count(load) && taken.insert(load).second)
      queues[static_cast<std::size_t>(range_of[static_cast<std::size_t>(load)])].push_back(load);
  };
  for (const std::vector<int>& loads : heaviest_by_range(workload))
    for (int load : loads) queue(load);
  for (int load : anchors) queue(load);
  std::vector<std::vector<int>> turns;
  for (std::size_t r = kSizeRanges; r-- > 0;)
    for (std::size_t turn = 0; turn < queues[r].size(); ++turn) {
      if (turn == turns.size()) turns.emplace_back();
      turns[turn].push_back(queues[r][turn]);
    }
  return turns;
}

std::vector<int> covering_loads(const Workload& workload) {
  const std::vector<std::vector<int>> by_range = passes_by_range(workload);
  std::vector<int> loads;
  std::set<int> taken;
  for (std::size_t turn = 0; turn < kCoveringPasses; ++turn)
    for (std::size_t r = kSizeRanges; r-- > 0;) {
      if (turn >= by_range[r].size()) continue;
      const auto pass = static_cast<std::size_t>(by_range[r][turn]);
      for (int load : workload.passes[pass].load_of_gpu)
        if (load >= 0 && taken.insert(load).second) loads.push_back(load);
    }
  return loads;
}

std::vector<int> order_configs(const std::vector<Candidate>& configs) {
  // How often a class, and inside it a height, was taken before: the least first.
  using Height = std::pair<std::string, int>;
  std::map<std::string, std::map<Height, std::vector<int>>> classes;
  for (std::size_t c = 0; c < configs.size(); ++c)
    classes[configs[c].occupancy]
           [{std::to_string(configs[c].grid.phases), configs[c].grid.phase[0].rows}]
               .push_back(static_cast<int>(c));
  std::vector<std::tuple<std::size_t, std::size_t, int>>
      ranked;  // turn of the class, class, config
  std::size_t place = 0;
  for (const auto& [name, heights] : classes) {
    std::vector<int> order;  // of the class: every height once, then every height again
    std::size_t longest = 0;
    for (const auto& [height, members] : heights) longest = std::max(longest, members.size());
    for (std::size_t turn = 0; turn < longest; ++turn)
      for (const auto& [height, members] : heights)
        if (turn < members.size()) order.push_back(members[turn]);
    for (std::size_t turn = 0; turn < order.size(); ++turn)
      ranked.emplace_back(turn, place, order[turn]);
    ++place;
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<int> order;
  for (const auto& entry : ranked) order.push_back(std::get<2>(entry));
  return order;
}

std::vector<int> order_loads(const Workload& workload) {
  std::vector<std::vector<int>> passes_of_role(3);
  std::vector<std::vector<Point>> points_of_role(3);
  for (std::size_t p = 0; p < workload.passes.size(); ++p) {
    const int heaviest = heaviest_load(workload, workload.passes[p]);
    if (heaviest < 0) continue;
    const auto role = static_cast<std::size_t>(workload.passes[p].role);
    passes_of_role[role].push_back(static_cast<int>(p));
    points_of_role[role].push_back(raw_point(workload.loads[static_cast<std::size_t>(heaviest)]));
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

std::vector<bool> choose_beaten(const std::vector<std::vector<float>>& anchor_us) {
  // Near the best by a margin of kBeaten somewhere, or not timed at all: not beaten.
  const std::vector<bool> is_near = choose_contenders(anchor_us, kBeaten - 1);
  std::vector<bool> is_beaten(anchor_us.size());
  for (std::size_t c = 0; c < anchor_us.size(); ++c)
    is_beaten[c] = !is_near[c] && std::any_of(anchor_us[c].begin(), anchor_us[c].end(),
                                              [](float us) { return std::isfinite(us); });
  return is_beaten;
}

bool is_drawn(const std::string& label, const std::vector<int>& load, const PlanOptions& options) {
  std::uint64_t h = mix(options.seed + 0x9e3779b97f4a7c15ULL);
  for (unsigned char c : label) h = mix(h + c);
  for (int n : load) h = mix(h + static_cast<std::uint64_t>(n) + 0x632be59bd9b4e019ULL);
  return static_cast<double>(h >> 11) * 0x1.0p-53 < options.random_share;
}

}  // namespace ramp
