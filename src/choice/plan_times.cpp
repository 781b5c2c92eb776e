// SPDX-License-Identifier: Apache-2.0
#include "choice/plan_times.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/error.hpp"

namespace ramp {
namespace {

constexpr float kUntimed = std::numeric_limits<float>::infinity();

std::string words(const LocalShape& s) {
  return fmt::format("{} experts, top {}, d {}, h {}", s.experts, s.top_k, s.hidden,
                     s.intermediate);
}

// One part of the plan, its entries as rows of the time tables; -1 where there is none.
struct Part {
  std::vector<MenuEntry> menu;
  std::vector<int> candidates;
  size_t place = 0;  // in the order of for_each_part
};

float time_of(const TimeTable& us, int candidate, int load) {
  return candidate < 0 ? kUntimed : us[candidate][load];
}

int fastest_entry(const Part& part, const TimeTable& us, int load) {
  int best = part.candidates[0];
  for (const int candidate : part.candidates)
    if (time_of(us, candidate, load) < time_of(us, best, load)) best = candidate;
  return best;
}

}  // namespace

PlanTimes time_plan(const MeasuredSpace& space, const Plan& plan) {
  if (words(plan.shape) != words(space.shape))
    throw Error("plan", "a plan for " + words(plan.shape), words(space.shape),
                "give the plan of these measurements, or make one: ramp plan make FILE.rmeas");
  std::map<std::string, int> by_label;
  for (size_t c = 0; c < space.candidates.size(); ++c)
    by_label[space.candidates[c].label] = static_cast<int>(c);
  PlanTimes out;
  std::map<const Plan*, Part> parts;
  std::set<std::string> missing;
  for_each_part(plan, [&](int, const Plan& of) {
    Part& part = parts[&of];
    part.menu = menu_of(of);
    part.place = out.runs.size();
    out.runs.emplace_back(of.menu.size(), 0);
    for (const PlanEntry& entry : of.menu) {
      const auto at = by_label.find(entry.label);
      part.candidates.push_back(at == by_label.end() ? -1 : at->second);
      if (at == by_label.end()) missing.insert(entry.label);
    }
  });
  out.not_measured.assign(missing.begin(), missing.end());
  const TimeTable halves[2] = {median_times(space, Half::kFirst),
                               median_times(space, Half::kSecond)};
  for (const MeasuredPass& pass : space.passes) {
    const auto has_load = [](int load) { return load >= 0; };
    if (pass.role != Role::kTest ||
        std::none_of(pass.load_of_gpu.begin(), pass.load_of_gpu.end(), has_load))
      continue;
    out.tokens.push_back(pass.tokens);
    const Part& part = parts.at(&plan_for(plan, pass.tokens));
    for (int d = 0; d < 2; ++d) {
      float chosen = 0, best = 0;
      for (const int load : pass.load_of_gpu) {
        if (load < 0) continue;
        const TimeTable &pick = halves[d], &score = halves[1 - d];
        const int entry = select(space.loads[load], part.menu).entry;
        if (d == 0) ++out.runs[part.place][entry];
        chosen = std::max(chosen, time_of(score, part.candidates[entry], load));
        best = std::max(best, time_of(score, fastest_entry(part, pick, load), load));
      }
      out.chosen.us[d].push_back(chosen), out.best_entry.us[d].push_back(best);
    }
  }
  return out;
}

}  // namespace ramp
