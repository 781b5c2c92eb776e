// SPDX-License-Identifier: Apache-2.0
// A kernel that reads the weights of the active experts and does nothing else: the floor that
// stands beside every time (`stream_us`).  Its launches form the same chain as the layers': it
// waits for the one before, and lets the next one start when its own reading ends.
//
// One thread a block keeps a ring of bulk copies full; the pieces are dealt out by stride, so that
// all blocks read one expert after the other.
#pragma once

#include "kernels/hopper/ptx.cuh"
#include "kernels/stream/config.h"

namespace ramp {

__device__ __forceinline__ void copy_bulk(u32 to, const void* from, int bytes, u32 bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(bar)
      : "memory");
}

// The piece'th piece of the active experts, w13 before w2.  The list is as old as the weights, so
// it may come from L1: a trip to L2 a piece would hold the stream back.
__device__ __forceinline__ const u8* stream_piece(const StreamArgs& a, u32 piece) {
  const u32 of_w13 = static_cast<u32>(a.w13_bytes / kStreamPiece);
  const u32 of_expert = of_w13 + static_cast<u32>(a.w2_bytes / kStreamPiece);
  const u64 expert = static_cast<u64>(a.active[piece / of_expert]);
  const u32 at = piece % of_expert;
  return at < of_w13 ? a.w13 + expert * a.w13_bytes + static_cast<u64>(at) * kStreamPiece
                     : a.w2 + expert * a.w2_bytes + static_cast<u64>(at - of_w13) * kStreamPiece;
}

}  // namespace ramp

extern "C" __global__ __launch_bounds__(ramp::kStreamThreads, 1) void ramp_stream(
    const __grid_constant__ ramp::StreamArgs a) {
  using namespace ramp;
  extern __shared__ __align__(128) char ring[];
  __shared__ u64 barriers[kStreamStages];
  if (threadIdx.x != 0) {
    wait_for_dependencies();
    return;
  }
  const u32 bar = smem_u32(barriers);
  for (int i = 0; i < kStreamStages; ++i) mbarrier_init(bar + i * 8, 1);
  fence_mbarrier_init();
  wait_for_dependencies();

  const u32 all = static_cast<u32>((a.w13_bytes + a.w2_bytes) / kStreamPiece * a.active_experts);
  u32 next = blockIdx.x;  // piece to request
  const auto request = [&](int slot) {
    mbarrier_arrive_expect(bar + slot * 8, kStreamPiece);
    copy_bulk(smem_u32(ring) + slot * kStreamPiece, stream_piece(a, next), kStreamPiece,
              bar + slot * 8);
    next += gridDim.x;
  };
  for (int slot = 0; slot < kStreamStages && next < all; ++slot) request(slot);
  int slot = 0;
  u32 phase = 0;
  for (u32 piece = blockIdx.x; piece < all; piece += gridDim.x) {
    mbarrier_wait(bar + slot * 8, phase);
    if (next < all) request(slot);
    if (++slot == kStreamStages) slot = 0, phase ^= 1;
  }
  launch_dependents();
}
