// SPDX-License-Identifier: Apache-2.0
// The consumer warpgroups of the two-phase `ffn`.  Tokens are wgmma's A operand (64 rows), weights
// its N, so a thread has two rows: two scales for all its products, and a row's largest element is
// four lanes away.
#pragma once

#include "kernels/ffn/phased/shared.cuh"
#include "kernels/ffn/swiglu.cuh"

namespace ramp {

// How the two warpgroups share a tile: one above the other, with 64 rows and all columns each, or,
// of a tile of up to 64 rows, side by side, with all rows and half of the columns.  A tile of
// either kind gives the same bits.
enum class Share { kAbove, kBeside };

template <class E>
struct PhasedConsumer {
  template <Share kShare>
  static constexpr int kColumns = kShare == Share::kAbove ? 128 : 64;  // of an accumulator
  template <Share kShare>
  using Sums = float[kColumns<kShare> / 2];

  const PhasedShared& s;
  const FfnArgs& a;
  const int group = uniform(threadIdx.x / 128 - 1);
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  RingCursor unit{E::kStages}, item{kFfnItemSlots};
  int unpublished = -1;  // tile
  u32 written = 0;       // phase
  // Whose rows stood in `staging` last, and where: each warp's own (of an up item, of a down item
  // whose warpgroups stand above or beside each other), or rows that two warps wrote.
  enum class Staged { kUp, kTogether, kDownAbove, kDownBeside } staged = Staged::kTogether;

  // First row of the tile that this warpgroup has; this thread has my_row and my_row + 8.
  template <Share kShare>
  __device__ __forceinline__ int first_row() const {
    return kShare == Share::kAbove ? group * 64 : 0;
  }
  template <Share kShare>
  __device__ __forceinline__ int my_row() const {
    return first_row<kShare>() + warp * 16 + lane / 4;
  }
  // Column piece i of a unit's two, from a unit's start.  Up: of gate and of up.  Down: of all 256.
  template <Share kShare>
  __device__ __forceinline__ int piece_at(int down, int i) const {
    if constexpr (kShare == Share::kAbove) return i * 128;
    return down ? group * 128 + i * 64 : i * 128 + group * 64;
  }

  __device__ __forceinline__ void meet() const {
    named_barrier(kAllConsumers, 128 * kFfnConsumers);
  }
  // Before rows are put into `staging`: nobody reads the last ones any more.
  __device__ __forceinline__ void enter_staging(Staged to) {
    if (staged != to || to == Staged::kTogether)
      meet();
    else
      __syncwarp();
    staged = to;
  }

  // Of a cluster both blocks' producers wait, because one's weights land in both.
  __device__ __forceinline__ void release() const {
    __syncwarp();
    if constexpr (E::kSplit == 1) {
      if (lane == 0) mbarrier_arrive(s.empty(unit.slot));
    } else {
      if (lane < E::kSplit) mbarrier_arrive_cluster(map_to_rank(s.empty(unit.slot), lane));
    }
  }

  template <Share kShare>
  __device__ __forceinline__ static void multiply(Sums<kShare>& part, u64 tokens, u64 weights) {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      wgmma<kColumns<kShare>>(part, tokens + k * kDescriptorStepK, weights + k * kDescriptorStepK,
                              k > 0);
    wgmma_commit();
  }
  template <Share kShare>
  __device__ __forceinline__ static void promote(Sums<kShare>& sum, const Sums<kShare>& part,
                                                 float scale0, float scale1) {
#pragma unroll
    for (int i = 0; i < kColumns<kShare> / 2; ++i)
      sum[i] = fmaf(part[i], i % 4 < 2 ? scale0 : scale1, sum[i]);
  }

