// SPDX-License-Identifier: Apache-2.0
// A ready plan on measured passes: what its choices took, beside what evaluate() measured of the
// policies.
#pragma once

#include <string>
#include <vector>

#include "choice/evaluate.hpp"
#include "choice/plan.hpp"

namespace ramp {

struct PlanTimes {
  std::vector<int> tokens;  // of the held-out passes, in the order of Evaluation::tokens
  PassTimes chosen;         // every GPU runs what the plan chooses for its load
  // Every GPU runs the entry that is fastest on its load: what the menu costs, apart from choosing
  // in it.  Picked on one half of the samples, timed on the other, as everywhere.
  PassTimes best_entry;
  // On how many of these passes' loads each entry runs; parts in the order of for_each_part.
  std::vector<std::vector<int>> runs;
  std::vector<std::string> not_measured;  // entries that the file has no configuration of
};

// The plan's coefficients are taken as they are, so it must not have been fitted on these passes;
// the file that it was made of keeps held-out passes apart.  Entries are found by label.  Throws
// Error where the plan is for another shape.
PlanTimes time_plan(const MeasuredSpace& space, const Plan& plan);

}  // namespace ramp
