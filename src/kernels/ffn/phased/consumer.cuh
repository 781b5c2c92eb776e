// SPDX-License-Identifier: Apache-2.0
// The consumer warpgroups of the two-phase `ffn`.  Tokens are wgmma's A operand (64 rows), weights
// its N, so a thread has two rows: two scales for all its products, and a row's largest element is
// four lanes away.
#pragma once

#include "kernels/ffn/activate.cuh"
#include "kernels/ffn/phased/shared.cuh"

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
  RingCursor<E::config.stages> unit;
  RingCursor<kFfnItemSlots> item;

  // Those who write rows together: a warpgroup, or both.
  __device__ __forceinline__ void meet() const {
    if constexpr (E::kSplitRows)
      named_barrier(kOneWarpgroup + group, 128);
    else
      named_barrier(kAllConsumers, 128 * kFfnConsumers);
  }

  __device__ __forceinline__ void release(int slot) const {
    __syncwarp();
    if (lane == 0) mbarrier_arrive(s.empty(slot));
  }
  // Where the unit lies that came `n` before the next one.
  __device__ __forceinline__ int slot_before(int n) const {
    const int slot = unit.slot - n;
    return slot < 0 ? slot + E::config.stages : slot;
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

  // All 128-blocks of the tile's rows: piece 0 into sum0, piece 1 into sum1.  The last `held` units
  // keep their places.
  __device__ __forceinline__ void multiply_item(const PhasedItem& it, int units, int held,
                                                Sums& sum0, Sums& sum1) {
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
        if (k < units - held) release(unit.slot);
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
        if (k < units - held) release(unit.slot);
        promote(sum1, part, __fmul_rn(w1, row0), __fmul_rn(w1, row1));
      }
      unit.next();
    }
  }

  // SwiGLU, then e4m3 per token and 128 columns of h, and beside it the scale that undoes it with
  // the router's weight folded in: into device memory, for whoever takes the down items.
  __device__ __forceinline__ void finish_up(const PhasedItem& it, const Row* rows, Sums& gate,
                                            const Sums& up) const {
    float amax0 = 0, amax1 = 0;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      gate[i] = swiglu(gate[i], up[i]);
      float& amax = i % 4 < 2 ? amax0 : amax1;
      amax = fmaxf(amax, fabsf(gate[i]));
    }