  // All 128-blocks of the tile's rows: piece 0 into sum0, piece 1 into sum1.
  template <Share kShare>
  __device__ __forceinline__ void multiply_item(const PhasedItem& it, Sums<kShare>& sum0,
                                                Sums<kShare>& sum1) {
    const int down = uniform(it.down);
    const int piece0 = piece_at<kShare>(down, 0), piece1 = piece_at<kShare>(down, 1);
    const int first_scale = stands_together(a, it) ? it.row0 % kScalesTogether : 0;
    const float* weight = E::weight_scales(s, item.slot);
    const float *weight0 = weight + piece0 / kScaleGroup * kPhasedMostUnits,
                *weight1 = weight + piece1 / kScaleGroup * kPhasedMostUnits;
#pragma unroll 1
    for (int k = 0; k < it.units; ++k) {
      mbarrier_wait(s.full(unit.slot), unit.phase);
      fence_proxy_async();  // the rows came by ordinary copies
      const float* scale = reinterpret_cast<const float*>(s.base + E::row_scales_at(unit.slot)) +
                           first_scale + my_row<kShare>();
      const float row0 = scale[0], row1 = scale[8];
      const float w0 = weight0[k], w1 = weight1[k];
      const int slot = uniform(unit.slot);
      const u64 tokens = matrix_descriptor(E::tokens(s, slot) + first_row<kShare>() * kScaleGroup);
      const u64 weights0 = matrix_descriptor(E::weights(s, slot) + piece0 * kScaleGroup),
                weights1 = matrix_descriptor(E::weights(s, slot) + piece1 * kScaleGroup);
      if constexpr (kShare == Share::kBeside) {
        Sums<kShare> part0, part1;
        wgmma_fence();
        multiply<kShare>(part0, tokens, weights0);
        multiply<kShare>(part1, tokens, weights1);
        wgmma_wait<1>();
        promote<kShare>(sum0, part0, __fmul_rn(w0, row0), __fmul_rn(w0, row1));
        wgmma_wait<0>();
        release();
        promote<kShare>(sum1, part1, __fmul_rn(w1, row0), __fmul_rn(w1, row1));
      } else {
        // Registers for one in flight: the other warpgroup fills the tensor cores while this one
        // promotes.
        Sums<kShare> part;
        wgmma_fence();
        multiply<kShare>(part, tokens, weights0);
        wgmma_wait<0>();
        promote<kShare>(sum0, part, __fmul_rn(w0, row0), __fmul_rn(w0, row1));
        wgmma_fence();
        multiply<kShare>(part, tokens, weights1);
        wgmma_wait<0>();
        release();
        promote<kShare>(sum1, part, __fmul_rn(w1, row0), __fmul_rn(w1, row1));
      }
      unit.next();
    }
  }

  // SwiGLU, then e4m3 per token and 128 columns of h, and beside it the scale that undoes it with
  // the router's weight folded in: into device memory, for whoever takes the down items.
  template <Share kShare>
  __device__ __forceinline__ void finish_up(const PhasedItem& it, const Row* rows,
                                            Sums<kShare>& gate, const Sums<kShare>& up) {
    constexpr int N = kColumns<kShare>;
    const int row = my_row<kShare>();
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
    if constexpr (kShare == Share::kBeside) {  // each has half of the columns
      float* shared_max = reinterpret_cast<float*>(s.base + E::layout.row_max);
      if (lane % 4 == 0) {
        shared_max[group * 64 + row] = amax0;
        shared_max[group * 64 + row + 8] = amax1;
      }
      enter_staging(Staged::kTogether);
      amax0 = fmaxf(amax0, shared_max[(1 - group) * 64 + row]);
      amax1 = fmaxf(amax1, shared_max[(1 - group) * 64 + row + 8]);
    } else {
      enter_staging(Staged::kUp);
    }
    const float step0 = group_scale(amax0), step1 = group_scale(amax1);
    const float inverse0 = reciprocal(step0), inverse1 = reciprocal(step1);
    const u32 to = s.ring + E::layout.staging + row * kPhasedMiddlePitch + piece_at<kShare>(0, 0) +
                   lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
      store_shared_2(to + j * 8, pack_e4m3(quantise_divide(gate[4 * j], step0, inverse0),
                                           quantise_divide(gate[4 * j + 1], step0, inverse0)));
      store_shared_2(to + j * 8 + 8 * kPhasedMiddlePitch,
                     pack_e4m3(quantise_divide(gate[4 * j + 2], step1, inverse1),
                               quantise_divide(gate[4 * j + 3], step1, inverse1)));
    }
    if (lane % 4 == 0 && (kShare == Share::kAbove || group == 0)) {
      float* scales = a.middle_scale +
                      it.column * static_cast<long long>(column_pitch(a.most_rows)) + it.row0 + row;
      if (row < it.rows) scales[0] = __fmul_rn(step0, rows[row].gate);
      if (row + 8 < it.rows) scales[8] = __fmul_rn(step1, rows[row + 8].gate);
    }
    // Each warp its own rows, or of those that two warps wrote an eighth; four at once, because
    // eight lanes have a row's 128 bytes.
    constexpr int kRows = kShare == Share::kAbove ? 16 : 8;
    if constexpr (kShare == Share::kAbove)
      __syncwarp();
    else
      meet();
    unsigned char* middle = a.middle_q + static_cast<long long>(it.row0) * a.intermediate +
                            it.column * kScaleGroup + lane % 8 * 16;
    const int first = (group * 4 + warp) * kRows + lane / 8;
#pragma unroll
    for (int r = first; r < first + kRows; r += 4)
      if (r < it.rows)
        *reinterpret_cast<uint4*>(middle + static_cast<long long>(r) * a.intermediate) =
            *reinterpret_cast<const uint4*>(s.base + E::layout.staging + r * kPhasedMiddlePitch +
                                            lane % 8 * 16);
    __syncwarp();
    if (lane == 0) mbarrier_arrive(s.written());
  }

