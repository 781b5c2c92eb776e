// SPDX-License-Identifier: Apache-2.0
#include "choice/policies/ranked.hpp"

#include "base/error.hpp"
#include "choice/fit.hpp"

namespace ramp {

int Ranked::cheapest(std::span<const int> load) const {
  int best = entries[0].candidate;
  float best_us = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const Features f = features(entries[i].grid, load.data(), static_cast<int>(load.size()));
    const float us = predict_us(entries[i].theta, f);
    if (i == 0 || us < best_us) best = entries[i].candidate, best_us = us;
  }
  return best;
}

int RankedBySize::cheapest(int tokens, std::span<const int> load) const {
  std::size_t i = 0;
  while (tokens > ranges[i].up_to) ++i;
  return ranges[i].ranked.cheapest(load);
}

std::size_t RankedBySize::bytes() const {
  std::size_t sum = 0;
  for (const Range& range : ranges) sum += range.ranked.bytes();
  return sum;
}

Ranked rank_by_cost_model(const Lesson& lesson, std::span<const int> candidates,
                          std::span<const int> rivals) {
  return rank_by_fits(lesson, candidates, fit_candidates(lesson, rivals));
}

Ranked rank_by_fits(const Lesson& lesson, std::span<const int> candidates,
                    const std::vector<CandidateFit>& fits) {
  Ranked ranked;
  for (int c : candidates)
    if (fits[c].fitted) ranked.entries.push_back({c, lesson.candidates[c].grid, fits[c].fit.theta});
  if (ranked.entries.empty())
    throw Error("training loads", fmt::format("{}", lesson.loads.size()),
                fmt::format("{} or more timed loads a configuration", kMinObservations),
                "profile more passes");
  return ranked;
}

}  // namespace ramp
