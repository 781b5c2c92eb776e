// SPDX-License-Identifier: Apache-2.0
// `ordered` mode behind `ffn`: a token's rows, each rounded to bf16 in its slot, are added in FP32 in
// the order of the token's ids, so the sum depends neither on who was done first nor on where the
// rows stand.  Pairs of other GPUs are skipped; a token without local pairs gets zeros.
#pragma once

#include "kernels/hopper/ptx.cuh"
#include "kernels/prepare/state.h"

namespace ramp {

constexpr int kCombineThreads = 256;
constexpr int kCombineAtOnce = 8;  // rows that a thread asks for before it adds the first

// A thread has eight columns of a token.
__device__ __forceinline__ void combine(const CombineArgs& a) {
  const int chunks = a.hidden / 8;
  const long long all = static_cast<long long>(a.tokens) * chunks,
                  step = static_cast<long long>(gridDim.x) * kCombineThreads;
  for (long long at = static_cast<long long>(blockIdx.x) * kCombineThreads + threadIdx.x; at < all;
       at += step) {
    const int token = static_cast<int>(at / chunks);
    const unsigned short* column = a.slots + at % chunks * 8;
    const int* position = a.position + static_cast<long long>(token) * a.top_k;
    float sum[8] = {};
    for (int from = 0; from < a.top_k; from += kCombineAtOnce) {
      int row[kCombineAtOnce];
      int4 v[kCombineAtOnce];
#pragma unroll
      for (int i = 0; i < kCombineAtOnce; ++i)
        row[i] = from + i < a.top_k ? load_cg(position + from + i) : -1;
#pragma unroll
      for (int i = 0; i < kCombineAtOnce; ++i)
        if (row[i] >= 0)
          v[i] = load_cg(reinterpret_cast<const int4*>(column +
                                                       static_cast<long long>(row[i]) * a.hidden));
#pragma unroll
      for (int i = 0; i < kCombineAtOnce; ++i) {
        if (row[i] < 0) continue;
        const unsigned word[4] = {static_cast<unsigned>(v[i].x), static_cast<unsigned>(v[i].y),
                                  static_cast<unsigned>(v[i].z), static_cast<unsigned>(v[i].w)};
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          sum[2 * c] += __uint_as_float(word[c] << 16);
          sum[2 * c + 1] += __uint_as_float(word[c] & 0xffff0000u);
        }
      }
    }
    *reinterpret_cast<uint4*>(a.output + at * 8) =
        uint4{pack_bf16(sum[0], sum[1]), pack_bf16(sum[2], sum[3]), pack_bf16(sum[4], sum[5]),
              pack_bf16(sum[6], sum[7])};
  }
}

}  // namespace ramp
