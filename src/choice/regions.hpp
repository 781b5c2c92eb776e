// SPDX-License-Identifier: Apache-2.0
// Performance regions (the paper's first version): from constants of the GPU and of the kernels'
// structure, and from the layer's shape and load, which class of configurations wins, before
// anything of the layer is measured.  Rates are the GPU's; latencies are those of docs/kernels.md,
// some of them set by hand on the shapes that the rules were formed on (docs/paper.md).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "choice/measured.hpp"
#include "problem/gpu_spec.h"

namespace ramp {

enum class Region {
  kCluster4,   // one phase, four blocks an item: very few items
  kCluster2,   // one phase, two blocks an item: a stream of weights that must not pause
  kShort,      // one phase, a block an item, up to 24 rows
  kTall,       // ... 32 rows and more: fewer reads of the same weights
  kPhased64,   // two phases, 64 rows: additions into the output would be the layer
  kPhased128,  // two phases, 128 rows: products are the layer
};
inline constexpr int kRegions = 6;
std::string_view region_name(Region region);  // "cluster-4", ...

// Of a configuration, by its grid: phases, rows, and slots against the GPU's SMs.
Region region_of(const Grid& grid, const GpuSpec& gpu);

struct RegionTime {
  Region region;
  int rows = 0;   // of the class's best tile
  double us = 0;  // predicted
};

// All classes, the fastest first.  Throws Error for a load without a token.
std::vector<RegionTime> predict_regions(const LocalShape& shape, std::span<const int> load,
                                        const GpuSpec& gpu);

inline constexpr double kRegionMargin = 0.03;  // a hit: the class holds one this near the fastest

struct RegionMiss {
  int load = 0;  // index into MeasuredSpace::loads
  Region predicted, best;
  double loss = 0;  // the class's fastest over the fastest of all, less one; infinity: never timed
};
struct RegionScore {
  int loads = 0, hits = 0;
  double mean_loss = 0;  // over loads with a time
  std::vector<RegionMiss> misses;
};
// On every load of the file that its contenders were timed on.
RegionScore score_regions(const MeasuredSpace& space, const GpuSpec& gpu);

}  // namespace ramp
