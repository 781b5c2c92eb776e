// SPDX-License-Identifier: Apache-2.0
#include "choice/menu.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.hpp"

namespace ramp {
namespace {

constexpr float kUntimed = std::numeric_limits<float>::infinity();

// Passes left without a time come first: a menu that serves everything beats one that is fast where
// it was timed.
struct Cost {
  int untimed = 0;
  double value = 0;  // kTime: us; kRelative: log of the ratio to the full space; summed over passes
  bool operator<(const Cost& other) const {
    return untimed != other.untimed ? untimed < other.untimed : value < other.value;
  }
};

struct Search {
  const Lesson& lesson;
  MenuObjective objective;
  std::vector<int> passes;   // those that the full space has a time for
  std::vector<double> full;  // their time with the best candidate on every GPU

  // The passes' cost when load l takes best[l], or us_of_extra[l] if that is less.
  Cost cost(const std::vector<float>& best, const std::vector<float>& us_of_extra) const {
    Cost sum;
    for (size_t i = 0; i < passes.size(); ++i) {
      float slowest = 0;
      for (int load : lesson.passes[passes[i]].load_of_gpu)
        if (load >= 0) slowest = std::max(slowest, std::min(best[load], us_of_extra[load]));
      if (!is_time(slowest))
        ++sum.untimed;
      else
        sum.value += objective == MenuObjective::kTime ? slowest : std::log(slowest / full[i]);
    }
    return sum;
  }

