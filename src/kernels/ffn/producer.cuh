// SPDX-License-Identifier: Apache-2.0
// The producer warpgroup of `ffn`: one warp schedules items and loads weights, three gather rows
// and scales.
#pragma once

#include "kernels/ffn/shared.cuh"

namespace ramp {

// ---- producer: weights -------------------------------------------------------------------------

// Unit n of an item into a slot of the ring: first those of the up projection, 128-block after
// 128-block of d, then those of the down projection.
template <class Units>
__device__ __forceinline__ void load_unit(const FfnShared& s, const FfnArgs& a, const FfnMaps& maps,
                                          int expert, int slice, int n, int slot, u32 full,
                                          u64 policy) {
  const int groups = Units::groups(a, slice), up_units = Units::up_units(a, slice);
  const u32 to = s.ring + slot * kFfnUnitBytes;
  mbarrier_arrive_expect(full, kFfnUnitBytes);
  if (n < up_units) {
    const int h_block = slice * Units::kGroups + n % groups,
              k_block = n / groups * Units::kUpBlocks;
#pragma unroll
    for (int j = 0; j < Units::kUpBlocks; ++j)  // beyond d: zeros
      tma_load_4d(
          to + j * (kFfnUnitBytes / Units::kUpBlocks), maps.w13, full, (k_block + j) * kScaleGroup,
          h_block * kScaleGroup + static_cast<int>(s.rank) * Units::kOwnColumns, 0, expert, policy);
  } else {
    const int m = n - up_units;
    tma_load_3d(to, maps.w2, full, (slice * Units::kGroups + m % groups) * kScaleGroup,
                (Units::down_begin(s, a) + m / groups) * kFfnUnitCols, expert, policy);
  }
}

// Units [from, to) of the block's own item, as far as they are requested before anything is known
// of the routing: the first go through registers, the others follow into the ring.
template <class Units>
__device__ __forceinline__ void prefill(const FfnShared& s, const FfnArgs& a, const FfnMaps& maps,
                                        int from, int to, u64 policy) {
  const int count = min(to, Units::prefilled(s, a));
  load_paced(s, a, from, count, [&](int u) {
    const int behind = u - s.early;
    if (behind >= 0 && behind < s.early) mbarrier_wait(s.early_empty(behind), 0);
    load_unit<Units>(s, a, maps, s.own.expert, s.own.slice, u, behind < 0 ? u : behind,
                     behind < 0 ? s.early_full(u) : s.full(behind), policy);
  });
  if (from > 0)  // the ring's places are free when the last early unit has left
    for (int slot = max(0, count - s.early); slot < s.early; ++slot)
      mbarrier_wait(s.early_empty(slot), 0);
}

// ---- producer: schedule ------------------------------------------------------------------------

// Item `index` of those that are claimed.
__device__ __forceinline__ ItemHead claimed_head(const FfnArgs& a, int index, int slices,
                                                 int grouped) {
  const ListedItem it = listed_item(a, index, slices, grouped);
  return {it.words.x & 0xffff, it.column, it.words.x >> 16, it.words.y};
}

// e: the entry that runs; own_rows: tokens of the owned item's expert.
template <class Units>
__device__ __forceinline__ void schedule(const FfnShared& s, const FfnArgs& a, const FfnMaps& maps,
                                         const FfnNumbers& e, int own_rows, u64 policy) {
  const int lane = threadIdx.x;
  const int slices = Units::slices(a);
  const int block = blockIdx.x / Units::kSplit,
            blocks = gridDim.x / Units::kSplit;  // clusters, if there are any
  const int owned_blocks = a.owned_experts * slices;
  const int claimable = load_cg(&a.state->tiles) * slices;
  RingCursor unit{e.stages}, item{kFfnItemSlots};
  item.phase = unit.phase = 1;  // the first turn finds every place empty

  // By stride the blocks that own no first item come first.
  int stride_next = (block - owned_blocks + blocks) % blocks;
  int next = 0;  // lane 0's
  // While another block of a cluster has not read the claim of item n, the first block's consumers
  // stand in n's activation, where the blocks meet; so n keeps its item slot, and with one more
  // slot the claims of n + 1 and n + 2 are the last that can be sent.
  static_assert(kFfnClaimSlots == kFfnItemSlots + 1);
  ClaimMail<Units::kSplit, kFfnClaimSlots> mail;
  auto claim = [&] {
    if (!e.dynamic) {
      next = stride_next;
      stride_next += blocks;
    } else if constexpr (Units::kSplit == 1) {
      next = atomicAdd(&a.state->claim, 1);
    } else {
      mail.claim(s, a);
    }
  };
  auto claimed_item = [&]() -> int {
    if (Units::kSplit > 1 && e.dynamic && lane == 0) next = mail.receive(s);
    return __shfl_sync(~0u, next, 0);
  };

  int requested = 0;  // units of the item, already
  bool own = false;
  if (s.owner) {  // everybody knows this one
    requested = Units::prefilled(s, a);
#pragma unroll 1  // here and below: code that is not there need not be fetched
    for (int u = s.early; u < requested; ++u) unit.next();
    item.next();
    own = own_rows > 0;
  }
  if (!own && lane == 0) claim();
#pragma unroll 1
  for (;; own = false) {
    ItemHead h = s.own;
    if (!own) {
      const int index = claimed_item();
      h = index < claimable ? claimed_head(a, index, slices, e.grouped)
                            : ItemHead{0, 0, kNoMoreItems, 0};
      requested = 0;
      mbarrier_wait(s.item_empty(item.slot), item.phase);
      if (lane == 0) {
        *e.head(s, item.slot) = h;
        mbarrier_arrive(s.item_full(item.slot));
      }
      if (h.rows == kNoMoreItems) break;
      item.next();
    }
    // The next item is claimed before the down phase: late enough that a block does not sit on work
    // that another could start, early enough that the answer is there when the ring asks.
    if (lane == 0) {
      const int up_units = Units::up_units(a, h.slice),
                units = up_units + Units::down_units(s, a, h.slice);
      const int claim_at = max(requested, up_units);
#pragma unroll 1
      for (int n = requested; n < units; ++n, unit.next()) {
        if (n == claim_at) claim();
        mbarrier_wait(s.empty(unit.slot), unit.phase);
        load_unit<Units>(s, a, maps, h.expert, h.slice, n, unit.slot, s.full(unit.slot), policy);
      }
      if (claim_at == units) claim();
    }
    __syncwarp();
  }
}

// ---- producer: rows and scales -----------------------------------------------------------------

// e: the entry that runs; own_rows: tokens of the owned item's expert; own_row: its row of this
// thread's number.  All 96 threads bring rows; those at the end also the weight scales of a unit,
// two a 128-block.
template <class Units>
__device__ __forceinline__ void gather(const FfnShared& s, const FfnArgs& a, const FfnNumbers& e,
                                       int own_rows, int2 own_row) {
  const int thread = threadIdx.x - 32;
  // A row is kChunks of 16 bytes in a unit; this thread brings the same one of every kStep-th row,
  // kAtOnce of them without looking whether there are more.
  constexpr int kChunks = 8 * Units::kUpBlocks, kStep = kFfnGatherThreads / kChunks,
                kMost = ceil_div(Units::kTallest, kStep), kAtOnce = kMost < 4 ? kMost : 4;
  const int chunk = thread % kChunks, first_row = thread / kChunks;
  const int k_blocks = a.hidden / kScaleGroup, h_blocks = a.intermediate / kScaleGroup;
  const int scale =
      thread - (kFfnGatherThreads - 2 * Units::kUpBlocks);  // of a unit's, or negative
  RingCursor unit{e.stages}, item{kFfnItemSlots};
  unit.phase = 1;

  for (bool own = s.owner;; own = false, item.next()) {
    ItemHead h = s.own;
    h.rows = min(own_rows, e.rows);
    if (!own) {
      mbarrier_wait(s.item_full(item.slot), item.phase);
      h = *e.head(s, item.slot);
      if (h.rows == kNoMoreItems) break;
      own_row = load_cg(reinterpret_cast<const int2*>(a.rows + h.row0 + min(thread, e.rows - 1)));
    }
    const int num_rows = h.rows;
    Row* rows = e.item_rows(s, item.slot);
    if (thread < e.rows) *reinterpret_cast<int2*>(rows + thread) = own_row;
    named_barrier(kGatherers, kFfnGatherThreads);
    if (thread % 32 == 0) mbarrier_arrive(s.rows_full(item.slot));

    const int early = own ? s.early : 0;
    if (num_rows == 0) {  // what was requested in vain; only of an owned item
#pragma unroll 1
      for (int u = early; u < Units::prefilled(s, a); ++u, unit.next())
        copy_async_arrive(s.full(unit.slot));
    } else {
      const int groups = Units::groups(a, h.slice), h_block = h.slice * Units::kGroups;
      const float* row_scale =
          thread < num_rows ? a.rows_scale + static_cast<long long>(own_row.x) * k_blocks : nullptr;
      const float* up_scale =
          a.scale13 + (static_cast<long long>(h.expert) * 2 * h_blocks + h_block) * k_blocks +
          static_cast<long long>(scale & 1) * h_blocks * k_blocks;

      int n = 0;
#pragma unroll 1
      for (int k = 0; k < k_blocks; k += Units::kUpBlocks)
#pragma unroll 1
        for (int g = 0; g < groups; ++g, ++n) {
          const bool in_ring = n >= early;
          const int place = in_ring ? unit.slot : e.stages + n;
          if (in_ring) mbarrier_wait(s.empty(unit.slot), unit.phase);
          if (g == 0) {  // the tile's rows serve all groups of this k
            if (k + chunk / 8 < k_blocks) {
              const u32 to = s.ring + e.rows_at(place, chunk / 8);
              const auto* from = a.rows_q + k * kScaleGroup + chunk * 16;
#pragma unroll 1  // tokens from shared memory: registers are scarce
              for (int begin = first_row; begin < num_rows; begin += kAtOnce * kStep)
#pragma unroll
                for (int i = 0; i < kAtOnce; ++i) {
                  const int row = begin + i * kStep;
                  if (row < num_rows)
                    copy_async_16(to + row * kScaleGroup + ((chunk % 8) ^ (row % 8)) * 16,
                                  from + static_cast<long long>(rows[row].token) * a.hidden);
                }
            }
            if (row_scale)
#pragma unroll
              for (int j = 0; j < Units::kUpBlocks; ++j)
                if (k + j < k_blocks)
                  copy_async_4(s.ring + e.row_scales_at(place, j) + thread * 4, row_scale + k + j);
          }
          if (scale >= 0 && k + scale / 2 < k_blocks)
            copy_async_4(s.ring + e.weight_scales_at(place, scale / 2) + scale % 2 * 4,
                         up_scale + static_cast<long long>(g) * k_blocks + k + scale / 2);
          copy_async_arrive(s.full(in_ring ? unit.slot : kFfnMaxStages + n));
          if (in_ring) unit.next();
        }

      const float* down_scale =
          a.scale2 + static_cast<long long>(h.expert) * k_blocks * h_blocks + h_block;
#pragma unroll 1
      for (int d = Units::down_begin(s, a); d < Units::down_end(s, a); ++d)
#pragma unroll 1
        for (int g = 0; g < groups; ++g, unit.next()) {
          mbarrier_wait(s.empty(unit.slot), unit.phase);
          // Of 128 output columns; the last may be missing.
          const int block = d * (kFfnUnitCols / kScaleGroup) + scale;
          if (scale >= 0 && scale < 2 && block < k_blocks)
            copy_async_4(s.ring + e.weight_scales_at(unit.slot, 0) + scale * 4,
                         down_scale + static_cast<long long>(block) * h_blocks + g);
          copy_async_arrive(s.full(unit.slot));
        }
    }
    __syncwarp();
    if (thread % 32 == 0) mbarrier_arrive(s.item_empty(item.slot));
  }
}

}  // namespace ramp
