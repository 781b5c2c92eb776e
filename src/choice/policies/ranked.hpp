// SPDX-License-Identifier: Apache-2.0
// Candidates with their theta, in the order a tie is broken; the part that the cost-model policies
// share.
#pragma once

#include <span>
#include <vector>

#include "choice/cost_model.h"
#include "choice/fit.hpp"
#include "choice/lesson.hpp"

namespace ramp {

struct Ranked {
  struct Entry {
    int candidate = 0;
    Grid grid;
    Theta theta;
  };
  std::vector<Entry> entries;

  int cheapest(std::span<const int> load) const;  // a candidate's index
  std::size_t bytes() const { return entries.size() * sizeof(MenuEntry); }
};

// The same a range of pass sizes.
struct RankedBySize {
  struct Range {
    int up_to;  // tokens
    Ranked ranked;
  };
  std::vector<Range> ranges;  // ascending; the last has no limit

  int cheapest(int tokens, std::span<const int> load) const;
  std::size_t bytes() const;
};

// Candidates that could not be fitted are left out; throws Error when none could.  rivals: as in
// fit_candidates.
Ranked rank_by_cost_model(const Lesson& lesson, std::span<const int> candidates,
                          std::span<const int> rivals = {});
// The same by fits at hand.
Ranked rank_by_fits(const Lesson& lesson, std::span<const int> candidates,
                    const std::vector<CandidateFit>& fits);

}  // namespace ramp
