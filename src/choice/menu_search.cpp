// SPDX-License-Identifier: Apache-2.0
#include "choice/menu_search.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "choice/fit.hpp"
#include "choice/sizes.hpp"

namespace ramp {
namespace {

constexpr float kUntimed = std::numeric_limits<float>::infinity();

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

// Fewer whole passes than this in a range, and those that were timed in part count too: a pass is
// seldom much slower than one of its loads says, but where there are whole ones they say it better.
constexpr int kFewWhole = 3;

}  // namespace

KnownTimes known_times(const Lesson& lesson) {
  KnownTimes known{lesson, {}, cover_ranges(lesson), {}};
  known.is_member.assign(lesson.candidates.size(), false);
  for (int c : lesson.learnable) known.is_member[c] = true;
  std::vector<float> best(lesson.loads.size(), kUntimed);
  std::vector<int> rivals(lesson.loads.size(), 0);
  int members = 0;
  for (size_t c = 0; c < known.is_member.size(); ++c) {
    for (const bool covers : known.covers[c]) known.is_member[c] = known.is_member[c] || covers;
    if (!known.is_member[c]) continue;
    ++members;
    for (size_t l = 0; l < best.size(); ++l) {
      best[l] = std::min(best[l], lesson.us[c][l]);
      rivals[l] += is_time(lesson.us[c][l]);
    }
  }
  std::vector<int> whole(kSizeRanges, 0);
  std::vector<KnownPass> partly;
  for (const LessonPass& pass : lesson.passes) {
    KnownPass all{pass.tokens, {}, 0}, part{pass.tokens, {}, 0};
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
      known.passes.push_back(std::move(all));
    } else if (!part.loads.empty()) {
      partly.push_back(std::move(part));
    }
  }
  for (KnownPass& pass : partly)
    if (whole[size_range(pass.tokens)] < kFewWhole) known.passes.push_back(std::move(pass));
  if (known.passes.empty())
    throw Error("training passes", fmt::format("{}, none timed", lesson.passes.size()),
                "1 or more timed passes", "profile the recorded passes of the trace");
  std::stable_sort(known.passes.begin(), known.passes.end(),
                   [](const KnownPass& a, const KnownPass& b) { return a.tokens < b.tokens; });
  known.lesson.us = fill_gaps(lesson);
  return known;
}

MenuSearch::MenuSearch(KnownTimes times, const MenuOptions& options)
    : times_(std::move(times)), options_(options) {
  const Lesson& lesson = times_.lesson;
  std::vector<int> load_at;  // of each GPU of each pass
  for (const KnownPass& pass : times_.passes) {
    first_.push_back(static_cast<int>(load_at.size()));
    load_at.insert(load_at.end(), pass.loads.begin(), pass.loads.end());
  }
  first_.push_back(static_cast<int>(load_at.size()));
  std::vector<bool> is_ahead(load_at.size());
  for (size_t i = 0; i < load_at.size(); ++i) {
    const std::vector<int>& load = lesson.loads[load_at[i]];
    const auto active = std::count_if(load.begin(), load.end(), [](int n) { return n > 0; });
    is_ahead[i] = static_cast<double>(active) > kAheadShare * static_cast<double>(load.size());
  }
  TimeTable us(lesson.candidates.size(), std::vector<float>(load_at.size()));
  for (size_t c = 0; c < us.size(); ++c)
    for (size_t i = 0; i < load_at.size(); ++i) us[c][i] = lesson.us[c][load_at[i]];
  alone_ = table(us);
  if (options.entries == 1) return;
  if (!options.counts_company) {
    ahead_[0] = alone_;
    return;
  }
  for (const Candidate& c : lesson.candidates) ahead_.try_emplace(c.ahead_us);
  for (auto& [ahead, of] : ahead_) {
    TimeTable later = us;
    for (size_t c = 0; c < later.size(); ++c) {
      const Candidate& candidate = lesson.candidates[c];
      for (size_t i = 0; i < load_at.size(); ++i)
        later[c][i] += candidate.company_us +
                       (is_ahead[i] ? std::max(0.0f, candidate.ahead_us - ahead) : 0.0f);
    }
    of = table(std::move(later));
  }
}

void MenuSearch::add_pass(int pass, float slowest, MenuCost& cost) const {
  if (!is_time(slowest))
    ++cost.untimed;
  else
    cost.value += options_.objective == MenuObjective::kTime
                      ? slowest
                      : std::log(slowest / times_.passes[pass].full);
}

using Row = Eigen::Map<const Eigen::ArrayXf>;

// The passes' cost when a GPU takes best[i], or us[i] if that is less.
MenuCost MenuSearch::cost(Slice slice, const std::vector<float>& best,
                          const std::vector<float>& us) const {
  MenuCost sum;
  for (int p = slice.from; p < slice.to; ++p) {
    const int first = first_[p], gpus = first_[p + 1] - first;
    add_pass(p, Row(&best[first], gpus).min(Row(&us[first], gpus)).maxCoeff(), sum);
  }
  return sum;
}

MenuCost MenuSearch::cost(Slice slice, const Sums& sums) const {
  return {sums.untimed[slice.to] - sums.untimed[slice.from],
          sums.value[slice.to] - sums.value[slice.from]};
}

MenuSearch::Sums MenuSearch::sums(const std::vector<float>& us) const {
  Sums sums{{0}, {0}};
  MenuCost sum;
  for (int p = 0; p < static_cast<int>(times_.passes.size()); ++p) {
    add_pass(p, Row(&us[first_[p]], first_[p + 1] - first_[p]).maxCoeff(), sum);
    sums.untimed.push_back(sum.untimed);
    sums.value.push_back(sum.value);
  }
  return sums;
}