  double loss(const Cost& c) const {
    if (c.untimed > 0) return std::numeric_limits<double>::infinity();
    if (objective == MenuObjective::kRelative) return std::exp(c.value / passes.size()) - 1;
    double sum = 0;
    for (double us : full) sum += us;
    return c.value / sum - 1;
  }
};

Search prepare(const Lesson& lesson, MenuObjective objective) {
  std::vector<float> best(lesson.loads.size(), kUntimed);
  for (int c : lesson.learnable)
    for (size_t l = 0; l < best.size(); ++l) best[l] = std::min(best[l], lesson.us[c][l]);
  Search search{lesson, objective, {}, {}};
  for (size_t p = 0; p < lesson.passes.size(); ++p) {
    float slowest = 0;
    for (int load : lesson.passes[p].load_of_gpu)
      if (load >= 0) slowest = std::max(slowest, best[load]);
    if (slowest == 0 || !is_time(slowest)) continue;
    search.passes.push_back(static_cast<int>(p));
    search.full.push_back(slowest);
  }
  if (search.passes.empty())
    throw Error("training passes", fmt::format("{}, none timed", lesson.passes.size()),
                "1 or more timed passes", "profile the recorded passes of the trace");
  return search;
}

// Its passes of `from` to `to` tokens.
Search slice(const Search& all, int from, int to) {
  Search part{all.lesson, all.objective, {}, {}};
  for (size_t i = 0; i < all.passes.size(); ++i) {
    const int tokens = all.lesson.passes[all.passes[i]].tokens;
    if (tokens < from || tokens > to) continue;
    part.passes.push_back(all.passes[i]);
    part.full.push_back(all.full[i]);
  }
  return part;
}

struct Grown {
  GreedyMenu menu;
  Cost cost;
};

Grown grow(const Search& search, const std::vector<int>& members, int entries) {
  Grown grown;
  std::vector<float> best(search.lesson.loads.size(), kUntimed);
  grown.cost = {static_cast<int>(search.passes.size()) + 1, 0};
  while (static_cast<int>(grown.menu.candidates.size()) < entries) {
    int pick = -1;
    Cost lowest = grown.cost;
    for (int c : members)
      if (const Cost with = search.cost(best, search.lesson.us[c]); with < lowest)
        pick = c, lowest = with;
    if (pick < 0) break;
    for (size_t l = 0; l < best.size(); ++l) best[l] = std::min(best[l], search.lesson.us[pick][l]);
    grown.cost = lowest;
    grown.menu.candidates.push_back(pick);
    grown.menu.loss.push_back(search.loss(lowest));
  }
  return grown;
}

Grown best_class(const Search& search, const MenuOptions& options) {
  if (options.entries < 1 || options.entries > kMaxMenuEntries)
    throw Error("menu entries", std::to_string(options.entries),
                fmt::format("1 to {}", kMaxMenuEntries), "ask for six, as the paper does");
  const Lesson& lesson = search.lesson;
  std::set<std::string> classes;
  for (int c : lesson.learnable) classes.insert(lesson.candidates[c].occupancy);
  if (!options.occupancy.empty() && !classes.count(options.occupancy))
    throw Error("occupancy", options.occupancy, fmt::format("{}", fmt::join(classes, ", ")),
                "leave it out to try every class");
  Grown best;
  for (const std::string& name : classes) {
    if (!options.occupancy.empty() && name != options.occupancy) continue;
    std::vector<int> members;
    for (int c : lesson.learnable)
      if (lesson.candidates[c].occupancy == name) members.push_back(c);
    Grown grown = grow(search, members, options.entries);
    grown.menu.occupancy = name;
    if (best.menu.candidates.empty() || grown.cost < best.cost) best = std::move(grown);
  }
  return best;
}

// How much faster `two` is than `one`, as a share of all passes' time or of the mean pass.
double gain(const Search& all, const Cost& one, const Cost& two) {
  if (two.untimed != one.untimed) return two.untimed < one.untimed ? 1 : -1;
  if (all.objective == MenuObjective::kTime) return 1 - two.value / one.value;
  return 1 - std::exp((two.value - one.value) / static_cast<double>(all.passes.size()));
}

constexpr double kWorthAnotherMenu = 0.01;

}  // namespace

GreedyMenu greedy_menu(const Lesson& lesson, const MenuOptions& options) {
  return best_class(prepare(lesson, options.objective), options).menu;
}

std::vector<SizedMenu> menus_by_size(const Lesson& lesson, const MenuOptions& options) {
  if (options.menus < 1 || options.menus > kMostMenus)
    throw Error("menus", std::to_string(options.menus), fmt::format("1 to {}", kMostMenus),
                "two: one for small passes, one for the rest");
  const Search all = prepare(lesson, options.objective);
  std::map<int, int> passes_of;  // by tokens
  for (int p : all.passes) ++passes_of[lesson.passes[p].tokens];
  const std::vector<std::pair<int, int>> sizes(passes_of.begin(), passes_of.end());

  // best[m][j]: the first j sizes in m menus.  Each part is grown once, whatever stands before it.
  struct Parted {
    Cost cost;
    std::vector<SizedMenu> menus;
  };
  std::vector<std::vector<std::optional<Parted>>> best(
      options.menus + 1, std::vector<std::optional<Parted>>(sizes.size() + 1));
  best[0][0] = Parted{};
  for (size_t j = 1; j <= sizes.size(); ++j)
    for (size_t i = 0; i < j; ++i) {
      int passes = 0;
      for (size_t n = i; n < j; ++n) passes += sizes[n].second;
      const bool whole = i == 0 && j == sizes.size();
      if (passes < kLeastPasses && !whole) continue;
      std::optional<Grown> part;
      for (int m = 1; m <= options.menus; ++m) {
        if (!best[m - 1][i]) continue;
        if (!part) part = best_class(slice(all, sizes[i].first, sizes[j - 1].first), options);
        Parted now = *best[m - 1][i];
        now.cost.untimed += part->cost.untimed;
        now.cost.value += part->cost.value;
        now.menus.push_back({sizes[j - 1].first, part->menu});
        if (!best[m][j] || now.cost < best[m][j]->cost) best[m][j] = std::move(now);
      }
    }
  const Parted* chosen = &*best[1][sizes.size()];
  for (int m = 2; m <= options.menus; ++m)
    if (const auto& more = best[m][sizes.size()];
        more && gain(all, chosen->cost, more->cost) > kWorthAnotherMenu)
      chosen = &*more;
  std::vector<SizedMenu> menus = chosen->menus;
  menus.back().up_to = SizedMenu::kAnySize;
  return menus;
}

}  // namespace ramp
