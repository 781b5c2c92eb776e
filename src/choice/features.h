// SPDX-License-Identifier: Apache-2.0
// Eq. 1: what the counts of a load say about a configuration.  Compiled by host and device:
// integers, so the same.
#pragma once

#include "choice/grid.h"

namespace ramp {

struct Features {
  int waves = 0;   // W_c: the fullest block's tiles, summed over phases
  int tiles = 0;   // T_c, summed over phases
  int active = 0;  // A: local experts that have a token
};

// Row tiles of one expert with n tokens.
RAMP_HD constexpr int row_tiles(int n, const Phase& phase) { return ceil_div(n, phase.rows); }

// From the row tiles of all experts, a number a phase: the kernel sums them over a warp.
RAMP_HD constexpr Features features(const Grid& grid,
                                    const int (&row_tiles_of_phase)[Grid::kMaxPhases], int active) {
  Features f;
  f.active = active;
  for (int p = 0; p < Grid::kMaxPhases;
       ++p) {  // a constant bound: on the GPU the grid stays in registers
    if (p >= grid.phases) break;
    const int tiles = row_tiles_of_phase[p] * grid.phase[p].col_tiles;
    f.tiles += tiles;
    f.waves += ceil_div(tiles, grid.phase[p].slots);
  }
  return f;
}

// load[e] is n_e, the tokens of local expert e; experts is their number.
RAMP_HD constexpr Features features(const Grid& grid, const int* load, int experts) {
  int tiles[Grid::kMaxPhases] = {};
  int active = 0;
  for (int e = 0; e < experts; ++e) {
    active += load[e] > 0;
    for (int p = 0; p < grid.phases; ++p) tiles[p] += row_tiles(load[e], grid.phase[p]);
  }
  return features(grid, tiles, active);
}

}  // namespace ramp
