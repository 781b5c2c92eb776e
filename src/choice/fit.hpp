// SPDX-License-Identifier: Apache-2.0
// theta of Eq. 3 by non-negative least squares on the relative error (Section 3.1): minimise
//   sum_i (predicted(n_i) / t_i - 1)^2,  theta >= 0.
// Relative, because 2 us decide at 20 us and not at 500; non-negative, so that every prediction
// grows with every n_e. Four columns, so the sixteen supports are tried one by one: exact,
// deterministic, no iteration to tune.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "choice/cost_model.h"
#include "choice/lesson.hpp"

namespace ramp {

struct Observation {
  Features features;
  float us = 0;
};

struct Fit {
  Theta theta;
  int observations = 0;
  int rank = 0;  // of the four columns on these loads; below 4 some terms can't be told apart
  double condition = 0;  // of the columns scaled to one length; large where terms are nearly alike
  double rms_error = 0;  // root of the mean of the squares that were minimised
  double median_error = 0;  // median |predicted / measured - 1|
};

// One more than the coefficients: below it the fit says nothing about loads that it has not seen.
inline constexpr int kMinObservations = 5;

// Throws Error under kMinObservations and on times that are not positive and finite.  Where columns
// are collinear the fit is still the optimum, with the fewest terms that reach it; `rank` says so.
Fit fit_theta(std::span<const Observation> observations);

// A fit for each candidate of a lesson, or the reason why there is none.
struct CandidateFit {
  bool fitted = false;
  std::string why_not;
  Fit fit;
};
std::vector<CandidateFit> fit_candidates(const Lesson& lesson);

}  // namespace ramp
