// SPDX-License-Identifier: Apache-2.0
#include "choice/menu.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "choice/fit.hpp"
#include "choice/sizes.hpp"

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

// A pass as far as its time is known: all its loads, or those that were timed where its range of
// sizes has too few passes that were timed whole.
struct KnownPass {
  int tokens = 0;
  bool is_whole = true;
  std::vector<int> loads;
  double full = 0;  // its time with the best candidate on every GPU
};

struct Search {
  const Lesson& lesson;
  MenuObjective objective;
  std::shared_ptr<const TimeTable> us;  // measured; predicted in the gaps (fill_gaps)
  // The same in a menu of several that asks for so many us of weights ahead, of those that can.
  std::shared_ptr<const std::map<float, TimeTable>> us_ahead;
  std::shared_ptr<const std::vector<std::vector<bool>>> covers;  // [candidate][range of sizes]
  std::vector<KnownPass> passes;

  // The passes' cost when load l takes best[l], or us_of_extra[l] if that is less.
  Cost cost(const std::vector<float>& best, const std::vector<float>& us_of_extra) const {
    Cost sum;
    for (const KnownPass& pass : passes) {
      float slowest = 0;
      for (int load : pass.loads)
        slowest = std::max(slowest, std::min(best[load], us_of_extra[load]));
      if (!is_time(slowest))
        ++sum.untimed;
      else
        sum.value += objective == MenuObjective::kTime ? slowest : std::log(slowest / pass.full);
    }
    return sum;
  }

  double loss(const Cost& c) const {
    if (c.untimed > 0) return std::numeric_limits<double>::infinity();
    if (objective == MenuObjective::kRelative) return std::exp(c.value / passes.size()) - 1;
    double sum = 0;
    for (const KnownPass& pass : passes) sum += pass.full;
    return c.value / sum - 1;
  }

  // Learnable over all sizes, or covered well in one of the ranges that the passes are of: a
  // campaign doesn't time a configuration again where it was far behind, so what is best for large
  // passes alone has few times in all.
  std::vector<int> candidates() const {
    std::vector<bool> has_range(kSizeRanges);
    for (const KnownPass& pass : passes) has_range[size_range(pass.tokens)] = true;
    std::vector<bool> is_member(lesson.candidates.size());
    for (int c : lesson.learnable) is_member[c] = true;
    for (size_t c = 0; c < is_member.size(); ++c)
      for (int r = 0; r < kSizeRanges; ++r)
        if (has_range[r] && (*covers)[c][r]) is_member[c] = true;
    std::vector<int> members;
    for (size_t c = 0; c < is_member.size(); ++c)
      if (is_member[c]) members.push_back(static_cast<int>(c));
    return members;
  }
};

// Whether a candidate was timed on at least half as many of a range's loads as the best covered
// one.
std::vector<std::vector<bool>> cover_ranges(const Lesson& lesson) {
  std::vector<std::set<int>> loads(kSizeRanges);
  for (const LessonPass& pass : lesson.passes)
    for (int load : pass.load_of_gpu)
      if (load >= 0) loads[size_range(pass.tokens)].insert(load);
  std::vector<std::vector<bool>> covers(lesson.candidates.size(),
                                        std::vector<bool>(kSizeRanges, false));
  for (int r = 0; r < kSizeRanges; ++r) {
    std::vector<long> timed;
    for (const auto& row : lesson.us)
      timed.push_back(std::count_if(loads[r].begin(), loads[r].end(),
                                    [&](int load) { return is_time(row[load]); }));
    const long most = timed.empty() ? 0 : *std::max_element(timed.begin(), timed.end());
    for (size_t c = 0; c < timed.size(); ++c) covers[c][r] = timed[c] > 0 && 2 * timed[c] >= most;
  }
  return covers;
}

int pairs_of(const std::vector<int>& load) { return std::accumulate(load.begin(), load.end(), 0); }

