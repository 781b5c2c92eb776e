// SPDX-License-Identifier: Apache-2.0
#include "choice/nearby_sizes.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "choice/fit.hpp"
#include "choice/sizes.hpp"
#include "problem/random.hpp"

namespace ramp {
namespace {

constexpr float kUntimed = std::numeric_limits<float>::infinity();

int drawn(int tokens, double probability, Random& random) {
  int kept = 0;
  for (int i = 0; i < tokens; ++i) kept += random.uniform() < probability;
  return kept;
}

// Sorted descending as all loads; empty where no token is left.
std::vector<int> scaled(std::vector<int> load, double scale, Random& random) {
  for (int& n : load) n = scale < 1 ? drawn(n, scale, random) : n + drawn(n, scale - 1, random);
  std::sort(load.begin(), load.end(), std::greater<>());
  if (load.empty() || load[0] == 0) return {};
  return load;
}

std::vector<std::vector<CandidateFit>> fits_of_ranges(const Lesson& lesson) {
  const std::vector<CandidateFit> whole = fit_candidates(lesson);
  std::vector<std::vector<CandidateFit>> fits;
  for (int r = 0, above = 0; r < kSizeRanges; ++r) {
    const int up_to = r + 1 < kSizeRanges ? kSizeLimits[r] : std::numeric_limits<int>::max();
    fits.push_back(fit_candidates_of_sizes(lesson, whole, above, up_to));
    above = up_to;
  }
  return fits;
}

double predicted(const Lesson& lesson, size_t candidate, const CandidateFit& fit,
                 const std::vector<int>& load) {
  return predict_us(fit.fit.theta, features(lesson.candidates[candidate].grid, load.data(),
                                            static_cast<int>(load.size())));
}

}  // namespace

KnownTimes with_nearby_sizes(const KnownTimes& times, const Lesson& lesson) {
  KnownTimes out = times;
  const std::vector<std::vector<CandidateFit>> fits = fits_of_ranges(lesson);
  Random random(1);
  const auto add_load = [&](int base, std::vector<int> load, const std::vector<CandidateFit>& of) {
    float full = kUntimed;
    for (size_t c = 0; c < out.lesson.us.size(); ++c) {
      std::vector<float>& row = out.lesson.us[c];
      float us = kUntimed;
      if (out.is_member[c] && of[c].fitted && is_time(row[base]))
        us = static_cast<float>(row[base] * predicted(lesson, c, of[c], load) /
                                predicted(lesson, c, of[c], lesson.loads[base]));
      row.push_back(us);
      full = std::min(full, us);
    }
    out.lesson.loads.push_back(std::move(load));
    return full;
  };
  for (const KnownPass& pass : times.passes)
    for (const double scale : kNearby) {
      const double tokens = pass.tokens * scale;
      if (tokens < 0.99) continue;  // of a pass of one token
      KnownPass nearby{static_cast<int>(std::lround(tokens)), {}, 0};
      for (int base : pass.loads) {
        std::vector<int> load = scaled(lesson.loads[base], scale, random);
        if (load.empty()) continue;
        const float full = add_load(base, std::move(load), fits[size_range(pass.tokens)]);
        nearby.full = std::max<double>(nearby.full, full);
        nearby.loads.push_back(static_cast<int>(out.lesson.loads.size()) - 1);
      }
      if (nearby.full > 0 && std::isfinite(nearby.full)) out.passes.push_back(std::move(nearby));
    }
  std::stable_sort(out.passes.begin(), out.passes.end(),
                   [](const KnownPass& a, const KnownPass& b) { return a.tokens < b.tokens; });
  return out;
}

}  // namespace ramp
