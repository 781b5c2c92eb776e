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
#include "kernels/ffn/swiglu.cuh"

namespace ramp {

// Where a column of a row lies in a plane of [rows][64 columns] of sums.
__device__ __forceinline__ int sums_at(const FfnNumbers& e, int plane, int row, int column) {
  return e.staging + (plane * e.rows + row) * kFfnSumsPitch + column * 4;
}
// One accumulator of one warpgroup, wgmma's fragment, into its plane: eight rows, of which a thread
// has two, after eight as far as the tile has them.
template <int kCount>
__device__ __forceinline__ void put_sums(const FfnShared& s, const FfnNumbers& e,
                                         const float (&sum)[kCount], int plane) {
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const u32 to = s.ring + sums_at(e, plane, lane % 4 * 2, warp * 16 + lane / 4);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i / 4 * 8 >= e.rows) break;
    store_shared_4(to + (i / 4 * 8 + i % 2) * kFfnSumsPitch + i / 2 % 2 * 32,
                   __float_as_uint(sum[i]));
  }
}
template <class T>
__device__ __forceinline__ T load_sums(const FfnShared& s, const FfnNumbers& e, int plane, int row,
                                       int column) {
  return *reinterpret_cast<const T*>(s.base + sums_at(e, plane, row, column));
}

// The warp's largest of each, side by side.
template <int kCount>
__device__ __forceinline__ void warp_max(float (&v)[kCount]) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2)
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] = fmaxf(v[i], __shfl_xor_sync(~0u, v[i], d));
}

// Where column `column` of a quantised row lies, K-major with the 128-byte swizzle.
__device__ __forceinline__ u32 middle_at(const FfnShared& s, const FfnNumbers& e, int g, int row,
                                         int column) {
  return s.ring + e.intermediate + (g * e.rows + row) * kScaleGroup +
         ((column / 16) ^ (row % 8)) * 16 + column % 16;
}
__device__ __forceinline__ void put_middle_scale(const FfnShared& s, const FfnNumbers& e,
                                                 const Row* rows, int g, int row, float step) {
  if (threadIdx.x % 32 == 0)
    store_shared_4(s.ring + e.scales_mid + (g * e.rows + row) * 4,
                   __float_as_uint(__fmul_rn(step, rows[row].gate)));
}

// The tile's rows of 128-block g that this block has to itself: a lane has four columns, a warp two
// rows at once, whose latencies overlap.
template <class Units>
__device__ __forceinline__ void activate_alone(const FfnShared& s, const FfnNumbers& e,
                                               const Row* rows, int num_rows, int g) {
  constexpr int kAtOnce = Units::kTallest > kConsumerWarps ? 2 : 1;
  const int warp = uniform(threadIdx.x / 32 - 4), lane = threadIdx.x % 32;
  const int plane = lane / 16 * 2, column = lane % 16 * 4;
#pragma unroll 1
  for (int first = warp; first < num_rows; first += kAtOnce * kConsumerWarps) {
    float v[kAtOnce][4], amax[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int row = min(first + i * kConsumerWarps, num_rows - 1);
      const float4 gate = load_sums<float4>(s, e, plane, row, column);
      const float4 up = load_sums<float4>(s, e, plane + 1, row, column);
      v[i][0] = gate.x, v[i][1] = gate.y, v[i][2] = gate.z, v[i][3] = gate.w;
      swiglu_two(v[i][0], up.x, v[i][1], up.y);
      swiglu_two(v[i][2], up.z, v[i][3], up.w);
      amax[i] = fmaxf(fmaxf(fabsf(v[i][0]), fabsf(v[i][1])), fmaxf(fabsf(v[i][2]), fabsf(v[i][3])));
    }
    warp_max(amax);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int row = first + i * kConsumerWarps;
      const float step = group_scale(amax[i]), inverse = reciprocal(step);
      const u32 low = pack_e4m3(quantise_divide(v[i][0], step, inverse),
                                quantise_divide(v[i][1], step, inverse));
      const u32 high = pack_e4m3(quantise_divide(v[i][2], step, inverse),
                                 quantise_divide(v[i][3], step, inverse));
      if (row < num_rows) {
        store_shared_4(middle_at(s, e, g, row, lane * 4), low | high << 16);
        put_middle_scale(s, e, rows, g, row, step);
      }
    }
  }
}

