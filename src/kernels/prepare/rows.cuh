// SPDX-License-Identifier: Apache-2.0
// BF16 rows into e4m3 with a scale for each 128 columns (numeric.h says how).
#pragma once

#include "kernels/hopper/ptx.cuh"
#include "kernels/numeric.h"

namespace ramp {

struct QuantisedEight {
  uint2 codes;
  float scale;  // of the whole group
};

// 16 lanes quantise a group of 128 columns, 8 each; all lanes of the warp must be here.
__device__ __forceinline__ QuantisedEight quantise_eight(const int4& bf16) {
  const unsigned word[4] = {static_cast<unsigned>(bf16.x), static_cast<unsigned>(bf16.y),
                            static_cast<unsigned>(bf16.z), static_cast<unsigned>(bf16.w)};
  float x[8];
  float amax = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[2 * i] = __uint_as_float(word[i] << 16);
    x[2 * i + 1] = __uint_as_float(word[i] & 0xffff0000u);
    amax = fmaxf(amax, fmaxf(fabsf(x[2 * i]), fabsf(x[2 * i + 1])));
  }
#pragma unroll
  for (int d = 8; d > 0; d /= 2) amax = fmaxf(amax, __shfl_xor_sync(~0u, amax, d));
  const float scale = group_scale(amax), inverse = reciprocal(scale);
  unsigned q[2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
    q[i] = pack_e4m3(quantise_divide(x[4 * i], scale, inverse),
                     quantise_divide(x[4 * i + 1], scale, inverse)) |
           static_cast<unsigned>(pack_e4m3(quantise_divide(x[4 * i + 2], scale, inverse),
                                           quantise_divide(x[4 * i + 3], scale, inverse)))
               << 16;
  return {{q[0], q[1]}, scale};
}

}  // namespace ramp
