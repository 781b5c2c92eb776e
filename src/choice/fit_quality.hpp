// SPDX-License-Identifier: Apache-2.0
// How well Eq. 3 predicts and ranks loads that it was not fitted on (Section 4, "Why the cost model
// works"), beside how well one measurement predicts another of the same thing: nothing can be asked
// of a model beyond that.
#pragma once

#include <functional>

#include "choice/fit.hpp"

namespace ramp {

struct FitQuality {
  bool held_out = false;    // scored on test passes; without any, on the training passes themselves
  double median_error = 0;  // of |predicted / measured - 1|, over fitted candidates x loads
  double pick_error = 0;    // the same, over the candidate that the model picks on each load
  // Spearman between the model's order of the candidates and the measured one, per load, median
  // over loads.
  double rank_all = 0, rank_large = 0;
  // The same between the two halves of the samples.
  double twin_all = 0, twin_large = 0;
  int loads_all = 0,
      loads_large = 0;           // loads that enter; large: of a pass of large_batch tokens or more
  double candidates_a_load = 0;  // median; few, close candidates make every rank correlation low
};

inline constexpr int kLargeBatch = 128;  // tokens, the paper's threshold

// Fits on one half of the samples of the training passes and scores on the other half, both ways
// round; the numbers are over both.  NaN where nothing enters.
FitQuality fit_quality(const MeasuredSpace& space, int large_batch = kLargeBatch);

// us of a candidate of the space on a load; infinity where the model has none.
using PredictUs = std::function<double(std::size_t candidate, const std::vector<int>& load)>;
// The same of any model: fitted(half) is it, fitted on that half of the samples.
FitQuality prediction_quality(const MeasuredSpace& space,
                              const std::function<PredictUs(Half)>& fitted,
                              int large_batch = kLargeBatch);

}  // namespace ramp
