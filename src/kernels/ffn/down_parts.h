// SPDX-License-Identifier: Apache-2.0
// How finely topology F3 cuts its down items: the same on the host, which knows the shape, and on
// the device, which knows how many row tiles there are.
//
// A down item is a row tile times 256 output columns over all of h.  A layer of few local experts
// and a large h (Mixtral on eight GPUs: one expert, 24 such items of 128 units) has fewer of them
// than SMs; so an item can be a part of h as well, and adds its share into the output.  Of longer
// lists the last tiles' items are cut: blocks that find no whole one any more still share those.
#pragma once

#include "base/host_device.h"

namespace ramp {

struct DownCut {
  int tile;   // from here on ...
  int parts;  // ... down items are cut into so many
};

struct DownParts {
  static constexpr int kMost = 8;        // each is one more addition into an output element
  static constexpr int kLeastUnits = 8;  // of a part
  int below[kMost + 1] = {};  // [p]: of lists of fewer tiles items are cut into p; 0: of none
  int last_tiles = 0, last_parts = 1;  // of other lists, if they have `last_from` tiles or more
  int last_from = 0;

  RAMP_HD constexpr DownCut of(int tiles) const {
    int parts = 1;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int p = 2; p <= kMost; ++p)
      if (tiles < below[p]) parts = p;
    if (parts > 1 || tiles < last_from) return {0, parts};
    return {tiles > last_tiles ? tiles - last_tiles : 0, last_parts};
  }
};

// Parts of the last tiles' items: up to four; only divisors, because the blocks of a cluster go
// through as many steps each.
RAMP_HD constexpr int last_down_parts(int units) {
  for (int p = 4; p >= 2; --p)
    if (units % p == 0 && units / p >= DownParts::kLeastUnits) return p;
  return 1;
}

// Of a layer whose down items have `units` steps of 128 columns of h (which are also the columns of
// its up items), `columns` of them a tile.  p parts cost each item's end (as long as four steps) p
// times, spread over the blocks, and leave on the average half of the last item's steps to be
// waited for:
//   4 tiles columns p / blocks + units / (2 p)
// which is least for p and not for the next smaller divisor q while
//   tiles <= blocks units / (8 columns p q)
// Measured, it pays where items are fewer than blocks and parts have eight steps or more: below, an
// item ends before its weights' ring is full (OLMoE, 256 tokens: four steps, 2 us lost).  With more
// than one round of items the blocks are busy anyway, but for the last half round.
RAMP_HD constexpr DownParts down_parts_of(int units, int columns, int blocks) {
  DownParts parts;
  int smaller = 1;
  for (int p = 2; p <= DownParts::kMost && units / p >= DownParts::kLeastUnits; ++p) {
    if (units % p) continue;
    const int pays = blocks * units / (8 * columns * p * smaller), few = blocks / columns;
    parts.below[p] = (pays < few ? pays : few) + 1;
    smaller = p;
  }
  parts.last_parts = last_down_parts(units);
  if (parts.last_parts > 1) parts.last_tiles = (blocks / 2 + columns - 1) / columns;
  parts.last_from = blocks / (units + columns) + 1;
  return parts;
}

}  // namespace ramp