// Eq. 3's prediction where a candidate was not timed, so that a menu is not made of what happens to
// have been timed everywhere.  Only between sizes that it was timed at, and a little beyond: what a
// fit says of loads that are many times larger is no evidence.
constexpr double kBeyond = 2;

TimeTable fill_gaps(const Lesson& lesson) {
  TimeTable us = lesson.us;
  const std::vector<CandidateFit> fits = fit_candidates(lesson);
  for (size_t c = 0; c < us.size(); ++c) {
    if (!fits[c].fitted) continue;
    int least = std::numeric_limits<int>::max(), most = 0;
    for (size_t l = 0; l < us[c].size(); ++l)
      if (is_time(lesson.us[c][l])) {
        least = std::min(least, pairs_of(lesson.loads[l]));
        most = std::max(most, pairs_of(lesson.loads[l]));
      }
    for (size_t l = 0; l < us[c].size(); ++l) {
      const std::vector<int>& load = lesson.loads[l];
      const double pairs = pairs_of(load);
      if (!is_time(us[c][l]) && pairs * kBeyond >= least && pairs <= most * kBeyond)
        us[c][l] = predict_us(fits[c].fit.theta, features(lesson.candidates[c].grid, load.data(),
                                                          static_cast<int>(load.size())));
    }
  }
  return us;
}

// Of each depth that there is.
std::map<float, TimeTable> times_by_ahead(const Lesson& lesson, const TimeTable& us) {
  std::vector<bool> is_ahead(lesson.loads.size());
  for (size_t l = 0; l < is_ahead.size(); ++l) {
    const std::vector<int>& load = lesson.loads[l];
    const auto active = std::count_if(load.begin(), load.end(), [](int n) { return n > 0; });
    is_ahead[l] = static_cast<double>(active) > kAheadShare * static_cast<double>(load.size());
  }
  std::map<float, TimeTable> tables;
  for (const Candidate& c : lesson.candidates) tables.try_emplace(c.ahead_us);
  for (auto& [ahead, table] : tables) {
    table = us;
    for (size_t c = 0; c < table.size(); ++c)
      for (size_t l = 0; l < table[c].size(); ++l)
        table[c][l] += lesson.candidates[c].company_us +
                       (is_ahead[l] ? std::max(0.0f, lesson.candidates[c].ahead_us - ahead) : 0.0f);
  }
  return tables;
}

// Fewer whole passes than this in a range, and those that were timed in part count too: a pass is
// seldom much slower than one of its loads says, but where there are whole ones they say it better.
constexpr int kFewWhole = 3;

Search prepare(const Lesson& lesson, const MenuOptions& options) {
  Search search{lesson, options.objective, nullptr, nullptr, nullptr, {}};
  search.covers = std::make_shared<const std::vector<std::vector<bool>>>(cover_ranges(lesson));
  std::vector<bool> is_member(lesson.candidates.size());
  for (int c : lesson.learnable) is_member[c] = true;
  for (size_t c = 0; c < is_member.size(); ++c)
    for (const bool covers : (*search.covers)[c]) is_member[c] = is_member[c] || covers;
  std::vector<float> best(lesson.loads.size(), kUntimed);
  std::vector<int> rivals(lesson.loads.size(), 0);
  int members = 0;
  for (size_t c = 0; c < is_member.size(); ++c) {
    if (!is_member[c]) continue;
    ++members;
    for (size_t l = 0; l < best.size(); ++l) {
      best[l] = std::min(best[l], lesson.us[c][l]);
      rivals[l] += is_time(lesson.us[c][l]);
    }
  }
  std::vector<int> whole(kSizeRanges, 0);
  std::vector<KnownPass> partly;
  for (const LessonPass& pass : lesson.passes) {
    KnownPass all{pass.tokens, true, {}, 0}, part{pass.tokens, false, {}, 0};
    for (int load : pass.load_of_gpu) {
      if (load < 0) continue;
      all.loads.push_back(load);
      all.full = std::max<double>(all.full, best[load]);
      if (rivals[load] < std::clamp(members, 1, kLeastRivals)) continue;
      part.loads.push_back(load);
      part.full = std::max<double>(part.full, best[load]);
    }
    if (all.full == 0) continue;
    if (std::isfinite(all.full)) {
      ++whole[size_range(pass.tokens)];
      search.passes.push_back(std::move(all));
    } else if (!part.loads.empty()) {
      partly.push_back(std::move(part));
    }
  }
  for (KnownPass& pass : partly)
    if (whole[size_range(pass.tokens)] < kFewWhole) search.passes.push_back(std::move(pass));
  if (search.passes.empty())
    throw Error("training passes", fmt::format("{}, none timed", lesson.passes.size()),
                "1 or more timed passes", "profile the recorded passes of the trace");
  search.us = std::make_shared<const TimeTable>(fill_gaps(lesson));
  search.us_ahead = std::make_shared<const std::map<float, TimeTable>>(
      options.counts_company ? times_by_ahead(lesson, *search.us)
                             : std::map<float, TimeTable>{{0.0f, *search.us}});
  return search;
}

