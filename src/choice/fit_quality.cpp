// SPDX-License-Identifier: Apache-2.0
#include "choice/fit_quality.hpp"

#include <algorithm>
#include <cmath>

#include "base/statistics.hpp"
#include "choice/statistics.hpp"

namespace ramp {
namespace {

// A rank correlation of fewer is a coin's.
constexpr int kMinRanked = 5;

struct ScoredLoads {
  std::vector<char> scored, large;
};

ScoredLoads scored_loads(const MeasuredSpace& space, Role role, int large_batch) {
  ScoredLoads s{std::vector<char>(space.loads.size(), 0), std::vector<char>(space.loads.size(), 0)};
  for (const MeasuredPass& pass : space.passes) {
    if (pass.role != role) continue;
    for (int load : pass.load_of_gpu)
      if (load >= 0) s.scored[load] = 1, s.large[load] |= pass.tokens >= large_batch;
  }
  return s;
}

struct Tally {
  std::vector<double> errors, pick_errors, counts;
  std::vector<double> rank_all, rank_large, twin_all, twin_large;
};

// One load: `pick` is the half the model was fitted on, `score` the other.
void score_load(const MeasuredSpace& space, const PredictUs& predict, size_t load,
                const TimeTable& pick, const TimeTable& score, bool large, Tally& tally) {
  const std::vector<int>& counts = space.loads[load];
  std::vector<double> predicted, measured, twin;
  for (size_t c = 0; c < space.candidates.size(); ++c) {
    if (!is_time(score[c][load])) continue;
    const double us = predict(c, counts);
    if (!std::isfinite(us)) continue;
    predicted.push_back(us);
    measured.push_back(score[c][load]);
    twin.push_back(pick[c][load]);
    tally.errors.push_back(std::abs(predicted.back() / measured.back() - 1));
  }
  if (predicted.empty()) return;
  const size_t best = std::min_element(predicted.begin(), predicted.end()) - predicted.begin();
  tally.pick_errors.push_back(std::abs(predicted[best] / measured[best] - 1));
  tally.counts.push_back(static_cast<double>(predicted.size()));
  if (static_cast<int>(predicted.size()) < kMinRanked) return;
  const double rank = spearman(predicted, measured), again = spearman(twin, measured);
  if (std::isnan(rank) || std::isnan(again)) return;
  tally.rank_all.push_back(rank);
  tally.twin_all.push_back(again);
  if (!large) return;
  tally.rank_large.push_back(rank);
  tally.twin_large.push_back(again);
}

}  // namespace

FitQuality fit_quality(const MeasuredSpace& space, int large_batch) {
  const auto fitted = [&](Half half) -> PredictUs {
    return [&space, fits = fit_candidates(make_lesson(space, Role::kTrain, half))](
               size_t c, const std::vector<int>& load) -> double {
      if (!fits[c].fitted) return INFINITY;
      return predict_us(fits[c].fit.theta, features(space.candidates[c].grid, load.data(),
                                                    static_cast<int>(load.size())));
    };
  };
  return prediction_quality(space, fitted, large_batch);
}

FitQuality prediction_quality(const MeasuredSpace& space,
                              const std::function<PredictUs(Half)>& fitted, int large_batch) {
  FitQuality q;
  q.held_out = std::any_of(space.passes.begin(), space.passes.end(),
                           [](const auto& p) { return p.role == Role::kTest; });
  const ScoredLoads loads =
      scored_loads(space, q.held_out ? Role::kTest : Role::kTrain, large_batch);
  Tally tally;
  for (Half half : {Half::kFirst, Half::kSecond}) {
    const PredictUs predict = fitted(half);
    const TimeTable pick = median_times(space, half), score = median_times(space, opposite(half));
    for (size_t l = 0; l < space.loads.size(); ++l)
      if (loads.scored[l]) score_load(space, predict, l, pick, score, loads.large[l], tally);
  }
  q.loads_all = static_cast<int>(tally.rank_all.size() / 2);
  q.loads_large = static_cast<int>(tally.rank_large.size() / 2);
  q.median_error = median(tally.errors);
  q.pick_error = median(tally.pick_errors);
  q.candidates_a_load = median(tally.counts);
  q.rank_all = median(tally.rank_all);
  q.rank_large = median(tally.rank_large);
  q.twin_all = median(tally.twin_all);
  q.twin_large = median(tally.twin_large);
  return q;
}

}  // namespace ramp
