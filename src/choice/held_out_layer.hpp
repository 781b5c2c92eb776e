// SPDX-License-Identifier: Apache-2.0
// A layer that was never measured, so to say (Section 4.2: "fit on seven models, ... on the
// eighth"): the cost model with the layer's dimensions in its terms, fitted on every other model,
// scored on this one's held-out passes beside the model that is fitted on this one.
#pragma once

#include <span>
#include <vector>

#include "choice/evaluate.hpp"

namespace ramp {

struct HeldOutLayer {
  std::vector<const MeasuredSpace*> others;
  Evaluation evaluation;  // cost-model, cost-model-weighted, cost-model-cross, exhaustive
  FitQuality own, cross;  // Eq. 3 fitted here; fitted on the others
  int known = 0;          // candidates that the others know, and of these
  int known_by_one = 0;   // those that one model alone timed
};

// Of the same GPU and another model: another layout of this one would tell too much.
std::vector<const MeasuredSpace*> other_models(const MeasuredSpace& space,
                                               std::span<const MeasuredSpace* const> all);

// Throws Error where no other model is among them, or nothing can be scored.
HeldOutLayer score_held_out(const MeasuredSpace& space, std::span<const MeasuredSpace* const> all,
                            const EvaluateOptions& options = {});

// Geometric mean over layers of a policy's gap, every layer counting alike; NaN of none.
double mean_gap(std::span<const HeldOutLayer> layers, std::string_view policy);

}  // namespace ramp