// Rows that the cluster activates together: a lane has 4 / split columns of each block's.
template <class Units>
__device__ __forceinline__ void activate_together(const FfnShared& s, const FfnNumbers& e,
                                                  const Row* rows, int num_rows,
                                                  RingCursor exchange) {
  constexpr int kColumns = Units::kOwnColumns, kOfLane = kColumns / 32, kOthers = Units::kSplit - 1,
                kMost = Units::kTallest / kConsumerWarps;
  const int warp = uniform(threadIdx.x / 32 - 4), lane = threadIdx.x % 32,
            rank = static_cast<int>(s.rank);
  // What block `from` sends to another, which keeps it as part `from`, or one less if it follows.
  const auto exchange_at = [&](int row, int part) {
    return e.exchange +
           (((exchange.slot * e.rows + row) * kOthers + part) * kColumns + lane * kOfLane) * 4;
  };
  float mine[kMost][kOfLane];
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    const int row = warp + i * kConsumerWarps;
    if (row >= num_rows) break;
    if constexpr (Units::kSplit == 2) {  // the warpgroups have summed halves of d
      float2 sum[4];
#pragma unroll
      for (int p = 0; p < 4; ++p) sum[p] = load_sums<float2>(s, e, p, row, lane * 2);
      mine[i][0] = sum[0].x + sum[2].x, mine[i][1] = sum[0].y + sum[2].y;
      swiglu_two(mine[i][0], sum[1].x + sum[3].x, mine[i][1], sum[1].y + sum[3].y);
    } else {  // the accumulators have summed quarters of d, 32 gate rows before 32 up rows
      float gate = 0, up = 0;
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        gate += load_sums<float>(s, e, p, row, lane);
        up += load_sums<float>(s, e, p, row, 32 + lane);
      }
      mine[i][0] = swiglu(gate, up);
    }
#pragma unroll
    for (int other = 1; other < Units::kSplit; ++other) {
      const int to = (rank + other) % Units::kSplit;
      const u32 at = map_to_rank(s.ring + exchange_at(row, rank - (rank > to)), to);
      const u32 bar = map_to_rank(s.exchange_full(exchange.slot), to);
      if constexpr (Units::kSplit == 2)
        store_async_8(at, bar, mine[i][0], mine[i][1]);
      else
        store_async_4(at, bar, __float_as_uint(mine[i][0]));
    }
  }
  mbarrier_wait_cluster(s.exchange_full(exchange.slot), exchange.phase);
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    const int row = warp + i * kConsumerWarps;
    if (row >= num_rows) break;
    float v[Units::kSplit][kOfLane];
    float amax[1] = {0};
#pragma unroll
    for (int r = 0; r < Units::kSplit; ++r)
#pragma unroll
      for (int c = 0; c < kOfLane; ++c) {
        v[r][c] = mine[i][c];
        if (r != rank)
          v[r][c] = reinterpret_cast<const float*>(s.base + exchange_at(row, r - (r > rank)))[c];
        amax[0] = fmaxf(amax[0], fabsf(v[r][c]));
      }
    warp_max(amax);
    const float step = group_scale(amax[0]), inverse = reciprocal(step);
#pragma unroll
    for (int r = 0; r < Units::kSplit; ++r) {
      const u32 to = middle_at(s, e, 0, row, r * kColumns + lane * kOfLane);
      if constexpr (Units::kSplit == 2)
        store_shared_2(to, pack_e4m3(quantise_divide(v[r][0], step, inverse),
                                     quantise_divide(v[r][1], step, inverse)));
      else
        store_shared_1(to, pack_e4m3(quantise_divide(v[r][0], step, inverse), 0.0f));
    }
    put_middle_scale(s, e, rows, 0, row, step);
  }
}

// By all consumers: 128-block g of an item's sums, which they have put into shared memory, becomes
// quantised rows.
template <class Units>
__device__ __forceinline__ void activate(const FfnShared& s, const FfnNumbers& e, const Row* rows,
                                         int num_rows, int g, RingCursor exchange) {
  if constexpr (Units::kSplit == 1)
    activate_alone<Units>(s, e, rows, num_rows, g);
  else
    activate_together<Units>(s, e, rows, num_rows, exchange);
}

}  // namespace ramp
