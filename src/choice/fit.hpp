// SPDX-License-Identifier: Apache-2.0
// theta of Eq. 3 by non-negative least squares on the relative error (Section 3.1): minimise
//   sum_i (predicted(n_i) / t_i - 1)^2,  theta >= 0.
// Relative, because 2 us decide at 20 us and not at 500; non-negative, so that every prediction
// grows with every n_e (choice/nnls.hpp).
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
  double weight = 1;  // of its square in the sum
};

struct Fit {
  Theta theta;
  int observations = 0;
  int rank = 0;  // of the four columns on these loads; below 4 some terms can't be told apart
  double condition = 0;  // of the columns scaled to one length; large where terms are nearly alike
  double rms_error = 0;  // root of the mean square of predicted / measured - 1, every weight 1
  double median_error = 0;  // median |predicted / measured - 1|
};

// One more than the coefficients: below it the fit says nothing about loads that it has not seen.
inline constexpr int kMinObservations = 5;

// Throws Error under kMinObservations and on times that are not positive and finite.  Where columns
// are collinear the fit is still the optimum, with the fewest terms that reach it; `rank` says so.
Fit fit_theta(std::span<const Observation> observations);

struct CandidateFit {
  bool fitted = false;
  std::string why_not;
  Fit fit;
};

// A fit for each candidate of a lesson, or the reason why there is none.  Without rivals it is the
// paper's.  With rivals, the candidates that will be chosen between, a load counts as much as the
// candidate competes on it: a configuration that is three times too slow on large loads need not be
// predicted well there, it is enough that it is not picked; where it is near the best rival, every
// per cent decides.
std::vector<CandidateFit> fit_candidates(const Lesson& lesson, std::span<const int> rivals = {});

// The paper's fits, each on the loads of passes of the sizes that a menu serves, (above, up_to]
// tokens, and of half and twice these: Eq. 3 is straight, times are not, and a menu need not be
// predicted where another one runs.  A candidate that was timed on fewer than kLeastOfSizes such
// loads keeps its fit in `whole`, that of fit_candidates on all.
std::vector<CandidateFit> fit_candidates_of_sizes(const Lesson& lesson,
                                                  const std::vector<CandidateFit>& whole, int above,
                                                  int up_to);
inline constexpr int kLeastOfSizes = 2 * kMinObservations;

// (1 + slower / kContending)^-2, slower = us / fastest_us - 1: a tenth slower counts a quarter.
inline constexpr double kContending = 0.1;
double contender_weight(double us, double fastest_us, double contending = kContending);

}  // namespace ramp