  // 256 columns of the tile's rows as bf16: into the rows' slots, or added into the output.  Each
  // warp its own rows, whole or half of their columns, so nobody waits for another.
  template <Share kShare>
  __device__ __forceinline__ void finish_down(const PhasedItem& it, const Row* rows,
                                              const Sums<kShare>& sum0, const Sums<kShare>& sum1) {
    constexpr bool kBeside = kShare == Share::kBeside;
    enter_staging(kBeside ? Staged::kDownBeside : Staged::kDownAbove);
    const int first = first_row<kShare>() + warp * 16;
    const u32 to = s.ring + E::layout.staging +
                   (first + lane / 8 % 2 * 8 + lane % 8) * kFfnStagingPitch + lane / 16 * 16;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Sums<kShare>& sum = i ? sum1 : sum0;
#pragma unroll
      for (int j = 0; j < kColumns<kShare> / 8; j += 2)
        store_matrix_x4(
            to + (piece_at<kShare>(1, i) + j * 8) * 2, pack_bf16(sum[4 * j], sum[4 * j + 1]),
            pack_bf16(sum[4 * j + 2], sum[4 * j + 3]), pack_bf16(sum[4 * j + 4], sum[4 * j + 5]),
            pack_bf16(sum[4 * j + 6], sum[4 * j + 7]));
    }
    __syncwarp();
    // A row at once, or of two rows this warpgroup's half.
    const int of_half = kBeside ? lane % 16 + group * 16 : lane;
    const int column = it.column * kFfnUnitCols + of_half * 8;
    if (column >= a.hidden) return;
    constexpr int kStep = kBeside ? 2 : 1;
    const int begin = first + (kBeside ? lane / 16 : 0), end = min(it.rows, first + 16);
    const char* from = s.base + E::layout.staging + of_half * 16;
    if (a.slots) {
      unsigned short* slot = a.slots + static_cast<long long>(it.row0) * a.hidden + column;
#pragma unroll 4
      for (int r = begin; r < end; r += kStep)
        *reinterpret_cast<uint4*>(slot + static_cast<long long>(r) * a.hidden) =
            *reinterpret_cast<const uint4*>(from + r * kFfnStagingPitch);
    } else {
#pragma unroll 4
      for (int r = begin; r < end; r += kStep)
        add_bf16_8(a.output + static_cast<long long>(rows[r].token) * a.hidden + column,
                   *reinterpret_cast<const uint4*>(from + r * kFfnStagingPitch));
    }
  }

  template <Share kShare>
  __device__ __forceinline__ void work(const PhasedItem& it) {
    Sums<kShare> sum0, sum1;
#pragma unroll
    for (int i = 0; i < kColumns<kShare> / 2; ++i) sum0[i] = sum1[i] = 0.0f;
    mbarrier_wait(s.rows_full(item.slot), item.phase);
    multiply_item<kShare>(it, sum0, sum1);
    const Row* rows = E::rows(s, item.slot);
    if (it.down)
      finish_down<kShare>(it, rows, sum0, sum1);
    else
      finish_up<kShare>(it, rows, sum0, sum1);
  }

  __device__ __forceinline__ void run() {
#pragma unroll 1
    for (;; item.next()) {
      mbarrier_wait(s.item_full(item.slot), item.phase);
      const PhasedItem it = *E::head(s, item.slot);
      if (unpublished >= 0) {
        if (!publishes_meanwhile(it)) {  // at once: the next item may wait for it
          mbarrier_wait(s.written(), written);
          if (threadIdx.x == 128) add_release(a.ready + unpublished, 1);
        }
        written ^= 1, unpublished = -1;
      }
      if (it.rows == kNoMoreItems) break;
      if (it.rows ==
          0) {  // units without a tile: what was asked for in vain, a cluster's odd place
#pragma unroll 1
        for (int k = 0; k < it.units; ++k, unit.next()) {
          mbarrier_wait(s.full(unit.slot), unit.phase);
          release();
        }
      } else {
        bool above = false;
        if constexpr (E::kRows > 64) {
          above = it.rows > 64;
          if (above) work<Share::kAbove>(it);
        }
        if (!above) work<Share::kBeside>(it);
        if (!it.down) unpublished = it.tile;
      }
      __syncwarp();
      if (lane == 0) mbarrier_arrive(s.item_empty(item.slot));
    }
  }
};

}  // namespace ramp
