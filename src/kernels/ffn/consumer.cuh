// SPDX-License-Identifier: Apache-2.0
// The consumer warpgroups of `ffn`: multiply, promote, activate, multiply, add into the output.
#pragma once

#include "kernels/ffn/whole.cuh"

namespace ramp {

// ---- consumers ---------------------------------------------------------------------------------

// acc += part * (weight scale * row scale), the promotion of one 128-deep block.
template <int N>
__device__ __forceinline__ void promote(float (&acc)[N / 2], const float (&part)[N / 2],
                                        float weight_scale, const float (&row_scale)[N / 4]) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i)
    acc[i] = fmaf(part[i], __fmul_rn(weight_scale, row_scale[i / 4 * 2 + i % 2]), acc[i]);
}

// A 64-row atom times the tile over one 128-deep block: four wgmmas of 32.  The tensor core aligns
// what it adds to the largest product and keeps about 14 bits, so a sum gets better the sooner it
// is continued in FP32: into kParts separate results where the registers allow it.
template <int N, int kParts>
__device__ __forceinline__ void multiply_block(float (&part)[kParts][N / 2], u64 a, u64 b) {
#pragma unroll
  for (int k = 0; k < 4; ++k)
    wgmma<N>(part[k * kParts / 4], a + k * kDescriptorStepK, b + k * kDescriptorStepK,
             k * kParts % 4 > 0);
}
template <int N, int kParts>
__device__ __forceinline__ void add_parts(float (&part)[kParts][N / 2]) {
#pragma unroll
  for (int p = 1; p < kParts; ++p)
#pragma unroll
    for (int i = 0; i < N / 2; ++i) part[0][i] += part[p][i];
}

template <class E>
struct Consumer {
  static constexpr int N = E::kRows;
  // Two atoms in flight hide the promotion of one behind the other's multiplication; where the sums
  // of a tile leave no registers for that, one at a time.
  static constexpr bool kTwoInFlight = N * E::kGroups < 80;
  static constexpr int kParts = N * E::kGroups <= 16 ? 4 : N * E::kGroups <= 32 ? 2 : 1;
  const FfnShared& s;
  const FfnArgs& a;
  const int group = threadIdx.x / 128 - 1;  // of the two warpgroups
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  RingCursor<E::config.stages> unit;
  RingCursor<kFfnItemSlots> item;
  int buffer = 0;         // staging
  u32 cluster_phase = 0;  // of the barriers sums_full and middle_full
  bool cleared = false;   // the whole output, as far as this thread knows

  __device__ __forceinline__ void release(int slot) const {
    __syncwarp();
    if (lane == 0) mbarrier_arrive(s.empty(slot));
  }

  // Two 64-row atoms of weights, a0 and a1, times the tile b over one 128-deep block; use0 and use1
  // take the products.
  template <class Use0, class Use1>
  __device__ __forceinline__ static void multiply_two(u64 a0, u64 a1, u64 b, const Use0& use0,
                                                      const Use1& use1) {
    if constexpr (kTwoInFlight) {
      float part0[kParts][N / 2], part1[kParts][N / 2];
      wgmma_fence();
      multiply_block<N>(part0, a0, b);
      wgmma_commit();
      multiply_block<N>(part1, a1, b);
      wgmma_commit();
      wgmma_wait<1>();
      add_parts<N>(part0);
      use0(part0[0]);
      wgmma_wait<0>();
      add_parts<N>(part1);
      use1(part1[0]);
    } else {
      float part[1][N / 2];
      wgmma_fence();
      multiply_block<N>(part, a0, b);
      wgmma_commit();
      wgmma_wait<0>();
      use0(part[0]);
      wgmma_fence();
      multiply_block<N>(part, a1, b);
      wgmma_commit();
      wgmma_wait<0>();
      use1(part[0]);
    }
  }

