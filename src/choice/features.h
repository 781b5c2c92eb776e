// SPDX-License-Identifier: Apache-2.0
// Eq. 1: what the counts of a load say about a configuration.  Compiled by host and device: integers, so the same.
#pragma once

#include "choice/grid.h"

namespace ramp {

struct Features {
  int waves = 0;   // W_c: the fullest block's tiles, summed over phases
  int tiles = 0;   // T_c, summed over phases
  int active = 0;  // A: local experts that have a token
};

// load[e] is n_e, the tokens of local expert e; experts is their number.
RAMP_HD constexpr Features features(const Grid& grid, const int* load, int experts) {
  Features f;
  for (int e = 0; e < experts; ++e) f.active += load[e] > 0;
  for (int p = 0; p < grid.phases; ++p) {
    int row_tiles = 0;
    for (int e = 0; e < experts; ++e) row_tiles += ceil_div(load[e], grid.phase[p].rows);
    const int tiles = row_tiles * grid.phase[p].col_tiles;
    f.tiles += tiles;
    f.waves += ceil_div(tiles, grid.phase[p].slots);
  }
  return f;
}

}  // namespace ramp
