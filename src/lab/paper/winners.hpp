// SPDX-License-Identifier: Apache-2.0
// Which configurations win where (Sections 2.2 and 2.3): how many a pass needs, and what the tiles
// of small batches cost on large ones.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "choice/times.hpp"

namespace ramp {

// How many candidates it takes so that each load runs one within `slack` of its fastest; 0: within
// nothing, the distinct winners (one that ties with another's winner serves both).  Greedy, so at
// most a few too many.  0 where a load has no time.
int winners_of(const TimeTable& us, std::span<const int> loads, double slack);

struct WinnerCount {
  std::vector<double> exact, close;     // a pass: without slack, and within kClose
  double one_exact = 0, one_close = 0;  // share of the passes that one candidate serves
  int all_exact = 0, all_close = 0;     // over the loads of all these passes together
};
inline constexpr double kClose = 0.01;

// Passes of least to most tokens that were recorded and timed, both roles.
WinnerCount count_winners(const MeasuredSpace& space, int least_tokens,
                          int most_tokens = std::numeric_limits<int>::max());

// The tile height that is fastest on passes of fewer than small_below tokens, on passes of
// large_from and more: its time over that of the best height, geometric mean over loads.  A
// height's time is that of its fastest configuration.  NaN where either is missing.
double small_tiles_on_large(const MeasuredSpace& space, int small_below, int large_from);

// Rows a tile of the fastest configuration of each load.
std::vector<int> winning_rows(const MeasuredSpace& space, const TimeTable& us,
                              std::span<const int> loads);

}  // namespace ramp
