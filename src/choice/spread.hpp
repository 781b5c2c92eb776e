// SPDX-License-Identifier: Apache-2.0
// How a GPU's tokens spread over its experts, in the few numbers that the paper's tables are keyed
// on (Appendix A.2).  The cost model needs none of them: it sees the tokens of every expert.
#pragma once

#include <span>

#include "choice/lesson.hpp"

namespace ramp {

struct Spread {
  double pairs = 0;      // token-expert pairs on this GPU
  double active = 0;     // local experts that have a token
  double padding = 0;    // share of the rows of all tiles that hold no token, [0, 1)
  double peak = 0;       // largest n_e over the mean of all local experts, >= 1; 0 of no token
  double variation = 0;  // standard deviation of n_e over its mean; 0 of no token
};

// load: n_e of the local experts, in any order.  rows: b of the tiles that `padding` is counted on.
Spread spread_of(std::span<const int> load, int rows);

// The b that padding is counted on: the median tile height of the candidates that may be picked, so
// that every load has one padding and not one a configuration.  Throws Error when there is none.
int padding_rows(const Lesson& lesson);

}  // namespace ramp