  // Gate and up of this warpgroup's 64 columns of each 128-block.
  __device__ __forceinline__ void up(float (&gate)[E::kGroups][N / 2],
                                     float (&upper)[E::kGroups][N / 2], int groups) {
    const int k_blocks = E::up_end(s, a) - E::up_begin(s, a);
#pragma unroll
    for (int g = 0; g < E::kGroups; ++g)
#pragma unroll
      for (int i = 0; i < N / 2; ++i) gate[g][i] = upper[g][i] = 0.0f;

    for (int k = 0; k < k_blocks; ++k) {
      int first_slot = 0;
      u64 rows = 0;
      float row_scale[N / 4];
#pragma unroll
      for (int g = 0; g < E::kGroups; ++g) {
        if (g < groups) {
          mbarrier_wait(s.full(unit.slot), unit.phase);
          if (g == 0) {
            first_slot = unit.slot;
            rows = matrix_descriptor(s.ring + E::layout.rows + unit.slot * E::kRowBytes);
            fence_proxy_async();  // the gathered rows came by ordinary copies
            load_row_scale(row_scale, E::layout.scales_x + unit.slot * N * 4);
          }
          const float2 weight_scale =
              *reinterpret_cast<const float2*>(s.base + E::layout.scales_w + unit.slot * 8);
          const u64 weights = matrix_descriptor(s.ring + unit.slot * kFfnUnitBytes + group * 8192);
          multiply_two(
              weights, weights + (16384 >> 4), rows,
              [&](const float(&part)[N / 2]) {
                promote<N>(gate[g], part, weight_scale.x, row_scale);
              },
              [&](const float(&part)[N / 2]) {
                promote<N>(upper[g], part, weight_scale.y, row_scale);
              });
          if (g > 0) release(unit.slot);
          if (g == groups - 1) release(first_slot);  // its rows served all groups
          unit.next();
        }
      }
    }
  }

