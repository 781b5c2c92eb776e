// SPDX-License-Identifier: Apache-2.0
#include "choice/held_out_layer.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.hpp"
#include "choice/cross_model.hpp"
#include "choice/statistics.hpp"

namespace ramp {
namespace {

void count_known(HeldOutLayer& layer, const MeasuredSpace& space) {
  std::map<std::string, std::set<std::string>> models;  // that timed a label
  for (const MeasuredSpace* other : layer.others)
    for (std::size_t c = 0; c < other->candidates.size(); ++c)
      if (std::any_of(other->samples[c].begin(), other->samples[c].end(),
                      [](const auto& samples) { return !samples.empty(); }))
        models[other->candidates[c].label].insert(other->provenance.model);
  for (const Candidate& candidate : space.candidates) {
    const std::size_t by = models[candidate.label].size();
    layer.known += by > 0, layer.known_by_one += by == 1;
  }
}

}  // namespace

std::vector<const MeasuredSpace*> other_models(const MeasuredSpace& space,
                                               std::span<const MeasuredSpace* const> all) {
  std::vector<const MeasuredSpace*> others;
  for (const MeasuredSpace* other : all)
    if (other->provenance.model != space.provenance.model &&
        other->provenance.gpu == space.provenance.gpu)
      others.push_back(other);
  return others;
}

HeldOutLayer score_held_out(const MeasuredSpace& space, std::span<const MeasuredSpace* const> all,
                            const EvaluateOptions& options) {
  HeldOutLayer layer;
  layer.others = other_models(space, all);
  if (layer.others.empty())
    throw Error("measurements", "of " + space.provenance.model + " alone",
                "of two models or more, on the same GPU", "name further files");
  EvaluateOptions with_others = options;
  with_others.policies = {"cost-model", "cost-model-weighted", std::string(kCrossPolicy),
                          std::string(kOraclePolicy)};
  with_others.others = layer.others;
  layer.evaluation = evaluate(space, with_others);
  layer.own = fit_quality(space, options.large_batch);
  const auto fitted = [&](Half half) -> PredictUs {
    CrossModel model;
    model.fit(recorded_lessons(layer.others, half), space.shape);
    return [&space, model = std::move(model)](std::size_t c, const std::vector<int>& load) {
      return model.predict_us(space.candidates[c], load);
    };
  };
  layer.cross = prediction_quality(space, fitted, options.large_batch);
  count_known(layer, space);
  return layer;
}

double mean_gap(std::span<const HeldOutLayer> layers, std::string_view policy) {
  std::vector<double> logs;
  for (const HeldOutLayer& layer : layers) {
    const double gap = score_of(layer.evaluation, policy).all.gap;
    if (std::isfinite(gap)) logs.push_back(std::log1p(gap));
  }
  return exp_mean(logs) - 1;
}

}  // namespace ramp
