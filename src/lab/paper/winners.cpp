// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/winners.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "choice/statistics.hpp"

namespace ramp {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

float fastest(const TimeTable& us, int load) {
  float best = std::numeric_limits<float>::infinity();
  for (const auto& row : us) best = std::min(best, row[load]);
  return best;
}

std::vector<int> loads_of(const MeasuredPass& pass) {
  std::vector<int> loads;
  for (const int load : pass.load_of_gpu)
    if (load >= 0) loads.push_back(load);
  return loads;
}

// The loads of recorded passes between two sizes, each once.
std::vector<int> loads_between(const MeasuredSpace& space, int from, int below) {
  std::set<int> loads;
  for (const MeasuredPass& pass : space.passes)
    if (pass.role != Role::kUniform && pass.tokens >= from && pass.tokens < below)
      for (const int load : loads_of(pass)) loads.insert(load);
  return {loads.begin(), loads.end()};
}

using TimesOfHeight = std::map<int, std::vector<float>>;  // rows -> us of each load

TimesOfHeight times_of_heights(const MeasuredSpace& space, const TimeTable& us) {
  TimesOfHeight out;
  for (size_t c = 0; c < us.size(); ++c) {
    const int rows = space.candidates[c].grid.phase[0].rows;
    const auto [at, is_new] = out.emplace(rows, us[c]);
    if (!is_new)
      for (size_t l = 0; l < us[c].size(); ++l) at->second[l] = std::min(at->second[l], us[c][l]);
  }
  return out;
}

}  // namespace

int winners_of(const TimeTable& us, std::span<const int> loads, double slack) {
  std::vector<int> left(loads.begin(), loads.end());
  for (const int load : left)
    if (!is_time(fastest(us, load))) return 0;
  int picked = 0;
  for (; !left.empty(); ++picked) {
    size_t best = 0, most = 0;
    const auto serves = [&](size_t candidate, int load) {
      return us[candidate][load] <= (1 + slack) * fastest(us, load);
    };
    for (size_t c = 0; c < us.size(); ++c) {
      const size_t served = static_cast<size_t>(
          std::count_if(left.begin(), left.end(), [&](const int load) { return serves(c, load); }));
      if (served > most) best = c, most = served;
    }
    std::erase_if(left, [&](const int load) { return serves(best, load); });
  }
  return picked;
}

WinnerCount count_winners(const MeasuredSpace& space, int least_tokens, int most_tokens) {
  const TimeTable us = median_times(space, Half::kBoth);
  WinnerCount count;
  std::set<int> all;
  for (const MeasuredPass& pass : space.passes) {
    if (pass.role == Role::kUniform || pass.tokens < least_tokens || pass.tokens > most_tokens)
      continue;
    const std::vector<int> loads = loads_of(pass);
    // One that was timed with few configurations has no winner.
    const bool is_whole = std::all_of(loads.begin(), loads.end(), [&](const int load) {
      return 4 * std::count_if(us.begin(), us.end(),
                               [&](const auto& row) { return is_time(row[load]); }) >=
             static_cast<long>(us.size());
    });
    const int exact = is_whole ? winners_of(us, loads, 0) : 0;
    if (exact == 0) continue;
    const int close = winners_of(us, loads, kClose);
    count.exact.push_back(exact), count.close.push_back(close);
    all.insert(loads.begin(), loads.end());
    count.one_exact += exact == 1, count.one_close += close == 1;
  }
  const double passes = static_cast<double>(count.exact.size());
  count.one_exact = passes > 0 ? count.one_exact / passes : kNaN;
  count.one_close = passes > 0 ? count.one_close / passes : kNaN;
  const std::vector<int> together(all.begin(), all.end());
  count.all_exact = winners_of(us, together, 0);
  count.all_close = winners_of(us, together, kClose);
  return count;
}

double small_tiles_on_large(const MeasuredSpace& space, int small_below, int large_from) {
  const TimeTable us = median_times(space, Half::kBoth);
  const TimesOfHeight heights = times_of_heights(space, us);
  // log(height / best height) over the loads that the height has a time for.
  const auto slower = [&](const std::vector<float>& times, const std::vector<int>& loads) {
    std::vector<double> logs;
    for (const int load : loads)
      if (is_time(times[load])) logs.push_back(std::log(times[load] / fastest(us, load)));
    return exp_mean(logs);
  };
  const std::vector<int> small = loads_between(space, 0, small_below),
                         large = loads_between(space, large_from, std::numeric_limits<int>::max());
  const std::vector<float>* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [rows, times] : heights)
    if (const double ratio = slower(times, small); ratio < least) least = ratio, best = &times;
  return best ? slower(*best, large) : kNaN;
}

std::vector<int> winning_rows(const MeasuredSpace& space, const TimeTable& us,
                              std::span<const int> loads) {
  std::vector<int> rows;
  for (const int load : loads) {
    size_t best = 0;
    for (size_t c = 0; c < us.size(); ++c)
      if (us[c][load] < us[best][load]) best = c;
    if (is_time(us[best][load])) rows.push_back(space.candidates[best].grid.phase[0].rows);
  }
  return rows;
}

}  // namespace ramp
