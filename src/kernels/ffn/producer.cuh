// SPDX-License-Identifier: Apache-2.0
// The producer warpgroup of `ffn`: one warp schedules items and loads weights, three gather rows
// and scales.
#pragma once

#include "kernels/ffn/whole.cuh"

namespace ramp {

// ---- producer: schedule and weights ------------------------------------------------------------

__device__ __forceinline__ void load_up_unit(const FfnShared& s, const TensorMap* w13, int slot,
                                             int expert, int h_block, int k_block, u64 policy) {
  mbarrier_arrive_expect(s.full(slot), kFfnUnitBytes);
  tma_load_4d(s.ring + slot * kFfnUnitBytes, w13, s.full(slot), k_block * kScaleGroup,
              h_block * kScaleGroup, 0, expert, policy);
}

__device__ __forceinline__ void load_down_unit(const FfnShared& s, const TensorMap* w2, int slot,
                                               int expert, int h_block, int d_block, u64 policy) {
  mbarrier_arrive_expect(s.full(slot), kFfnUnitBytes);
  tma_load_3d(s.ring + slot * kFfnUnitBytes, w2, s.full(slot), h_block * kScaleGroup,
              d_block * kFfnUnitCols, expert, policy);
}

// The first up units of the block's own (expert, slice), before anything is known of the routing.
template <class E>
__device__ __forceinline__ void prefill(const FfnShared& s, const FfnArgs& a, const TensorMap* w13,
                                        int expert, int slice, u64 policy) {
  const int groups = E::groups(a, slice), begin = E::up_begin(s, a),
            count = E::prefilled(s, a, slice);
  const int h_block = slice * E::kGroups, units = groups * (E::up_end(s, a) - begin);
  for (int u = 0; u < count; ++u)
    load_up_unit(s, w13, u, expert, h_block + u % groups, begin + u / groups, policy);
  for (int u = count; u < min(count + a.prefetch, units); ++u)
    tma_prefetch_4d(w13, (begin + u / groups) * kScaleGroup, (h_block + u % groups) * kScaleGroup,
                    0, expert);
}

// Item `index` of those that are claimed: from the list that `prepare` left, or from the counts.
template <class E>
__device__ __forceinline__ ItemHead listed_item(const FfnArgs& a, int index, int slices) {
  int tile = index / slices, slice = index % slices;
  int4 t = load_cg(reinterpret_cast<const int4*>(a.tile + tile));
  if constexpr (E::config.grouped) {
    const int at = index - t.z * slices;  // within the expert's items
    slice = at / t.w;
    tile = t.z + at % t.w;
    t = load_cg(reinterpret_cast<const int4*>(a.tile + tile));
  }
  return {t.x & 0xffff, slice, t.x >> 16, t.y};
}

template <class E>
__device__ __forceinline__ ItemHead routed_item(const FfnRouting& r, const PrepareArgs& p,
                                                int owned_experts, int index, int slices) {
  const int expert = expert_of_tile(r, p.local_experts, index / slices);
  const int first = r.first[expert], at = index - first * slices;  // within the expert's items
  const int tiles = r.first[expert + 1] - first;
  const int slice = E::config.grouped ? at / tiles : at % slices;
  const int tile = (E::config.grouped ? at % tiles : at / slices) + (expert < owned_experts);
  const int row0 = tile * E::kRows;  // of the expert's
  return {expert, slice, min(E::kRows, r.count[expert] - row0), row0};
}

template <class E>
__device__ __forceinline__ void schedule(const FfnShared& s, const FfnArgs& a, const TensorMap* w13,
                                         const TensorMap* w2, u64 policy, const PrepareArgs* p) {
  const int lane = threadIdx.x;
  const int slices = ffn_slices(E::config, a.intermediate);
  const int block = blockIdx.x / E::kSplit,
            blocks = gridDim.x / E::kSplit;  // clusters, if there are any
  const int owned_blocks = a.owned_experts * slices;
  const int k_begin = E::up_begin(s, a), k_end = E::up_end(s, a);
  const int d_begin = E::down_begin(s, a), d_end = E::down_end(s, a);
  int tiles;  // that are claimed
  if constexpr (E::kWhole) {
    tiles = list_tiles<E>(*s.routing, p->local_experts, a.owned_experts);
    if (blockIdx.x == 0 && lane == 0) a.state->tiles = tiles;
  } else {
    tiles = load_cg(&a.state->tiles);
  }
  const int claimable = tiles * slices;
  int* claim_counter = E::kWhole ? &a.state->whole_claim : &a.state->claim;
  RingCursor<E::config.stages> unit;
  RingCursor<kFfnItemSlots> item;
  item.phase = unit.phase = 1;  // the first turn finds every place empty

  int skip = 0;  // units of the item that were requested already
  auto publish = [&](ItemHead h) {
    mbarrier_wait(s.item_empty(item.slot), item.phase);
    if (lane == 0) {
      *E::head(s, item.slot) = h;
      mbarrier_arrive(s.item_full(item.slot));
    }
    item.next();
  };

  // By stride the blocks that own no first item come first.
  int stride_next = (block - owned_blocks + blocks) % blocks;
  int next = 0;  // lane 0's
  // In a cluster the first block claims for all.  While another has not read the claim of item n,
  // the first block's consumers stand in n's activation, where the blocks meet; so n keeps its item
  // slot, and with one more slot the claims of n + 1 and n + 2 are the last that can be sent.
  static_assert(kFfnClaimSlots == kFfnItemSlots + 1);
  RingCursor<kFfnClaimSlots> mail, mail_out;
  auto claim = [&] {
    if constexpr (!E::config.dynamic) {
      next = stride_next;
      stride_next += blocks;
    } else if constexpr (E::kSplit == 1) {
      next = atomicAdd(claim_counter, 1);
    } else if (s.rank == 0) {
      const u32 item_index = atomicAdd(claim_counter, 1);
      for (int r = 0; r < E::kSplit; ++r)
        store_async_4(map_to_rank(s.claimed(mail_out.slot), r),
                      map_to_rank(s.claim(mail_out.slot), r), item_index);
      mail_out.next();
    }
  };
  auto claimed_item = [&]() -> int {
    if constexpr (E::config.dynamic && E::kSplit > 1) {
      if (lane == 0) {
        mbarrier_arrive_expect(s.claim(mail.slot), 4);
        mbarrier_wait_cluster(s.claim(mail.slot), mail.phase);
        // The barriers lie below the ring: a signed distance.
        next = *reinterpret_cast<volatile int*>(s.base +
                                                static_cast<int>(s.claimed(mail.slot) - s.ring));
      }
      mail.next();
    }
    return __shfl_sync(~0u, next, 0);
  };

  // Keeps the ring full with the units of an item.  The next item is claimed before the down phase:
  // late enough that a block does not sit on work that another could start, early enough that the
  // answer is there when the ring asks.
  auto run = [&](const ItemHead& h) {
    const int groups = E::groups(a, h.slice), h_block = h.slice * E::kGroups;
    if (lane == 0) {
      int n = 0;
      for (int k = k_begin; k < k_end; ++k)
        for (int g = 0; g < groups; ++g, ++n, unit.next()) {
          if (n < skip) continue;
          mbarrier_wait(s.empty(unit.slot), unit.phase);
          load_up_unit(s, w13, unit.slot, h.expert, h_block + g, k, policy);
        }
      claim();
      for (int d = d_begin; d < d_end; ++d)
        for (int g = 0; g < groups; ++g, unit.next()) {
          mbarrier_wait(s.empty(unit.slot), unit.phase);
          load_down_unit(s, w2, unit.slot, h.expert, h_block + g, d, policy);
        }
    }
    skip = 0;
    __syncwarp();
  };

  bool claimed = false;
  if (block < owned_blocks) {
    ItemHead h{block / slices, block % slices, kOwnedItem, 0};
    if constexpr (E::kWhole) h.rows = min(s.routing->count[h.expert], E::kRows);
    publish(h);
    if (E::num_rows(a, h) > 0) {
      skip = E::prefilled(s, a, h.slice);
      run(h);
      claimed = true;
    } else {
      for (int u = 0; u < E::prefilled(s, a, h.slice); ++u) unit.next();
    }
  }
  if (!claimed && lane == 0) claim();
  for (;;) {
    const int index = claimed_item();
    if (index >= claimable) break;
    const ItemHead h = E::kWhole ? routed_item<E>(*s.routing, *p, a.owned_experts, index, slices)
                                 : listed_item<E>(a, index, slices);
    publish(h);
    run(h);
  }
  publish(ItemHead{0, 0, kNoMoreItems, 0});
}

// ---- producer: rows and scales -----------------------------------------------------------------

// The up units of an item after `prepare`: quantised rows by asynchronous copies.
template <class E, class Cursor>
__device__ __forceinline__ void copy_up_units(
    const FfnShared& s, const FfnArgs& a, const ItemHead& h, int num_rows,
    u32 (&from)[ceil_div(E::kRowBytes / 16, kFfnGatherThreads)], int token, Cursor& unit) {
  const int thread = threadIdx.x - 32;  // 0 .. 95
  constexpr int kChunks = E::kRowBytes / 16, kMine = ceil_div(kChunks, kFfnGatherThreads);
  constexpr u32 kNothing = ~0u;
  const int k_blocks = a.hidden / kScaleGroup, h_blocks = a.intermediate / kScaleGroup;
  const int k_begin = E::up_begin(s, a), k_end = E::up_end(s, a);
  const int groups = E::groups(a, h.slice), h_block = h.slice * E::kGroups;
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int chunk = thread + i * kFfnGatherThreads;
    from[i] = chunk < kChunks && chunk / 8 < num_rows
                  ? from[i] * static_cast<u32>(a.hidden / 16) + chunk % 8
                  : kNothing;
  }
  const float* from_scale =
      thread < num_rows ? a.rows_scale + static_cast<long long>(token) * k_blocks : nullptr;
  const float* up_scale =
      a.scale13 + (static_cast<long long>(h.expert) * 2 * h_blocks + h_block) * k_blocks;
  const int which = thread - (kFfnGatherThreads - kScaleThreads);

