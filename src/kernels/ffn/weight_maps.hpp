// SPDX-License-Identifier: Apache-2.0
// The tensor maps through which `ffn` reads the weights in place, in vLLM's layout:
//   w13  [experts, 2h, d] e4m3, gate rows then up rows, seen as {d, h, gate | up, experts}: one
//        copy brings 128 gate rows and the 128 up rows of the same h (of a cluster of `split`
//        blocks 128 / split of each)
//   w2   [experts, d, h]  e4m3, seen as {h, d, experts}: one copy brings 256 output columns
#pragma once

#include "gpu/tensor_map.hpp"
#include "problem/shape.h"

namespace ramp {

struct FfnWeightMaps {
  gpu::TensorMap w13, w2;
};

// Throws Error naming the dimension that the kernels can't run.
void require_ffn_shape(const LocalShape& shape);

// The descriptions, which need no GPU; addresses are device addresses.
gpu::TensorMapSpec w13_map_spec(const LocalShape& shape, std::uint64_t w13, int split);
gpu::TensorMapSpec w2_map_spec(const LocalShape& shape, std::uint64_t w2);

FfnWeightMaps make_weight_maps(const LocalShape& shape, std::uint64_t w13, std::uint64_t w2,
                               int split);

}  // namespace ramp