// Its passes of `from` to `to` tokens.
Search slice(const Search& all, int from, int to) {
  Search part{all.lesson, all.objective, all.us, all.us_ahead, all.covers, {}};
  for (const KnownPass& pass : all.passes)
    if (pass.tokens >= from && pass.tokens <= to) part.passes.push_back(pass);
  return part;
}

struct Grown {
  GreedyMenu menu;
  Cost cost;
};

// How much faster `two` is than `one`, as a share of all passes' time or of the mean pass.
double gain(const Search& all, const Cost& one, const Cost& two) {
  if (two.untimed != one.untimed) return two.untimed < one.untimed ? 1 : -1;
  if (all.objective == MenuObjective::kTime) return 1 - two.value / one.value;
  return 1 - std::exp((two.value - one.value) / static_cast<double>(all.passes.size()));
}

Grown grow(const Search& search, const TimeTable& us, const std::vector<int>& members,
           const MenuOptions& options) {
  Grown grown;
  std::vector<float> best(search.lesson.loads.size(), kUntimed);
  grown.cost = {static_cast<int>(search.passes.size()) + 1, 0};
  while (static_cast<int>(grown.menu.candidates.size()) < options.entries) {
    int pick = -1;
    Cost lowest = grown.cost;
    for (int c : members)
      if (const Cost with = search.cost(best, us[c]); with < lowest) pick = c, lowest = with;
    if (pick < 0) break;
    if (!grown.menu.candidates.empty() && gain(search, grown.cost, lowest) < options.least_gain)
      break;
    for (size_t l = 0; l < best.size(); ++l) best[l] = std::min(best[l], us[pick][l]);
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
  const std::vector<int> candidates = search.candidates();
  std::set<std::string> classes;
  for (int c : candidates) classes.insert(lesson.candidates[c].occupancy);
  if (!options.occupancy.empty() && !classes.count(options.occupancy))
    throw Error("occupancy", options.occupancy, fmt::format("{}", fmt::join(classes, ", ")),
                "leave it out to try every class");
  Grown best;
  for (const std::string& name : classes) {
    if (!options.occupancy.empty() && name != options.occupancy) continue;
    const auto consider = [&](const TimeTable& us, float ahead, const MenuOptions& of) {
      std::vector<int> members;
      for (int c : candidates)
        if (lesson.candidates[c].occupancy == name && lesson.candidates[c].ahead_us >= ahead)
          members.push_back(c);
      if (members.empty()) return;
      Grown grown = grow(search, us, members, of);
      grown.menu.occupancy = name;
      if (best.menu.candidates.empty() || grown.cost < best.cost) best = std::move(grown);
    };
    MenuOptions alone = options;
    alone.entries = 1;
    consider(*search.us, 0, alone);
    if (options.entries > 1)
      for (const auto& [ahead, us] : *search.us_ahead) consider(us, ahead, options);
  }
  return best;
}

constexpr double kWorthAnotherMenu = 0.0025;

// The largest size of the lower of two menus whose passes end and begin at these sizes.  Sizes in a
// wide gap between them go to the nearer menu.
constexpr int kWideGap = 4;

// Where no more was timed: two loads on which many configurations were compared.
constexpr int kFewPasses = 2;

int border(int below, int above) {
  if (above / kWideGap <= below) return below;
  return static_cast<int>(std::sqrt(static_cast<double>(below) * above));
}

}  // namespace

