// SPDX-License-Identifier: Apache-2.0
// `ordered` mode behind `ffn`: a token's rows, each rounded to bf16 in its slot, are added in FP32
// in the order of the token's ids, so the sum depends neither on who was done first nor on where
// the rows stand.  Pairs of other GPUs are skipped; a token without local pairs gets zeros.
#pragma once

#include "kernels/hopper/ptx.cuh"
#include "kernels/prepare/pieces.cuh"
#include "kernels/prepare/state.h"

namespace ramp {

constexpr int kCombineThreads = 256;
constexpr int kCombineAtOnce = 4;  // rows that are asked for before the first is added

// `ffn` lets this kernel start when `prepare` is complete, so positions may be read ahead of the
// wait; slots may not.
__device__ __forceinline__ void combine(const CombineArgs& a) {
  constexpr int kWarps = kCombineThreads / 32;
  const int lane = threadIdx.x % 32;
  const auto position_of = [&](const RowPiece& p) {
    return p.token < a.tokens && lane < a.top_k
               ? load_cg(a.position + static_cast<long long>(p.token) * a.top_k + lane)
               : -1;
  };
  RowPiece now(a.hidden, blockIdx.x * kWarps + threadIdx.x / 32, gridDim.x * kWarps);
  int position = position_of(now);
  wait_for_dependencies();
  while (now.token < a.tokens) {
    const RowPiece then = now.next();
    const int next_position = position_of(then);
    float sum[kPieceChunks][8] = {};
    for (unsigned left = __ballot_sync(~0u, position >= 0); left;) {
      int4 v[kCombineAtOnce][kPieceChunks];
      const int rows = __popc(left);
#pragma unroll
      for (int i = 0; i < kCombineAtOnce; ++i) {
        if (!left) break;
        const long long row = __shfl_sync(~0u, position, __ffs(left) - 1);
        left &= left - 1;
        const unsigned short* slot = a.slots + row * a.hidden + now.column();
#pragma unroll
        for (int c = 0; c < kPieceChunks; ++c)
          if (now.inside(a.hidden))
            v[i][c] = load_cg(reinterpret_cast<const int4*>(slot + c * kChunkStep));
      }
#pragma unroll
      for (int i = 0; i < kCombineAtOnce; ++i) {
        if (i >= rows) break;
#pragma unroll
        for (int c = 0; c < kPieceChunks; ++c) {
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
    unsigned short* to = a.output + static_cast<long long>(now.token) * a.hidden + now.column();
#pragma unroll
    for (int c = 0; c < kPieceChunks; ++c)
      if (now.inside(a.hidden))
        *reinterpret_cast<uint4*>(to + c * kChunkStep) =
            uint4{pack_bf16(sum[c][0], sum[c][1]), pack_bf16(sum[c][2], sum[c][3]),
                  pack_bf16(sum[c][4], sum[c][5]), pack_bf16(sum[c][6], sum[c][7])};
    position = next_position;
    now = then;
  }
}

}  // namespace ramp
