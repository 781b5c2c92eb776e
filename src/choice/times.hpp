// SPDX-License-Identifier: Apache-2.0
// Measured times as a table, and the two halves of the samples: what picks never scores.  A policy
// that picks on the numbers it is scored on is flattered by their noise (about 1 %, as much as
// policies differ by), so every comparison picks on one half, scores on the other, and then the
// other way round.
#pragma once

#include <vector>

#include "choice/measured.hpp"

namespace ramp {

// Samples alternate between the halves in the order they were taken, so that drift falls on both.
// A pair that was timed once has the same sample in both: still a time, no longer a fair one (see
// Coverage::timed_once).
enum class Half { kBoth, kFirst, kSecond };

constexpr Half opposite(Half half) {
  return half == Half::kFirst ? Half::kSecond : half == Half::kSecond ? Half::kFirst : Half::kBoth;
}

// us of [candidate][load]; infinity where nothing was measured, so that a minimum never picks it.
using TimeTable = std::vector<std::vector<float>>;

bool is_time(float us);

TimeTable median_times(const MeasuredSpace& space, Half half);

// The slowest GPU of a pass (Eq. 2) when GPU g runs choice[g]; infinity when one of these was never
// timed.
float pass_us(const TimeTable& us, const std::vector<int>& load_of_gpu,
              const std::vector<int>& choice);

// ... and when every GPU runs the same candidate.
float pass_us(const TimeTable& us, const std::vector<int>& load_of_gpu, int candidate);

// How much of candidates x loads was timed.
struct Coverage {
  long long pairs = 0, timed = 0, timed_once = 0;
};
Coverage coverage(const MeasuredSpace& space);

}  // namespace ramp
