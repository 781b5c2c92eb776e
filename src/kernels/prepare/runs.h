// SPDX-License-Identifier: Apache-2.0
// How many blocks count and group the pairs of a load: the same on the host, which launches them,
// and on the device.
#pragma once

#include "base/host_device.h"

namespace ramp {

// What one block keeps in registers, and so counts and groups without reading it twice.  Up to here
// a single block is quickest: nobody has to be told anything.
constexpr int kPairsOfOneBlock = 4096;

// Beyond, a run of pairs a block.  Runs are short, because a block's time grows by 0.6 us or more
// for each 1,024 pairs, and at most so many that 80 blocks of an H200 still quantise: at 40 KB in
// 0.65 us each they keep its memory busy.
constexpr int kPairsOfRun = 1024;
constexpr int kMostRuns = 48;

// Runs of a load of so many pairs (or rows, where the counts are ready); 1: one block does it all.
RAMP_HD constexpr int pair_runs(int pairs) {
  if (pairs <= kPairsOfOneBlock) return 1;
  const int runs = ceil_div(pairs, kPairsOfRun);
  return runs < kMostRuns ? runs : kMostRuns;
}

}  // namespace ramp
