// SPDX-License-Identifier: Apache-2.0
// The tensor maps through which `ffn` reads the weights in place, in vLLM's layout:
//   w13  [experts, 2h, d] e4m3, gate rows then up rows, seen as {d, h, gate | up, experts}: one
//        copy brings 128 gate rows and the 128 up rows of the same h (in a cluster of F1 128 /
//        split of each, in one of F3 128 of either)
//   w2   [experts, d, h]  e4m3, seen as {h, d, experts}: one copy brings 256 output columns (in a
//        cluster of F3 128)
// A menu's entries read through the same maps; `like` is any of them.
#pragma once

#include "gpu/tensor_map.hpp"
#include "kernels/ffn/config.h"
#include "kernels/prepare/state.h"
#include "problem/shape.h"

namespace ramp {

struct FfnWeightMaps {
  gpu::TensorMap w13, w2;
};

// Throws Error naming the dimension that the kernels can't run.
void require_ffn_shape(const LocalShape& shape);

// The descriptions, which need no GPU; addresses are device addresses.
gpu::TensorMapSpec w13_map_spec(const LocalShape& shape, std::uint64_t w13, const FfnConfig& like);
gpu::TensorMapSpec w2_map_spec(const LocalShape& shape, std::uint64_t w2, const FfnConfig& like);

// Rows that stand together, in topology F3:
//   rows    [rows, d] e4m3, grouped by expert
//   middle  [rows, h] e4m3, between the projections
// One copy brings kPhasedBoxRows of them, 128 columns wide.
struct FfnRowMaps {
  gpu::TensorMap rows, middle;
};
gpu::TensorMapSpec rows_map_spec(std::uint64_t address, int rows, int columns);
// Of the arguments of a launch; where rows are not grouped, nobody looks at their map.
FfnRowMaps make_row_maps(const FfnArgs& args);

FfnWeightMaps make_weight_maps(const LocalShape& shape, std::uint64_t w13, std::uint64_t w2,
                               const FfnConfig& like);

}  // namespace ramp
