// SPDX-License-Identifier: Apache-2.0
// `ordered` mode behind `ffn`: a token's rows, each rounded to bf16 in its slot, are added in FP32 in
// the order of the token's ids, so the sum depends neither on who was done first nor on where the
// rows stand.  Pairs of other GPUs are skipped; a token without local pairs gets zeros.
#pragma once

#include "kernels/hopper/ptx.cuh"
#include "kernels/prepare/state.h"

namespace ramp {

constexpr int kCombineThreads = 256;
constexpr int kCombineColumns = 512;  // of a token, by a warp: a lane has two times eight
constexpr int kCombineAtOnce = 4;     // rows that are asked for before the first is added

// `ffn` lets this kernel start when `prepare` is complete, so positions may be read ahead of the
// wait; slots may not.
__device__ __forceinline__ void combine(const CombineArgs& a) {
  constexpr int kChunks = kCombineColumns / 256;
  const int lane = threadIdx.x % 32, pieces = ceil_div(a.hidden, kCombineColumns);
  const long long all = static_cast<long long>(a.tokens) * pieces,
                  step = static_cast<long long>(gridDim.x) * (kCombineThreads / 32);
  long long item =
      static_cast<long long>(blockIdx.x) * (kCombineThreads / 32) + threadIdx.x / 32;
  const auto position_of = [&](long long of) {
    return of < all && lane < a.top_k ? load_cg(a.position + of / pieces * a.top_k + lane) : -1;
  };
  int position = position_of(item);
  wait_for_dependencies();
  for (; item < all; item += step) {
    const int next = position_of(item + step);
    const int column = static_cast<int>(item % pieces) * kCombineColumns + lane * 8;
    float sum[kChunks][8] = {};
    for (unsigned left = __ballot_sync(~0u, position >= 0); left;) {
      int4 v[kCombineAtOnce][kChunks];
      const unsigned these = left;
#pragma unroll
      for (int i = 0; i < kCombineAtOnce; ++i) {
        if (!left) break;
        const long long row = __shfl_sync(~0u, position, __ffs(left) - 1);
        left &= left - 1;
#pragma unroll
        for (int c = 0; c < kChunks; ++c)
          if (column + c * 256 < a.hidden)
            v[i][c] = load_cg(
                reinterpret_cast<const int4*>(a.slots + row * a.hidden + column + c * 256));
      }
#pragma unroll
      for (int i = 0; i < kCombineAtOnce; ++i) {
        if (i >= __popc(these)) break;
#pragma unroll
        for (int c = 0; c < kChunks; ++c) {
          const unsigned word[4] = {
              static_cast<unsigned>(v[i][c].x), static_cast<unsigned>(v[i][c].y),
              static_cast<unsigned>(v[i][c].z), static_cast<unsigned>(v[i][c].w)};
#pragma unroll
          for (int w = 0; w < 4; ++w) {
            sum[c][2 * w] += __uint_as_float(word[w] << 16);
            sum[c][2 * w + 1] += __uint_as_float(word[w] & 0xffff0000u);
          }
        }
      }
    }
    unsigned short* to = a.output + item / pieces * a.hidden + column;
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
      if (column + c * 256 < a.hidden)
        *reinterpret_cast<uint4*>(to + c * 256) =
            uint4{pack_bf16(sum[c][0], sum[c][1]), pack_bf16(sum[c][2], sum[c][3]),
                  pack_bf16(sum[c][4], sum[c][5]), pack_bf16(sum[c][6], sum[c][7])};
    position = next;
  }
}

}  // namespace ramp
