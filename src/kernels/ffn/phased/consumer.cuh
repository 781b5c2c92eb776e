// SPDX-License-Identifier: Apache-2.0
// The consumer warpgroups of the two-phase `ffn`.  Tokens are wgmma's A operand (64 rows), weights
// its N, so a thread has two rows: two scales for all its products, and a row's largest element is
// four lanes away.
#pragma once

#include "kernels/ffn/phased/shared.cuh"
#include "kernels/ffn/swiglu.cuh"

namespace ramp {

template <class E>
struct PhasedConsumer {
  static constexpr int N = E::kN;
  // Two accumulators in flight where the registers allow it; else the other warpgroup fills the
  // tensor cores while this one promotes.
  static constexpr bool kTwoInFlight = N <= 64;
  using Sums = float[N / 2];

  const PhasedShared& s;
  const FfnArgs& a;
  const int group = uniform(threadIdx.x / 128 - 1);
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const int first_row = E::kSplitRows ? group * 64 : 0;  // of the tile, of this warpgroup
  const int my_row = first_row + warp * 16 + lane / 4;   // and + 8
  RingCursor unit{E::config.stages}, item{kFfnItemSlots};
  int unpublished = -1;  // tile

  // Those who write rows together: a warpgroup, or both.
  __device__ __forceinline__ void meet() const {
    if constexpr (E::kSplitRows)
      named_barrier(kOneWarpgroup + group, 128);
    else
      named_barrier(kAllConsumers, 128 * kFfnConsumers);
  }

  __device__ __forceinline__ void release() const {
    __syncwarp();
    if (lane == 0) mbarrier_arrive(s.empty(unit.slot));
  }

  // Column piece i of a unit's two, from a unit's start.  Up: of gate and of up.  Down: of all 256.
  __device__ __forceinline__ int piece_at(int down, int i) const {
    if constexpr (E::kSplitRows) return i * 128;
    return down ? group * 128 + i * 64 : i * 128 + group * 64;
  }

