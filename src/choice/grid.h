// SPDX-License-Identifier: Apache-2.0
// The seam between the two halves: what the choice needs to know of a configuration c, and all it
// knows of a kernel.
#pragma once

#include "base/host_device.h"

namespace ramp {

// One phase: row tiles of `rows` tokens (b_c), `col_tiles` column tiles for each of them (q_c),
// `slots` blocks that are resident at once (S_c).
struct Phase {
  int rows = 0;
  int col_tiles = 0;
  int slots = 0;
};

// One phase for kernels that fuse up and down (the paper's, F1, F2); two where each projection has
// its own tiles (F3).
struct Grid {
  static constexpr int kMaxPhases = 2;
  Phase phase[kMaxPhases];
  int phases = 1;
};

}  // namespace ramp