  for (int k = k_begin; k < k_end; ++k)
    for (int g = 0; g < groups; ++g, unit.next()) {
      mbarrier_wait(s.empty(unit.slot), unit.phase);
      if (g == 0) {  // the tile's rows serve all groups of this k
#pragma unroll
        for (int i = 0; i < kMine; ++i) {
          const int chunk = thread + i * kFfnGatherThreads, row = chunk / 8;
          if (from[i] != kNothing)
            copy_async_16(s.ring + E::layout.rows + unit.slot * E::kRowBytes + row * kScaleGroup +
                              ((chunk % 8) ^ (row % 8)) * 16,
                          a.rows_q + (static_cast<u64>(from[i]) + k * 8) * 16);
        }
        if (from_scale)
          copy_async_4(s.ring + E::layout.scales_x + (unit.slot * E::kRows + thread) * 4,
                       from_scale + k);
      }
      if (which >= 0)
        copy_async_4(s.ring + E::layout.scales_w + (unit.slot * 2 + which) * 4,
                     up_scale + (static_cast<long long>(which) * h_blocks + g) * k_blocks + k);
      copy_async_arrive(s.full(unit.slot));
    }
}

// p: the call, where the launch is the whole layer.  The last two threads bring the two weight
// scales of a unit.
template <class E>
__device__ __forceinline__ void gather(const FfnShared& s, const FfnArgs& a, const PrepareArgs* p) {
  const int thread = threadIdx.x - 32;
  constexpr int kMine = ceil_div(E::kRowBytes / 16, kFfnGatherThreads);
  const int k_blocks = a.hidden / kScaleGroup, h_blocks = a.intermediate / kScaleGroup;
  const int d_begin = E::down_begin(s, a), d_end = E::down_end(s, a);
  const int which = thread - (kFfnGatherThreads - kScaleThreads);
  RingCursor<E::config.stages> unit;
  RingCursor<kFfnItemSlots> item;
  unit.phase = 1;
  const auto arrive = [&](int slot) {
    copy_async_arrive(s.full(slot));
    if (E::kWhole && which >= 0) mbarrier_arrive(s.full(slot));
  };

  for (;; item.next()) {
    mbarrier_wait(s.item_full(item.slot), item.phase);
    const ItemHead h = *E::head(s, item.slot);
    if (h.rows == kNoMoreItems) break;
    const int num_rows = E::num_rows(a, h);
    u32 from[kMine];  // the row's token, then its place in units of 16 bytes (32 bits reach 64 GB)
    int2 row{};
    if constexpr (E::kWhole) {
      find_rows(*s.routing, *p, h, E::rows(s, item.slot));
    } else {
      const Row* rows = h.rows == kOwnedItem ? a.head + h.expert * kHeadRows : a.rows + h.row0;
      // Of an owned item the rows are asked for before their number is known: what lies behind
      // them is not used.
#pragma unroll
      for (int i = 0; i < kMine; ++i)
        from[i] = load_cg(&rows[min((thread + i * kFfnGatherThreads) / 8, E::kRows - 1)].token);
      row = load_cg(reinterpret_cast<const int2*>(rows + min(thread, E::kRows - 1)));
      if (thread < E::kRows) *reinterpret_cast<int2*>(E::rows(s, item.slot) + thread) = row;
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(s.rows_full(item.slot));

    if (num_rows == 0) {
      for (int u = 0; u < E::prefilled(s, a, h.slice); ++u, unit.next()) arrive(unit.slot);
    } else {
      if constexpr (E::kWhole)
        quantise_up_units<E>(s, a, *p, h, E::rows(s, item.slot), unit);
      else
        copy_up_units<E>(s, a, h, num_rows, from, row.x, unit);

      const int groups = E::groups(a, h.slice), h_block = h.slice * E::kGroups;
      const float* down_scale =
          a.scale2 + static_cast<long long>(h.expert) * k_blocks * h_blocks + h_block;
      for (int d = d_begin; d < d_end; ++d)
        for (int g = 0; g < groups; ++g, unit.next()) {
          mbarrier_wait(s.empty(unit.slot), unit.phase);
          const int block = d * (kFfnUnitCols / kScaleGroup) +
                            which;  // of 128 output columns; the last may be missing
          if (which >= 0 && block < k_blocks)
            copy_async_4(s.ring + E::layout.scales_w + (unit.slot * 2 + which) * 4,
                         down_scale + static_cast<long long>(block) * h_blocks + g);
          arrive(unit.slot);
        }
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(s.item_empty(item.slot));
  }
}

}  // namespace ramp