  // The scales of this thread's tokens, from N floats in shared memory.
  __device__ __forceinline__ void load_row_scale(float (&to)[N / 4], int offset) const {
    const float* from = reinterpret_cast<const float*>(s.base + offset) + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
      const float2 two = *reinterpret_cast<const float2*>(from + j * 8);
      to[2 * j] = two.x, to[2 * j + 1] = two.y;
    }
  }

  // SwiGLU, then e4m3 per token and 128 columns, and beside it the scale that undoes it with the
  // router's weight folded in after quantising.  The sums pass through shared memory so that a warp
  // gets a whole row of 128 columns and finds its largest element by shuffles.
  //
  // In a cluster every thread sends all it has to one block (split 4: rows 8j + 2r and 8j + 2r + 1
  // go to block r), that block adds what it got from everybody in order of rank, and sends the
  // quantised rows to all.  No buffer can be overwritten too early: a block sends its sums of the
  // next item after its down phase, hence after it got all rows of this item, which were made from
  // all sums of this item.
  __device__ __forceinline__ void activate(const float (&gate)[E::kGroups][N / 2],
                                           const float (&upper)[E::kGroups][N / 2],
                                           u32 phase) const {
    if constexpr (E::kSplit == 1) {
      bulk_wait_read();  // the staging buffers carry the sums
#pragma unroll
      for (int g = 0; g < E::kGroups; ++g) {
        named_barrier(kAllConsumers,
                      128 * kFfnConsumers);  // also: everybody is done with the last intermediate
        send_sums(gate[g], upper[g], 0);
        named_barrier(kAllConsumers, 128 * kFfnConsumers);
#pragma unroll 2
        for (int row = group * 4 + warp; row < N; row += kConsumerWarps) activate_row(g, row, 0);
      }
      fence_proxy_async();
      named_barrier(kAllConsumers, 128 * kFfnConsumers);
    } else {
      if (threadIdx.x == 128) {
        mbarrier_arrive_expect(s.sums_full(), kConsumerWarps * 32 * N * E::kGroups * 4);
        mbarrier_arrive_expect(s.middle_full(), E::kGroups * N * (kScaleGroup + 4));
      }
#pragma unroll
      for (int g = 0; g < E::kGroups; ++g) send_sums(gate[g], upper[g], g);
      mbarrier_wait_cluster(s.sums_full(), phase);
      constexpr int kMine = N / E::kSplit,
                    kOfEight = 8 / E::kSplit;  // rows of this block, and of each eight
#pragma unroll 2
      for (int task = group * 4 + warp; task < E::kGroups * kMine; task += kConsumerWarps) {
        const int m = task % kMine;
        activate_row(task / kMine, m / kOfEight * 8 + s.rank * kOfEight + m % kOfEight,
                     task / kMine);
      }
      mbarrier_wait_cluster(s.middle_full(), phase);
      fence_proxy_async();
    }
  }

  static constexpr int kLanes = 32 / E::kSplit;   // of a warp that send to the same block
  static constexpr int kPerGate = 4 / E::kSplit;  // of four lanes with neighbouring tokens
  static constexpr int kSumsPitch = ffn_sums_pitch(E::config);

  // Four sums (two columns of two tokens) a store; `place` numbers the 128-blocks in the buffer.
  __device__ __forceinline__ void send_sums(const float (&gate)[N / 2], const float (&upper)[N / 2],
                                            int place) const {
    const int q = lane / 4 * kPerGate + lane % kPerGate;
    const u32 at = s.ring + E::layout.sums +
                   (s.rank * kConsumerWarps + group * 4 + warp) * kSumsPitch +
                   (place * (N / 4) * kLanes + q) * 16;
    const int to_rank = lane % 4 / kPerGate;
    const u32 to = E::kSplit == 1 ? at : map_to_rank(at, to_rank);
    const u32 bar = E::kSplit == 1 ? 0 : map_to_rank(s.sums_full(), to_rank);
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
      const u32 gate_to = to + j * kLanes * 16, up_to = to + (N / 8 + j) * kLanes * 16;
      if constexpr (E::kSplit == 1) {
        store_shared_16(gate_to, gate[4 * j], gate[4 * j + 1], gate[4 * j + 2], gate[4 * j + 3]);
        store_shared_16(up_to, upper[4 * j], upper[4 * j + 1], upper[4 * j + 2], upper[4 * j + 3]);
      } else {
        store_async_16(gate_to, bar, gate[4 * j], gate[4 * j + 1], gate[4 * j + 2],
                       gate[4 * j + 3]);
        store_async_16(up_to, bar, upper[4 * j], upper[4 * j + 1], upper[4 * j + 2],
                       upper[4 * j + 3]);
      }
    }
  }

  // One row of a 128-block by one warp: lane l has columns 4l .. 4l + 3.
  __device__ __forceinline__ void activate_row(int g, int row, int place) const {
    const char* sums = s.base + E::layout.sums + lane / 4 * kSumsPitch;
    float value[4], amax = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {  // who held the column, and where in its fragment
      const int within = lane % 4 * 4 + j;
      const int q = within % 8 * kPerGate + row % 8 / 2 % kPerGate;
      const int at =
          ((place * (N / 4) + row / 8) * kLanes + q) * 16 + (within / 8 * 2 + row % 2) * 4;
      float gate = 0, upper = 0;
#pragma unroll
      for (int r = 0; r < E::kSplit; ++r) {
        const char* from = sums + r * kConsumerWarps * kSumsPitch + at;
        gate += *reinterpret_cast<const float*>(from);
        upper += *reinterpret_cast<const float*>(from + N / 8 * kLanes * 16);
      }
      value[j] = __fdividef(gate, 1.0f + __expf(-gate)) * upper;
      amax = fmaxf(amax, fabsf(value[j]));
    }
#pragma unroll
    for (int d = 16; d > 0; d /= 2) amax = fmaxf(amax, __shfl_xor_sync(~0u, amax, d));
    const float step = group_scale(amax), inverse = __frcp_rn(step);
    const u32 packed = pack_e4m3(quantise_divide(value[0], step, inverse),
                                 quantise_divide(value[1], step, inverse)) |
                       static_cast<u32>(pack_e4m3(quantise_divide(value[2], step, inverse),
                                                  quantise_divide(value[3], step, inverse)))
                           << 16;
    const float scale = __fmul_rn(step, E::rows(s, item.slot)[row].gate);
    const u32 to = s.ring + E::layout.intermediate + g * E::kRowBytes + row * kScaleGroup +
                   (lane / 4 ^ row % 8) * 16 + lane % 4 * 4;
    const u32 scale_to = s.ring + E::layout.scales_mid + (g * N + row) * 4;
    if constexpr (E::kSplit == 1) {
      store_shared_4(to, packed);
      if (lane == 0) store_shared_4(scale_to, __float_as_uint(scale));
    } else {
#pragma unroll
      for (int r = 0; r < E::kSplit; ++r) {
        const u32 bar = map_to_rank(s.middle_full(), r);
        store_async_4(map_to_rank(to, r), bar, packed);
        if (lane == 0) store_async_4(map_to_rank(scale_to, r), bar, __float_as_uint(scale));
      }
    }
  }

  // Output columns d_block * 256 .. + 255 of the tile's rows, in this warpgroup alone.
  __device__ __forceinline__ void down(int d_block, int groups, int rows) {
    const u32 staging =
        s.ring + E::layout.staging + (group * E::config.staging + buffer) * N * kFfnStagingPitch;
    if constexpr (E::config.staging == 1) {
      bulk_wait_read();
      named_barrier(kOneWarpgroup + group, 128);
    }
    if constexpr (E::kGroups == 1) {
      mbarrier_wait(s.full(unit.slot), unit.phase);
      const float2 weight_scale =
          *reinterpret_cast<const float2*>(s.base + E::layout.scales_w + unit.slot * 8);
      const u64 weights = matrix_descriptor(s.ring + unit.slot * kFfnUnitBytes);
      const u64 middle = matrix_descriptor(s.ring + E::layout.intermediate);
      float scale[N / 4];
      load_row_scale(scale, E::layout.scales_mid);
#pragma unroll
      for (int half = 0; half < 2; ++half) {  // two atoms of 64 columns each share a weight scale
        const float w = half ? weight_scale.y : weight_scale.x;
        multiply_two(
            weights + (half * 2) * (8192 >> 4), weights + (half * 2 + 1) * (8192 >> 4), middle,
            [&](const float(&part)[N / 2]) { stage(staging, half * 2, part, w, scale); },
            [&](const float(&part)[N / 2]) {
              if (half == 1) release(unit.slot);
              stage(staging, half * 2 + 1, part, w, scale);
            });
      }
      unit.next();
    } else {
      float sum[4][N / 2];
#pragma unroll
      for (int atom = 0; atom < 4; ++atom)
#pragma unroll
        for (int i = 0; i < N / 2; ++i) sum[atom][i] = 0.0f;
#pragma unroll
      for (int g = 0; g < E::kGroups; ++g) {
        if (g < groups) {
          mbarrier_wait(s.full(unit.slot), unit.phase);
          const float2 weight_scale =
              *reinterpret_cast<const float2*>(s.base + E::layout.scales_w + unit.slot * 8);
          const u64 weights = matrix_descriptor(s.ring + unit.slot * kFfnUnitBytes);
          const u64 middle = matrix_descriptor(s.ring + E::layout.intermediate + g * E::kRowBytes);
          float scale[N / 4];
          load_row_scale(scale, E::layout.scales_mid + g * N * 4);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float w = half ? weight_scale.y : weight_scale.x;
            multiply_two(
                weights + (half * 2) * (8192 >> 4), weights + (half * 2 + 1) * (8192 >> 4), middle,
                [&](const float(&part)[N / 2]) { promote<N>(sum[half * 2], part, w, scale); },
                [&](const float(&part)[N / 2]) { promote<N>(sum[half * 2 + 1], part, w, scale); });
          }
          release(unit.slot);
          unit.next();
        }
      }
      float one[N / 4];  // scaled already
#pragma unroll
      for (int t = 0; t < N / 4; ++t) one[t] = 1.0f;
#pragma unroll
      for (int atom = 0; atom < 4; ++atom) stage(staging, atom, sum[atom], 1.0f, one);
    }
    fence_proxy_async();
    if constexpr (E::config.staging == 2) {
      bulk_wait_read();  // the other buffer, which the next unit writes
    }
    named_barrier(kOneWarpgroup + group, 128);
    if constexpr (E::kWhole) {
      if (!cleared) {  // the zeros of all blocks, before the first addition
        wait_for_count(&a.state->cleared, gridDim.x);
        fence_proxy_async_global();
        cleared = true;
      }
    }
    const int bytes = min(kFfnUnitCols, a.hidden - d_block * kFfnUnitCols) * 2;
    for (int r = warp + 4 * lane; r < rows;
         r += 128)  // a warp issues row after row, so all four share them
      bulk_add_bf16(a.output + static_cast<long long>(E::rows(s, item.slot)[r].token) * a.hidden +
                        d_block * kFfnUnitCols,
                    staging + r * kFfnStagingPitch, bytes);
    bulk_commit();
    if constexpr (E::config.staging == 2) buffer ^= 1;
  }

  // 64 columns of the output as bf16 rows: the fragment is columns x tokens, the rows are tokens.
  __device__ __forceinline__ void stage(u32 staging, int atom, const float (&part)[N / 2],
                                        float weight_scale, const float (&row_scale)[N / 4]) const {
    const u32 to =
        staging + (lane % 8) * kFfnStagingPitch + (atom * 64 + warp * 16 + lane / 8 % 2 * 8) * 2;
    u32 low[N / 8], high[N / 8];
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
      const float s0 = __fmul_rn(weight_scale, row_scale[2 * j]),
                  s1 = __fmul_rn(weight_scale, row_scale[2 * j + 1]);
      low[j] = pack_bf16(__fmul_rn(part[4 * j], s0), __fmul_rn(part[4 * j + 1], s1));
      high[j] = pack_bf16(__fmul_rn(part[4 * j + 2], s0), __fmul_rn(part[4 * j + 3], s1));
    }
