// SPDX-License-Identifier: Apache-2.0
#include "choice/fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "choice/nnls.hpp"

namespace ramp {
namespace {

constexpr int kTerms = 4;

// Of every load: the fastest of the rivals.
std::vector<float> fastest(const Lesson& lesson, std::span<const int> rivals) {
  std::vector<float> us(lesson.loads.size(), std::numeric_limits<float>::infinity());
  for (int c : rivals)
    for (size_t l = 0; l < us.size(); ++l) us[l] = std::min(us[l], lesson.us[c][l]);
  return us;
}

}  // namespace

Fit fit_theta(std::span<const Observation> observations) {
  if (observations.size() < static_cast<size_t>(kMinObservations))
    throw Error("observations", std::to_string(observations.size()),
                fmt::format("{} or more", kMinObservations),
                "profile this configuration on more loads");
  for (const Observation& o : observations)
    if (!std::isfinite(o.us) || o.us <= 0)
      throw Error("observation.us", fmt::format("{}", o.us), "positive, finite times",
                  "profile again");
  NnlsProblem problem{kTerms, {}, {}};
  for (const Observation& o : observations) {
    const double root = std::sqrt(o.weight);
    for (int count : {1, o.features.waves, o.features.tiles, o.features.active})
      problem.a.push_back(count / static_cast<double>(o.us) * root);
    problem.b.push_back(root);
  }
  const NnlsSolution solution = solve_nnls(problem);
  const std::vector<double>& theta = solution.x;
  Fit fit;
  fit.theta = {static_cast<float>(theta[0]), static_cast<float>(theta[1]),
               static_cast<float>(theta[2]), static_cast<float>(theta[3])};
  fit.observations = static_cast<int>(observations.size());
  fit.rank = solution.rank;
  fit.condition = solution.condition;
  std::vector<double> errors;
  double squares = 0;
  for (const Observation& o : observations) {
    errors.push_back(std::abs(predict_us(fit.theta, o.features) / o.us - 1.0));
    squares += errors.back() * errors.back();
  }
  fit.rms_error = std::sqrt(squares / errors.size());
  fit.median_error = median(errors);
  return fit;
}

double contender_weight(double us, double fastest_us, double contending) {
  const double slower = std::max(0.0, us / fastest_us - 1);
  return 1 / ((1 + slower / contending) * (1 + slower / contending));
}

std::vector<CandidateFit> fit_candidates(const Lesson& lesson, std::span<const int> rivals) {
  const std::vector<float> best = fastest(lesson, rivals);
  std::vector<CandidateFit> fits(lesson.candidates.size());
  std::vector<Observation> observations;
  for (size_t c = 0; c < fits.size(); ++c) {
    observations.clear();
    for (size_t l = 0; l < lesson.loads.size(); ++l)
      if (is_time(lesson.us[c][l])) {
        const std::vector<int>& load = lesson.loads[l];
        observations.push_back(
            {features(lesson.candidates[c].grid, load.data(), static_cast<int>(load.size())),
             lesson.us[c][l], rivals.empty() ? 1 : contender_weight(lesson.us[c][l], best[l])});
      }
    if (observations.size() < static_cast<size_t>(kMinObservations)) {
      fits[c].why_not = fmt::format("timed on {} training loads, {} are needed",
                                    observations.size(), kMinObservations);
      continue;
    }
    fits[c].fit = fit_theta(observations);
    fits[c].fitted = true;
  }
  return fits;
}

std::vector<CandidateFit> fit_candidates_of_sizes(const Lesson& lesson,
                                                  const std::vector<CandidateFit>& whole, int above,
                                                  int up_to) {
  std::vector<bool> is_near(lesson.loads.size(), false);
  for (const LessonPass& pass : lesson.passes)
    if (2LL * pass.tokens > above && pass.tokens <= 2LL * up_to)
      for (int load : pass.load_of_gpu)
        if (load >= 0) is_near[load] = true;
  Lesson near = lesson;
  for (auto& row : near.us)
    for (size_t l = 0; l < row.size(); ++l)
      if (!is_near[l]) row[l] = std::numeric_limits<float>::infinity();
  std::vector<CandidateFit> fits = fit_candidates(near);
  for (size_t c = 0; c < fits.size(); ++c)
    if (!fits[c].fitted || fits[c].fit.observations < kLeastOfSizes) fits[c] = whole[c];
  return fits;
}

}  // namespace ramp