GreedyMenu greedy_menu(const Lesson& lesson, const MenuOptions& options) {
  return best_class(prepare(lesson, options), options).menu;
}

std::vector<SizedMenu> menus_by_size(const Lesson& lesson, const MenuOptions& options) {
  if (options.menus < 1 || options.menus > kMostMenus)
    throw Error("menus", std::to_string(options.menus), fmt::format("1 to {}", kMostMenus),
                "two: one for small passes, one for the rest");
  const Search all = prepare(lesson, options);
  struct Size {
    int tokens = 0, passes = 0;
  };
  std::map<int, Size> by_tokens;
  std::vector<bool> is_part(kSizeRanges);
  for (const KnownPass& pass : all.passes) {
    by_tokens[pass.tokens].tokens = pass.tokens;
    ++by_tokens[pass.tokens].passes;
    if (!pass.is_whole) is_part[size_range(pass.tokens)] = true;
  }
  std::vector<Size> sizes;
  for (const auto& [tokens, size] : by_tokens) sizes.push_back(size);
  // Whole ranges of which a campaign that was cut short timed little: a menu that grew on a few of
  // their loads is nearer than one for passes of other sizes.
  const auto may_be_few = [&](size_t from, size_t to) {
    const int first = size_range(sizes[from].tokens), last = size_range(sizes[to - 1].tokens);
    if (from > 0 && size_range(sizes[from - 1].tokens) == first) return false;
    if (to < sizes.size() && size_range(sizes[to].tokens) == last) return false;
    return std::find(is_part.begin() + first, is_part.begin() + last + 1, true) !=
           is_part.begin() + last + 1;
  };

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
      for (size_t n = i; n < j; ++n) passes += sizes[n].passes;
      const bool whole = i == 0 && j == sizes.size();
      const int least = may_be_few(i, j) ? kFewPasses : kLeastPasses;
      if (passes < least && !whole) continue;
      std::optional<Grown> part;
      for (int m = 1; m <= options.menus; ++m) {
        if (!best[m - 1][i]) continue;
        if (!part) part = best_class(slice(all, sizes[i].tokens, sizes[j - 1].tokens), options);
        Parted now = *best[m - 1][i];
        now.cost.untimed += part->cost.untimed;
        now.cost.value += part->cost.value;
        now.menus.push_back(
            {j < sizes.size() ? border(sizes[j - 1].tokens, sizes[j].tokens) : SizedMenu::kAnySize,
             part->menu});
        if (!best[m][j] || now.cost < best[m][j]->cost) best[m][j] = std::move(now);
      }
    }
  const Parted* chosen = &*best[1][sizes.size()];
  for (int m = 2; m <= options.menus; ++m)
    if (const auto& more = best[m][sizes.size()];
        more && gain(all, chosen->cost, more->cost) > kWorthAnotherMenu)
      chosen = &*more;
  return chosen->menus;
}

std::vector<std::vector<CandidateFit>> fits_of_menus(const Lesson& lesson,
                                                     const std::vector<CandidateFit>& whole,
                                                     const std::vector<SizedMenu>& menus) {
  std::vector<std::vector<CandidateFit>> fits;
  int above = 0;
  for (const SizedMenu& sized : menus) {
    fits.push_back(fit_candidates_of_sizes(lesson, whole, above, sized.up_to));
    above = sized.up_to;
  }
  return fits;
}

}  // namespace ramp