#pragma unroll
    for (int j = 0; j + 1 < N / 8; j += 2)
      store_matrix_x4_trans(to + (j + lane / 16) * 8 * kFfnStagingPitch, low[j], high[j],
                            low[j + 1], high[j + 1]);
    if constexpr (N / 8 % 2 == 1)
      store_matrix_x2_trans(to + (N / 8 - 1) * 8 * kFfnStagingPitch, low[N / 8 - 1],
                            high[N / 8 - 1]);
  }

  __device__ __forceinline__ void run() {
    const int d_begin = E::down_begin(s, a), d_end = E::down_end(s, a);
    for (;; item.next()) {
      mbarrier_wait(s.item_full(item.slot), item.phase);
      const ItemHead h = *E::head(s, item.slot);
      if (h.rows == kNoMoreItems) break;
      const int num_rows = E::num_rows(a, h);
      if (num_rows == 0) {
        for (int u = 0; u < E::prefilled(s, a, h.slice); ++u, unit.next()) {
          mbarrier_wait(s.full(unit.slot), unit.phase);
          release(unit.slot);
        }
      } else {
        const int groups = E::groups(a, h.slice);
        {
          float gate[E::kGroups][N / 2], upper[E::kGroups][N / 2];
          up(gate, upper, groups);
          mbarrier_wait(s.rows_full(item.slot), item.phase);
          activate(gate, upper, cluster_phase);
          cluster_phase ^= 1;
        }
        for (int d = d_begin; d < d_end; ++d) {
          if ((d - d_begin) % kFfnConsumers == group) {
            down(d, groups, num_rows);
          } else {
            for (int g = 0; g < groups; ++g, unit.next()) {
              mbarrier_wait(s.full(unit.slot), unit.phase);
              release(unit.slot);
            }
          }
        }
      }
      __syncwarp();
      if (lane == 0) mbarrier_arrive(s.item_empty(item.slot));
    }
    bulk_wait();
  }
};

}  // namespace ramp