#pragma unroll
    for (int d = 2; d > 0; d /= 2) {
      amax0 = fmaxf(amax0, __shfl_xor_sync(~0u, amax0, d));
      amax1 = fmaxf(amax1, __shfl_xor_sync(~0u, amax1, d));
    }
    if constexpr (!E::kSplitRows) {
      float* shared_max = reinterpret_cast<float*>(s.base + E::layout.row_max);
      if (lane % 4 == 0) {
        shared_max[group * 64 + my_row] = amax0;
        shared_max[group * 64 + my_row + 8] = amax1;
      }
      meet();
      amax0 = fmaxf(amax0, shared_max[(1 - group) * 64 + my_row]);
      amax1 = fmaxf(amax1, shared_max[(1 - group) * 64 + my_row + 8]);
    }
    const float step0 = group_scale(amax0), step1 = group_scale(amax1);
    const float inverse0 = __frcp_rn(step0), inverse1 = __frcp_rn(step1);
    const int staging = slot_before(1) * E::layout.unit;
    const u32 to = s.ring + staging + my_row * kPhasedMiddlePitch + piece_at(0, 0) + lane % 4 * 2;
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
          *reinterpret_cast<const uint4*>(s.base + staging + r * kPhasedMiddlePitch + chunk * 16);
    fence_proxy_async();  // before weights are copied over them
    meet();
  }
  // One of the two arrivals of an up item, after everything that this thread saw written.
  __device__ __forceinline__ void publish(const PhasedItem& it) const {
    if (threadIdx.x % 128 == 0) add_release(a.ready + it.tile, 1);
  }

  // 256 columns of the tile's rows as bf16, added into the output.  held: units whose places are
  // free for them; one too few, where h is a single 128-block, and they go one after the other.
  __device__ __forceinline__ void finish_down(const PhasedItem& it, const Row* rows, int held,
                                              const Sums& sum0, const Sums& sum1) const {
    const int end = min(it.rows, first_row + 64);
    constexpr int kWarps = E::kSplitRows ? 4 : 8;
    const int first = first_row + (E::kSplitRows ? warp : group * 4 + warp);
    const auto stage = [&](u32 staging, int i) {
      const Sums& sum = i ? sum1 : sum0;
      const u32 to = staging +
                     (first_row + warp * 16 + lane / 8 % 2 * 8 + lane % 8) * E::kStagingPitch +
                     (piece_at(1, i) % E::kStagedColumns) * 2 + lane / 16 * 16;
#pragma unroll
      for (int j = 0; j < N / 8; j += 2)
        store_matrix_x4(to + j * 16, pack_bf16(sum[4 * j], sum[4 * j + 1]),
                        pack_bf16(sum[4 * j + 2], sum[4 * j + 3]),
                        pack_bf16(sum[4 * j + 4], sum[4 * j + 5]),
                        pack_bf16(sum[4 * j + 6], sum[4 * j + 7]));
    };
    const auto add = [&](u32 staging, int unit_of_output) {
      const int column = it.column * kFfnUnitCols + unit_of_output * E::kStagedColumns;
      const int bytes = min(E::kStagedColumns, a.hidden - column) * 2;
      if (bytes > 0)
#pragma unroll 1
        for (int r = first + kWarps * lane; r < end; r += kWarps * 32)
          bulk_add_bf16(a.output + static_cast<long long>(rows[r].token) * a.hidden + column,
                        staging + r * E::kStagingPitch, bytes);
      bulk_commit();
    };
    const u32 last = E::weights(s, slot_before(1));
    if (E::kStagedUnits == 1 || held == E::kStagedUnits) {
      const u32 before = E::weights(s, slot_before(E::kStagedUnits));
      stage(before, 0);
      stage(last, 1);
      fence_proxy_async();
      meet();
      add(before, 0);
      if (E::kStagedUnits > 1) add(last, 1);
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        stage(last, i);
        fence_proxy_async();
        meet();
        add(last, i);
        bulk_wait_read();
        meet();
      }
    }
    bulk_wait_read();
  }

  __device__ __forceinline__ void run() {
#pragma unroll 1
    for (;; item.next()) {
      mbarrier_wait(s.item_full(item.slot), item.phase);
      const PhasedItem it = *E::head(s, item.slot);
      if (it.rows == kNoMoreItems) break;
      const int units = (it.down ? a.intermediate : a.hidden) / kScaleGroup;
      const int held = min(units, it.down ? E::kStagedUnits : 1);
      const bool idle = it.rows <= first_row;  // nothing for this warpgroup
      Sums sum0, sum1;
      if (idle) {
        for (int k = 0; k < units; ++k, unit.next()) {
          mbarrier_wait(s.full(unit.slot), unit.phase);
          if (k < units - held) release(unit.slot);
        }
      } else {
#pragma unroll
        for (int i = 0; i < N / 2; ++i) sum0[i] = sum1[i] = 0.0f;
        multiply_item(it, units, held, sum0, sum1);
        mbarrier_wait(s.rows_full(item.slot), item.phase);
      }
      // Both are done with the last units; their places hold what is finished.
      named_barrier(kAllConsumers, 128 * kFfnConsumers);
      if (!idle) {
        const Row* rows = E::rows(s, item.slot);
        if (it.down)
          finish_down(it, rows, held, sum0, sum1);
        else
          finish_up(it, rows, sum0, sum1);
      }
      for (int n = held; n > 0; --n) release(slot_before(n));
      if (!it.down) publish(it);
      __syncwarp();
      if (lane == 0) mbarrier_arrive(s.item_empty(item.slot));
    }
    bulk_wait();
  }
};

}  // namespace ramp
