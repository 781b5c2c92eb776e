// SPDX-License-Identifier: Apache-2.0
// Between the projections: SwiGLU, then e4m3 per token and 128 columns of h, and beside it the
// scale that undoes it with the router's weight folded in after quantising.
//
// The consumers' FP32 sums pass through shared memory so that a warp gets whole rows and finds
// their largest element by shuffles.  In a cluster each block has summed 128 / split of the
// columns; it sends what it activated to the others (`st.async`, counted by an mbarrier), and all
// quantise the same rows.  Buffer and barrier of what comes are there twice: a block sends those of
// item n + 2 after it got all of n + 1, which the others sent when they had all of n and were done
// with it.
#pragma once

#include "kernels/ffn/shared.cuh"

namespace ramp {

// One accumulator of one warpgroup, wgmma's fragment, into a plane of [rows][64 columns].
template <class E>
__device__ __forceinline__ void put_sums(const FfnShared& s, const float (&sum)[E::kRows / 2],
                                         int plane) {
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const u32 to = s.ring + E::layout.staging + (plane * E::kRows + lane % 4 * 2) * kFfnSumsPitch +
                 (warp * 16 + lane / 4) * 4;
#pragma unroll
  for (int i = 0; i < E::kRows / 2; ++i)
    store_shared_4(to + (i / 4 * 8 + i % 2) * kFfnSumsPitch + i / 2 % 2 * 32,
                   __float_as_uint(sum[i]));
}
template <class E>
__device__ __forceinline__ const float* sums_of(const FfnShared& s, int plane, int row,
                                                int column) {
  return reinterpret_cast<const float*>(s.base + E::layout.staging +
                                        (plane * E::kRows + row) * kFfnSumsPitch) +
         column;
}

__device__ __forceinline__ float swiglu(float gate, float up) {
  return __fdividef(gate, 1.0f + __expf(-gate)) * up;
}

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
  return v;
}

// Where column `column` of a quantised row lies, K-major with the 128-byte swizzle.
template <class E>
__device__ __forceinline__ u32 middle_at(const FfnShared& s, int g, int row, int column) {
  return s.ring + E::layout.intermediate + g * E::kRowBytes + row * kScaleGroup +
         ((column / 16) ^ (row % 8)) * 16 + column % 16;
}
template <class E>
__device__ __forceinline__ void put_middle_scale(const FfnShared& s, const Row* rows, int g,
                                                 int row, float step) {
  if (threadIdx.x % 32 == 0)
    store_shared_4(s.ring + E::layout.scales_mid + (g * E::kRows + row) * 4,
                   __float_as_uint(__fmul_rn(step, rows[row].gate)));
}

// Rows of 128-block g that this block has to itself: a lane has four columns.
template <class E>
__device__ __forceinline__ void activate_alone(const FfnShared& s, const Row* rows, int g) {
  const int warp = threadIdx.x / 32 - 4, lane = threadIdx.x % 32;
  const int plane = lane / 16 * 2, column = lane % 16 * 4;
#pragma unroll 2
  for (int row = warp; row < E::kRows; row += kConsumerWarps) {
    const float4 gate = *reinterpret_cast<const float4*>(sums_of<E>(s, plane, row, column));
    const float4 up = *reinterpret_cast<const float4*>(sums_of<E>(s, plane + 1, row, column));
    const float v0 = swiglu(gate.x, up.x), v1 = swiglu(gate.y, up.y), v2 = swiglu(gate.z, up.z),
                v3 = swiglu(gate.w, up.w);
    const float amax = warp_max(fmaxf(fmaxf(fabsf(v0), fabsf(v1)), fmaxf(fabsf(v2), fabsf(v3))));
    const float step = group_scale(amax), inverse = __frcp_rn(step);
    const u32 low =
        pack_e4m3(quantise_divide(v0, step, inverse), quantise_divide(v1, step, inverse));
    const u32 high =
        pack_e4m3(quantise_divide(v2, step, inverse), quantise_divide(v3, step, inverse));
    store_shared_4(middle_at<E>(s, g, row, lane * 4), low | high << 16);
    put_middle_scale<E>(s, rows, g, row, step);
  }
}

