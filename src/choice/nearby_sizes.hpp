// SPDX-License-Identifier: Apache-2.0
// Passes of the sizes between and around the measured ones.
#pragma once

#include "choice/menu_search.hpp"

namespace ramp {

// The passes and, of each, four of half, 0.7, 1.4 and twice the tokens, so that a menu's range is
// grown on all its sizes and not on those that a campaign happened to draw.  The same sizes a theta
// is fitted on beside its menu's (fit_candidates_of_sizes).
//
// Fewer: each token stays with the probability of the ratio, which is what a pass of fewer tokens
// of the same routing is.  More: each token comes a second time with probability ratio - 1.  A time
// is the base load's, carried over by Eq. 3: us x predicted / predicted there, with theta fitted on
// the range of sizes; untimed where the base is, or where there is no fit.  The same lesson gives
// the same passes on every machine.
KnownTimes with_nearby_sizes(const KnownTimes& times, const Lesson& lesson);
inline constexpr double kNearby[] = {0.5, 0.7071067811865476, 1.4142135623730951, 2};

}  // namespace ramp