  __device__ __forceinline__ static void multiply(Sums& part, u64 tokens, u64 weights) {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      wgmma<N>(part, tokens + k * kDescriptorStepK, weights + k * kDescriptorStepK, k > 0);
    wgmma_commit();
  }
  __device__ __forceinline__ static void promote(Sums& sum, const Sums& part, float scale0,
                                                 float scale1) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) sum[i] = fmaf(part[i], i % 4 < 2 ? scale0 : scale1, sum[i]);
  }

  // All 128-blocks of the tile's rows: piece 0 into sum0, piece 1 into sum1.
  __device__ __forceinline__ void multiply_item(const PhasedItem& it, int units, Sums& sum0,
                                                Sums& sum1) {
    const int down = uniform(it.down);
#pragma unroll 1
    for (int k = 0; k < units; ++k) {
      mbarrier_wait(s.full(unit.slot), unit.phase);
      fence_proxy_async();  // the rows came by ordinary copies
      const float* scale = reinterpret_cast<const float*>(s.base + E::row_scales_at(unit.slot));
      const float row0 = scale[my_row], row1 = scale[my_row + 8];
      const float* weight =
          reinterpret_cast<const float*>(s.base + E::weight_scales_at(unit.slot));
      const float w0 = weight[piece_at(down, 0) / kScaleGroup],
                  w1 = weight[piece_at(down, 1) / kScaleGroup];
      const int slot = uniform(unit.slot);
      const u64 tokens = matrix_descriptor(E::tokens(s, slot) + first_row * kScaleGroup);
      const u64 weights0 = matrix_descriptor(E::weights(s, slot) + piece_at(down, 0) * kScaleGroup),
                weights1 = matrix_descriptor(E::weights(s, slot) + piece_at(down, 1) * kScaleGroup);
      if constexpr (kTwoInFlight) {
        Sums part0, part1;
        wgmma_fence();
        multiply(part0, tokens, weights0);
        multiply(part1, tokens, weights1);
        wgmma_wait<1>();
        promote(sum0, part0, __fmul_rn(w0, row0), __fmul_rn(w0, row1));
        wgmma_wait<0>();
        release();
        promote(sum1, part1, __fmul_rn(w1, row0), __fmul_rn(w1, row1));
      } else {
        Sums part;
        wgmma_fence();
        multiply(part, tokens, weights0);
        wgmma_wait<0>();
        promote(sum0, part, __fmul_rn(w0, row0), __fmul_rn(w0, row1));
        wgmma_fence();
        multiply(part, tokens, weights1);
        wgmma_wait<0>();
        release();
        promote(sum1, part, __fmul_rn(w1, row0), __fmul_rn(w1, row1));
      }
      unit.next();
      publish();
    }
  }

  // SwiGLU, then e4m3 per token and 128 columns of h, and beside it the scale that undoes it with
  // the router's weight folded in: into device memory, for whoever takes the down items.
  __device__ __forceinline__ void finish_up(const PhasedItem& it, const Row* rows, Sums& gate,
                                            const Sums& up) const {
    float amax0 = 0, amax1 = 0;
#pragma unroll
    for (int i = 0; i < N / 2; i += 2) {
      swiglu_two(gate[i], up[i], gate[i + 1], up[i + 1]);
      float& amax = i % 4 < 2 ? amax0 : amax1;
      amax = fmaxf(amax, fmaxf(fabsf(gate[i]), fabsf(gate[i + 1])));
    }
#pragma unroll
    for (int d = 2; d > 0; d /= 2) {
      amax0 = fmaxf(amax0, __shfl_xor_sync(~0u, amax0, d));
      amax1 = fmaxf(amax1, __shfl_xor_sync(~0u, amax1, d));
    }
    bulk_wait_read();  // the staged rows of a down item
    if constexpr (!E::kSplitRows) {
      float* shared_max = reinterpret_cast<float*>(s.base + E::layout.row_max);
      if (lane % 4 == 0) {
        shared_max[group * 64 + my_row] = amax0;
        shared_max[group * 64 + my_row + 8] = amax1;
      }
      meet();
      amax0 = fmaxf(amax0, shared_max[(1 - group) * 64 + my_row]);
      amax1 = fmaxf(amax1, shared_max[(1 - group) * 64 + my_row + 8]);
    } else {
      meet();
    }
    const float step0 = group_scale(amax0), step1 = group_scale(amax1);
    const float inverse0 = reciprocal(step0), inverse1 = reciprocal(step1);
    const u32 to = s.ring + E::layout.staging + my_row * kPhasedMiddlePitch + piece_at(0, 0) + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
      store_shared_2(to + j * 8, pack_e4m3(quantise_divide(gate[4 * j], step0, inverse0),
                                           quantise_divide(gate[4 * j + 1], step0, inverse0)));
      store_shared_2(to + j * 8 + 8 * kPhasedMiddlePitch,
                     pack_e4m3(quantise_divide(gate[4 * j + 2], step1, inverse1),
                               quantise_divide(gate[4 * j + 3], step1, inverse1)));
    }
    const int h_blocks = a.intermediate / kScaleGroup;
    if (lane % 4 == 0 && (E::kSplitRows || group == 0)) {
      float* scales = a.middle_scale + static_cast<long long>(it.row0) * h_blocks + it.column;
      if (my_row < it.rows)
        scales[static_cast<long long>(my_row) * h_blocks] = __fmul_rn(step0, rows[my_row].gate);
      if (my_row + 8 < it.rows)
        scales[static_cast<long long>(my_row + 8) * h_blocks] =
            __fmul_rn(step1, rows[my_row + 8].gate);
    }
    meet();
    const int thread = E::kSplitRows ? threadIdx.x % 128 : threadIdx.x - 128, chunk = thread % 8;
    constexpr int kStep = (E::kSplitRows ? 128 : 256) / 8;
    unsigned char* middle = a.middle_q + static_cast<long long>(it.row0) * a.intermediate +
                            it.column * kScaleGroup + chunk * 16;
    for (int r = first_row + thread / 8; r < min(it.rows, first_row + 64); r += kStep)
      *reinterpret_cast<uint4*>(middle + static_cast<long long>(r) * a.intermediate) =
          *reinterpret_cast<const uint4*>(s.base + E::layout.staging + r * kPhasedMiddlePitch +
                                          chunk * 16);
    meet();
  }
  // One of the two arrivals of an up item, after everything that this thread saw written.  That is
  // waited for, so the arrival is put off until the next item's first unit is through; unless the
  // next is a down item, which may need it.
  __device__ __forceinline__ void publish() {
    if (unpublished >= 0 && threadIdx.x % 128 == 0) add_release(a.ready + unpublished, 1);
    unpublished = -1;
  }

  // 256 columns of the tile's rows as bf16, added into the output.
  __device__ __forceinline__ void finish_down(const PhasedItem& it, const Row* rows,
                                              const Sums& sum0, const Sums& sum1) const {
    const u32 staging = s.ring + E::layout.staging;
    const u32 to = staging +
                   (first_row + warp * 16 + lane / 8 % 2 * 8 + lane % 8) * kFfnStagingPitch +
                   lane / 16 * 16;
    bulk_wait_read();
    meet();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Sums& sum = i ? sum1 : sum0;
#pragma unroll
      for (int j = 0; j < N / 8; j += 2)
        store_matrix_x4(to + (piece_at(1, i) + j * 8) * 2, pack_bf16(sum[4 * j], sum[4 * j + 1]),
                        pack_bf16(sum[4 * j + 2], sum[4 * j + 3]),
                        pack_bf16(sum[4 * j + 4], sum[4 * j + 5]),
                        pack_bf16(sum[4 * j + 6], sum[4 * j + 7]));
    }
    fence_proxy_async();
    meet();
    const int bytes = min(kFfnUnitCols, a.hidden - it.column * kFfnUnitCols) * 2;
    const int end = min(it.rows, first_row + 64);
    constexpr int kWarps = E::kSplitRows ? 4 : 8;
    const int first = first_row + (E::kSplitRows ? warp : group * 4 + warp);
    for (int r = first + kWarps * lane; r < end; r += kWarps * 32)
      bulk_add_bf16(a.output + static_cast<long long>(rows[r].token) * a.hidden +
                        it.column * kFfnUnitCols,
                    staging + r * kFfnStagingPitch, bytes);
    bulk_commit();
  }

  __device__ __forceinline__ void run() {
#pragma unroll 1
    for (;; item.next()) {
      mbarrier_wait(s.item_full(item.slot), item.phase);
      const PhasedItem it = *E::head(s, item.slot);
      if (it.rows == kNoMoreItems || it.down) publish();
      if (it.rows == kNoMoreItems) break;
      const int units = (it.down ? a.intermediate : a.hidden) / kScaleGroup;
      if (it.rows <= first_row) {  // nothing for this warpgroup
        for (int k = 0; k < units; ++k, unit.next()) {
          mbarrier_wait(s.full(unit.slot), unit.phase);
          release();
        }
        publish();
      } else {
        Sums sum0, sum1;
#pragma unroll
        for (int i = 0; i < N / 2; ++i) sum0[i] = sum1[i] = 0.0f;
        multiply_item(it, units, sum0, sum1);
        mbarrier_wait(s.rows_full(item.slot), item.phase);
        const Row* rows = E::rows(s, item.slot);
        if (it.down)
          finish_down(it, rows, sum0, sum1);
        else
          finish_up(it, rows, sum0, sum1);
      }
      if (!it.down) unpublished = it.tile;
      __syncwarp();
      if (lane == 0) mbarrier_arrive(s.item_empty(item.slot));
    }
    bulk_wait();
  }
};

}  // namespace ramp