// Rows that the cluster activates together: a lane has 4 / split columns of each block's.
template <class E>
__device__ __forceinline__ void activate_together(const FfnShared& s, const Row* rows,
                                                  RingCursor exchange) {
  constexpr int kColumns = ffn_own_columns(E::config), kOfLane = kColumns / 32,
                kOthers = E::kSplit - 1, kMine = E::kRows / kConsumerWarps;
  const int warp = threadIdx.x / 32 - 4, lane = threadIdx.x % 32, rank = static_cast<int>(s.rank);
  // What block `from` sends to another, which keeps it as part `from`, or one less if it follows.
  const auto exchange_at = [&](int row, int part) {
    return E::layout.exchange +
           (((exchange.slot * E::kRows + row) * kOthers + part) * kColumns + lane * kOfLane) * 4;
  };
  float mine[kMine][kOfLane];
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int row = warp + i * kConsumerWarps;
    if constexpr (E::kSplit == 2) {  // the warpgroups have summed halves of d
      float2 sum[4];
#pragma unroll
      for (int p = 0; p < 4; ++p)
        sum[p] = *reinterpret_cast<const float2*>(sums_of<E>(s, p, row, lane * 2));
      mine[i][0] = swiglu(sum[0].x + sum[2].x, sum[1].x + sum[3].x);
      mine[i][1] = swiglu(sum[0].y + sum[2].y, sum[1].y + sum[3].y);
    } else {  // the accumulators have summed quarters of d, 32 gate rows before 32 up rows
      float gate = 0, up = 0;
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        gate += *sums_of<E>(s, p, row, lane);
        up += *sums_of<E>(s, p, row, 32 + lane);
      }
      mine[i][0] = swiglu(gate, up);
    }
#pragma unroll
    for (int other = 1; other < E::kSplit; ++other) {
      const int to = (rank + other) % E::kSplit;
      const u32 at = map_to_rank(s.ring + exchange_at(row, rank - (rank > to)), to);
      const u32 bar = map_to_rank(s.exchange_full(exchange.slot), to);
      if constexpr (E::kSplit == 2)
        store_async_8(at, bar, mine[i][0], mine[i][1]);
      else
        store_async_4(at, bar, __float_as_uint(mine[i][0]));
    }
  }
  mbarrier_wait_cluster(s.exchange_full(exchange.slot), exchange.phase);
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int row = warp + i * kConsumerWarps;
    float v[E::kSplit][kOfLane];
    float amax = 0;
#pragma unroll
    for (int r = 0; r < E::kSplit; ++r)
#pragma unroll
      for (int c = 0; c < kOfLane; ++c) {
        v[r][c] = mine[i][c];
        if (r != rank)
          v[r][c] = reinterpret_cast<const float*>(s.base + exchange_at(row, r - (r > rank)))[c];
        amax = fmaxf(amax, fabsf(v[r][c]));
      }
    amax = warp_max(amax);
    const float step = group_scale(amax), inverse = __frcp_rn(step);
#pragma unroll
    for (int r = 0; r < E::kSplit; ++r) {
      const u32 to = middle_at<E>(s, 0, row, r * kColumns + lane * kOfLane);
      if constexpr (E::kSplit == 2)
        store_shared_2(to, pack_e4m3(quantise_divide(v[r][0], step, inverse),
                                     quantise_divide(v[r][1], step, inverse)));
      else
        store_shared_1(to, pack_e4m3(quantise_divide(v[r][0], step, inverse), 0.0f));
    }
    put_middle_scale<E>(s, rows, 0, row, step);
  }
}

// By all consumers: the sums of an item become its quantised rows.  `exchange` moves on by one an
// item.
template <class E>
__device__ __forceinline__ void activate(const FfnShared& s, const Row* rows,
                                         const float (&sum0)[E::kGroups][E::kRows / 2],
                                         const float (&sum1)[E::kGroups][E::kRows / 2],
                                         RingCursor exchange) {
  const int plane = (threadIdx.x / 128 - 1) * 2;
  bulk_wait_read();  // the staging buffers carry the sums
  if (E::kSplit > 1 && threadIdx.x == 128)
    mbarrier_arrive_expect(s.exchange_full(exchange.slot),
                           E::kRows * (kScaleGroup - ffn_own_columns(E::config)) * 4);
#pragma unroll
  for (int g = 0; g < E::kGroups; ++g) {
    // Also: everybody is done with the last intermediate.
    named_barrier(kAllConsumers, 128 * kFfnConsumers);
    put_sums<E>(s, sum0[g], plane);
    put_sums<E>(s, sum1[g], plane + 1);
    named_barrier(kAllConsumers, 128 * kFfnConsumers);
    if constexpr (E::kSplit == 1)
      activate_alone<E>(s, rows, g);
    else
      activate_together<E>(s, rows, exchange);
  }
  fence_proxy_async();
  named_barrier(kAllConsumers, 128 * kFfnConsumers);
}

}  // namespace ramp
