// SPDX-License-Identifier: Apache-2.0
// Measurements -> plan: fit, menu, and what it is worth on passes that nothing was fitted on.
#pragma once

#include "choice/evaluate.hpp"
#include "choice/plan.hpp"

namespace ramp {

// Everything but Plan::gpu beyond its name.  The menu and theta come from all training samples; the
// quality comes from evaluate() and fit_quality(), which keep halves apart, and is unknown (NaN)
// where there are no test passes.  Throws Error when there is too little to fit.
Plan tune_from(const MeasuredSpace& space, const MenuOptions& options = {});

// What the user should hear about a plan.
struct Verdict {
  bool worth_it = false;
  bool known = false;  // false: no held-out passes, nothing can be said
  std::string text;    // one sentence with the figure
};

// The choice is worth serving where it beats the best single configuration by 1 % on held-out
// passes: two runs of the same thing differ by 0.2-1.2 % (Section 4), so less can't be told from
// nothing.
Verdict verdict(const Plan& plan);

}  // namespace ramp
