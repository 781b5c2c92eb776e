// SPDX-License-Identifier: Apache-2.0
// A menu for a layer that nobody has tuned, and what planning says its entries cost.  It is a
// prediction from a GPU's constants; `ramp tune` replaces it by measurements.
#pragma once

#include <vector>

#include "choice/cost_model.h"
#include "kernels/ffn/config.h"
#include "problem/gpu_spec.h"
#include "problem/shape.h"
#include "runtime/layer.hpp"

namespace ramp {

// Eq. 3 from constants, for a configuration of b rows and slices of c columns of h:
//   expert  the weights of one expert through the memory: 3 d h / stream rate
//   wave    one item's products on one SM: 6 b d c / (matrix rate x what wgmma reaches at N = b)
//   tile    one item's rows added into the output: 2 b d bytes at 2.5 TB/s
//   fixed   the start of a weight stream and of two kernels
// (of a two-phase entry the means of an up and a down item).
// Memory and products overlap in the kernel, so the sum is too much; what it must get right is the
// order of the entries, and that turns on the products of half-empty tiles.
Theta planned_theta(const FfnConfig& config, const LocalShape& shape, const GpuSpec& gpu);

// Row tiles of 8, 16, 24, 32, 48 and 64 at a width of 256 columns, each with the deepest ring that
// fits; claimed dynamically, tiles of one slice together from 24 rows on.
std::vector<FfnConfig> default_menu();

// Menu and theta; the caller's own shape, experts and map.
LayerOptions with_default_menu(LayerOptions options, const GpuSpec& gpu);

}  // namespace ramp
