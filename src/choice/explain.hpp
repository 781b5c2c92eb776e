// SPDX-License-Identifier: Apache-2.0
// Why an entry runs: Eq. 3 of every menu entry on one load, term by term, in the order of the
// predicted times.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "choice/plan.hpp"

namespace ramp {

struct ExplainedEntry {
  int entry = 0;  // index into the menu
  Features features;
  double fixed_us = 0, waves_us = 0, tiles_us = 0, experts_us = 0;  // the terms
  float predicted_us = 0;  // with the rounding of the choice
};

struct Explanation {
  std::vector<int> load;
  int pairs = 0;
  std::vector<ExplainedEntry> ranked;  // the first one runs
  std::string because;                 // one sentence: the first against the second
  // What a batch-size table on this menu would run for a pass of `tokens`; -1 where the plan holds
  // no table.
  int tokens = 0;
  bool tokens_assumed =
      false;  // not given: what an even split over the GPUs would need to bring these pairs here
  int table_entry = -1;
};

// Of the part of the plan for such a pass: entries are plan_for(whole, tokens)'s.  tokens: B of the
// pass, 0 where unknown.  Throws Error for a load of another number of experts
// than the plan's, for negative counts or more than kMaxPairs.
Explanation explain(const Plan& whole, std::span<const int> load, int tokens = 0);

}  // namespace ramp
