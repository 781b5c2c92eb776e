// SPDX-License-Identifier: Apache-2.0
// BF16 rows into e4m3 with a scale for each 128 columns (numeric.h says how).
#pragma once

#include "kernels/hopper/ptx.cuh"
#include "kernels/numeric.h"

namespace ramp {

// A lane's columns of a group, in chunks of eight.
template <int kChunks>
struct Quantised {
  uint2 codes[kChunks];
  float scale;  // of the whole group
};

// 16 / kChunks lanes beside each other quantise a group of 128 columns; all lanes of the warp must
// be here.
template <int kChunks>
__device__ __forceinline__ Quantised<kChunks> quantise(const int4 (&bf16)[kChunks]) {
  u32 word[kChunks][4], most = 0;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    word[c][0] = static_cast<u32>(bf16[c].x), word[c][1] = static_cast<u32>(bf16[c].y);
    word[c][2] = static_cast<u32>(bf16[c].z), word[c][3] = static_cast<u32>(bf16[c].w);
#pragma unroll
    for (int i = 0; i < 4; ++i) most = max_bf16_2(most, word[c][i] & 0x7fff7fffu);
  }
#pragma unroll
  for (int d = 8 / kChunks; d > 0; d /= 2) most = max_bf16_2(most, __shfl_xor_sync(~0u, most, d));
  const float amax = fmaxf(__uint_as_float(most << 16), __uint_as_float(most & 0xffff0000u));
  const float scale = group_scale(amax), inverse = reciprocal(scale);
  const auto pack = [&](u32 two) {
    return static_cast<u32>(
        pack_e4m3(quantise_divide(__uint_as_float(two << 16), scale, inverse),
                  quantise_divide(__uint_as_float(two & 0xffff0000u), scale, inverse)));
  };
  Quantised<kChunks> q;
  q.scale = scale;
#pragma unroll
  for (int c = 0; c < kChunks; ++c)
    q.codes[c] = {pack(word[c][0]) | pack(word[c][1]) << 16, pack(word[c][2]) | pack(word[c][3])
                                                                                    << 16};
  return q;
}

}  // namespace ramp