MenuSearch::Table MenuSearch::table(TimeTable us) const {
  Table table{std::move(us), {}, {}};
  std::map<std::string, std::vector<float>> best;
  for (size_t c = 0; c < table.us.size(); ++c) {
    const std::vector<float>& row = table.us[c];
    table.alone.push_back(sums(row));
    std::vector<float>& of_class =
        best.try_emplace(times_.lesson.candidates[c].occupancy, row).first->second;
    for (size_t i = 0; i < row.size(); ++i) of_class[i] = std::min(of_class[i], row[i]);
  }
  for (const auto& [name, row] : best) table.bound[name] = sums(row);
  return table;
}

double MenuSearch::loss(Slice slice, const MenuCost& cost) const {
  if (cost.untimed > 0) return std::numeric_limits<double>::infinity();
  if (options_.objective == MenuObjective::kRelative)
    return std::exp(cost.value / (slice.to - slice.from)) - 1;
  double sum = 0;
  for (int p = slice.from; p < slice.to; ++p) sum += times_.passes[p].full;
  return cost.value / sum - 1;
}

double MenuSearch::gain(const MenuCost& one, const MenuCost& two, int passes) const {
  if (two.untimed != one.untimed) return two.untimed < one.untimed ? 1 : -1;
  if (options_.objective == MenuObjective::kTime) return 1 - two.value / one.value;
  return 1 - std::exp((two.value - one.value) / passes);
}

// Who may be in a menu, by occupancy class: learnable over all sizes, or covered well in one of the
// ranges that the passes are of.  A campaign doesn't time a configuration again where it was far
// behind, so what is best for large passes alone has few times in all.
std::map<std::string, std::vector<int>> MenuSearch::classes(Slice slice) const {
  const std::vector<Candidate>& candidates = times_.lesson.candidates;
  std::vector<bool> has_range(kSizeRanges);
  for (int p = slice.from; p < slice.to; ++p) has_range[size_range(times_.passes[p].tokens)] = true;
  std::vector<bool> is_member(candidates.size());
  for (int c : times_.lesson.learnable) is_member[c] = true;
  std::map<std::string, std::vector<int>> classes;
  for (size_t c = 0; c < is_member.size(); ++c) {
    for (int r = 0; r < kSizeRanges; ++r)
      if (has_range[r] && times_.covers[c][r]) is_member[c] = true;
    if (is_member[c]) classes[candidates[c].occupancy].push_back(static_cast<int>(c));
  }
  return classes;
}

GrownMenu MenuSearch::grow(Slice slice, const Table& table, const std::vector<int>& members,
                           int entries) const {
  const int passes = slice.to - slice.from;
  GrownMenu grown;
  std::vector<float> best;
  grown.cost = {passes + 1, 0};
  while (static_cast<int>(grown.menu.candidates.size()) < entries) {
    int pick = -1;
    MenuCost lowest = grown.cost;
    for (int c : members) {
      const MenuCost with =
          best.empty() ? cost(slice, table.alone[c]) : cost(slice, best, table.us[c]);
      if (with < lowest) pick = c, lowest = with;
    }
    if (pick < 0) break;
    if (!grown.menu.candidates.empty() && gain(grown.cost, lowest, passes) < options_.least_gain)
      break;
    const std::vector<float>& us = table.us[pick];
    if (best.empty()) best = us;
    for (int i = first_[slice.from]; i < first_[slice.to]; ++i) best[i] = std::min(best[i], us[i]);
    grown.cost = lowest;
    grown.menu.candidates.push_back(pick);
    grown.menu.loss.push_back(loss(slice, lowest));
  }
  return grown;
}

GrownMenu MenuSearch::grow(int from, int to) const {
  if (options_.entries < 1 || options_.entries > kMaxMenuEntries)
    throw Error("menu entries", std::to_string(options_.entries),
                fmt::format("1 to {}", kMaxMenuEntries), "ask for six, as the paper does");
  const Slice slice{from, to};
  const std::vector<Candidate>& candidates = times_.lesson.candidates;
  std::map<std::string, std::vector<int>> by_class = classes(slice);
  if (!options_.occupancy.empty() && !by_class.count(options_.occupancy)) {
    std::vector<std::string> names;
    for (const auto& [name, members] : by_class) names.push_back(name);
    throw Error("occupancy", options_.occupancy, fmt::format("{}", fmt::join(names, ", ")),
                "leave it out to try every class");
  }
  if (!options_.occupancy.empty())
    std::erase_if(by_class, [&](const auto& of) { return of.first != options_.occupancy; });
  GrownMenu best;
  const auto consider = [&](GrownMenu grown, const std::string& name) {
    grown.menu.occupancy = name;
    if (best.menu.candidates.empty() || grown.cost < best.cost) best = std::move(grown);
  };
  for (const auto& [name, members] : by_class) consider(grow(slice, alone_, members, 1), name);
  for (const auto& [name, members] : by_class)
    for (const auto& [ahead, table] : ahead_) {
      // Most classes are so far behind that not even all of their candidates would do.
      if (!(cost(slice, table.bound.at(name)) < best.cost)) continue;
      std::vector<int> able;
      bool is_least = ahead_.size() == 1;  // else no entry would ask for so little
      for (int c : members)
        if (candidates[c].ahead_us >= ahead) {
          able.push_back(c);
          is_least = is_least || candidates[c].ahead_us == ahead;
        }
      if (is_least) consider(grow(slice, table, able, options_.entries), name);
    }
  return best;
}

}  // namespace ramp
