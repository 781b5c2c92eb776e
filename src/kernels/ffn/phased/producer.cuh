// SPDX-License-Identifier: Apache-2.0
// The producer warpgroup of the two-phase `ffn`: one thread claims items and loads weights, three
// warps gather rows and scales.
#pragma once

#include "kernels/ffn/phased/shared.cuh"

namespace ramp {

// Unit k of an item's weights.
__device__ __forceinline__ void phased_load(const PhasedShared& s, const PhasedMaps& maps, int slot,
                                            int down, int expert, int column, int k, u64 policy) {
  const u32 full = s.full(slot), to = s.ring + slot * kFfnUnitBytes;
  mbarrier_arrive_expect(full, kFfnUnitBytes);
  if (down)
    tma_load_3d(to, maps.w2, full, k * kScaleGroup, column * kFfnUnitCols, expert, policy);
  else
    tma_load_4d(to, maps.w13, full, k * kScaleGroup, column * kScaleGroup, 0, expert, policy);
}
// The same in a cluster, whose maps bring half a unit: gate or up rows, or 128 output columns.
// Both halves, or, where the other block reads the same, one of them for both.
__device__ __forceinline__ void phased_load_halves(const PhasedShared& s, const PhasedMaps& maps,
                                                   int slot, const PhasedItem& it, int k,
                                                   u64 policy) {
  const u32 full = s.full(slot);
  const bool both = it.weights & kWeightsHalf;
  mbarrier_arrive_expect(full, kFfnUnitBytes);
#pragma unroll 1
  for (int half = both ? s.rank : 0; half < 2; half += both ? 2 : 1) {
    const u32 to = s.ring + slot * kFfnUnitBytes + half * (kFfnUnitBytes / 2);
    const int at = k * kScaleGroup, column = it.column * kFfnUnitCols + half * kScaleGroup;
    if (it.down && both)
      tma_load_3d_both(to, maps.w2, full, at, column, it.expert, policy);
    else if (it.down)
      tma_load_3d(to, maps.w2, full, at, column, it.expert, policy);
    else if (both)
      tma_load_4d_both(to, maps.w13, full, at, it.column * kScaleGroup, half, it.expert, policy);
    else
      tma_load_4d(to, maps.w13, full, at, it.column * kScaleGroup, half, it.expert, policy);
  }
}

// Where an item stands in the list: in which of its three parts, each of which is some of the tiles
// times some columns.
struct PhasedPlace {
  int down, parts;  // that h is cut into
  int begin, end;   // tiles
  int columns;      // for each of them
  int index;        // of the item, from the part's first; negative: there is none

  __device__ __forceinline__ int units(const FfnArgs& a) const {
    return down ? a.intermediate / kScaleGroup / parts : a.hidden / kScaleGroup;
  }
};

// The list of items: those of the up projection first, so that a block which waits for another's
// result waits for an item that somebody works on already; then those of the down projection, the
// last tiles' cut into parts of h (down_parts.h): their columns stand in the list `parts` times,
// one part after the other.  In a cluster every tile has an even number of columns, so that its
// blocks take two items of the same expert.
template <int kSplit>
struct PhasedList {
  int tiles, up_columns, down_columns;
  DownCut cut;

  __device__ __forceinline__ PhasedList(const FfnArgs& a, int of)
      : tiles(of),
        up_columns(a.intermediate / kScaleGroup),
        down_columns(ceil_div(a.hidden, kFfnUnitCols)),
        cut(a.down_parts.of(of)) {}

  __device__ __forceinline__ static int places(int columns) { return round_up(columns, kSplit); }
  __device__ __forceinline__ PhasedPlace place(int index) const {
    const int ups = tiles * places(up_columns), wholes = cut.tile * places(down_columns);
    if (index < ups) return {0, 1, 0, tiles, up_columns, index};
    index -= ups;
    if (index < wholes) return {1, 1, 0, cut.tile, down_columns, index};
    index -= wholes;
    const int columns = down_columns * cut.parts;
    if (index >= (tiles - cut.tile) * places(columns)) index = -1;
    return {1, cut.parts, cut.tile, tiles, columns, index};
  }
};

// What a block asks for before the routing is known.
struct PhasedStart {
  int down, expert, column;
  int first;
  int units;  // 0: nothing
};

// Block b's first item is the b-th; the list begins with the first tiles of the experts that are
// owned, so this is that item if they have rows, and of the down items if no expert has a second
// tile as well.
__device__ __forceinline__ PhasedStart phased_start(const FfnArgs& a) {
  const PhasedPlace p = PhasedList<1>(a, a.owned_experts).place(blockIdx.x);
  if (p.index < 0) return {0, 0, 0, 0, 0};
  const int units = p.units(a), column = p.index % p.columns;
  return {p.down, p.begin + p.index / p.columns, column / p.parts, column % p.parts * units,
          min(p.down ? a.prefill_down : a.prefill, units)};
}

// Units [from, to) of it.
__device__ __forceinline__ void phased_prefill(const PhasedShared& s, const FfnArgs& a,
                                               const PhasedMaps& maps, const PhasedStart& start,
                                               int from, int to) {
  load_paced(s, a, from, min(to, start.units), [&](int u) {
    phased_load(s, maps, u, start.down, start.expert, start.column, start.first + u,
                policy_evict_first());
  });
}

__device__ __forceinline__ PhasedItem no_more_items() { return {0, 0, 0, kNoMoreItems}; }
// Nothing but units to go through.
__device__ __forceinline__ PhasedItem no_rows(int units) {
  return {0, 0, 0, 0, 0, 0, 0, 1, 0, static_cast<short>(units)};
}
__device__ __forceinline__ PhasedItem phased_item(const FfnArgs& a, const PhasedPlace& p, int tile,
                                                  int column, int4 words, int weights) {
  const int units = p.units(a);
  return {p.down,
          words.x & 0xffff,
          column / p.parts,
          words.x >> 16 & 0xff,
          words.y,
          tile,
          static_cast<short>(weights),
          static_cast<short>(p.parts),
          static_cast<short>(column % p.parts * units),
          static_cast<short>(units)};
}

__device__ __forceinline__ PhasedItem single_item(const FfnArgs& a, const PhasedList<1>& list,
                                                  int index, int grouped) {
  const PhasedPlace p = list.place(index);
  if (p.index < 0) return no_more_items();
  const ListedItem it = listed_item(a, p.index, p.columns, grouped, p.begin, p.end);
  return phased_item(a, p, it.tile, it.column, it.words,
                     it.words.x & kTileShares ? kWeightsAgain : 0);
}

// The same in a cluster, whose blocks take items 2n and 2n + 1: two row tiles of an expert times
// the same columns, column after column; and of the last of an odd number of tiles two neighbouring
// columns.  Of an odd number of columns the block that gets one too many goes through its units
// without rows, because the cluster's rings move together.
__device__ __forceinline__ PhasedItem paired_item(const FfnArgs& a, const PhasedList<2>& list,
                                                  int index) {
  const PhasedPlace p = list.place(index);
  if (p.index < 0) return no_more_items();
  const int places = PhasedList<2>::places(p.columns);
  const TileGroup group(tile_words(a, p.begin + p.index / places), p.begin, p.end);
  const int at = p.index - (group.first - p.begin) * places;  // within the group's items
  const int paired = group.count & ~1;                        // tiles
  int tile = group.first + group.count - 1, column = at - paired * places,
      weights = group.count > 1 ? kWeightsAgain : 0;
  if (column < 0) {
    tile = group.first + at % paired, column = at / paired;
    weights = kWeightsHalf | (group.count > 2 ? kWeightsAgain : 0);
    if (column >= p.columns) return no_rows(1);  // neither block has anything
  } else if (column >= p.columns) {
    return no_rows(p.units(a));
  }
  return phased_item(a, p, tile, column, tile_words(a, tile), weights);
}

// By one thread.
template <class E>
__device__ __forceinline__ void phased_schedule(const PhasedShared& s, const FfnArgs& a,
                                                const PhasedMaps& maps, const PhasedStart& start,
                                                const PhasedClaims& claims) {
  const PhasedList<E::kSplit> list(a, load_cg(&a.state->tiles));
  // Weights that one row tile reads leave the L2 first; those that several read stay for them.
  const u64 once = policy_evict_first(), again = policy_evict_normal();
  RingCursor unit{E::kStages}, item{kFfnItemSlots};
  item.phase = unit.phase = 1;  // the first turn finds every place empty

  int next = blockIdx.x;  // the first is dealt out: nothing to wait for
  const int blocks = gridDim.x;
  // In a cluster the first block claims for both, from the first item on: one that finds no place
  // on the GPU then has nothing that others wait for.  A block's claims are ahead of the other's by
  // the units of a ring, an item each at least, and by the two of the items at either end.
  ClaimMail<E::kSplit, kPhasedClaimSlots> mail;
  const auto claim = [&] {
    if constexpr (E::kSplit == 1) {
      next = (claims.dynamic ? atomicAdd(&a.state->claim, 1) : next) + blocks;
    } else {
      mail.claim(s, a);
    }
  };
  const auto next_item = [&] {
    if constexpr (E::kSplit == 1) {
      return single_item(a, list, next, claims.grouped);
    } else {
      return paired_item(a, list, mail.receive(s) * E::kSplit + static_cast<int>(s.rank));
    }
  };
  if constexpr (E::kSplit > 1) claim();
  int requested = start.units;  // of the item, already
#pragma unroll 1
  for (;;) {
    PhasedItem it = next_item();
    const bool dropped =
        requested > 0 && !(it.rows > 0 && it.down == start.down && it.expert == start.expert &&
                           it.column == start.column && it.first == start.first);
    if (dropped) {
      it = no_rows(requested);
    } else if (E::kSplit == 1 && it.rows == 0) {  // the owned tile of an expert without rows
      claim();
      continue;
    }
    mbarrier_wait(s.item_empty(item.slot), item.phase);
    *E::head(s, item.slot) = it;
    mbarrier_arrive(s.item_full(item.slot));
    if (it.rows == kNoMoreItems) break;
    item.next();
    const int claim_at = dropped ? it.units : max(0, it.units - 2);  // late, but in time
    const u64 policy = it.weights & kWeightsAgain ? again : once;
#pragma unroll 1
    for (int k = 0; k < it.units; ++k, unit.next()) {
      if (k == claim_at) claim();
      if (k < requested) continue;
      mbarrier_wait(s.empty(unit.slot), unit.phase);
      if constexpr (E::kSplit == 1)
        phased_load(s, maps, unit.slot, it.down, it.expert, it.column, it.first + k, policy);
      else if (it.rows > 0)
        phased_load_halves(s, maps, unit.slot, it, it.first + k, policy);
      else
        mbarrier_arrive(s.full(unit.slot));
    }
    requested = 0;
  }
}

// The 96 threads behind the first warp: all bring rows and their scales, by copies of 16 and of 4
// bytes a thread; or one asks the copy engine for them, where they stand together and the scales
// column by column: a third less time for a full tile's unit.
template <class E>
struct PhasedGatherer {
  const PhasedShared& s;
  const FfnArgs& a;
  const PhasedMaps& maps;
  const int thread = threadIdx.x - 32, lane = threadIdx.x % 32;
  const int d_blocks = a.hidden / kScaleGroup, h_blocks = a.intermediate / kScaleGroup;
  RingCursor unit{E::kStages, 0, 1}, item{kFfnItemSlots};
  int unpublished = -1;  // tile
  u32 written = 0;       // phase

  __device__ __forceinline__ int blocks(const PhasedItem& it) const {
    return it.down ? h_blocks : d_blocks;
  }

  // Scale i of 2 * it.units of the weights: of gate, then of up of a 128-block of h, or of two
  // 128-blocks of the output; where it comes from, or null behind them and of a block that is
  // missing, and its place.
  __device__ __forceinline__ const float* weight_scale(const PhasedItem& it, int i) const {
    const int second = i >= it.units;
    const int block = it.down ? it.column * 2 + second : second * h_blocks + it.column;
    if (i >= 2 * it.units || it.rows <= 0 || (it.down && block >= d_blocks)) return nullptr;
    const long long row =
        static_cast<long long>(it.expert) * (it.down ? d_blocks : 2 * h_blocks) + block;
    return (it.down ? a.scale2 : a.scale13) + row * blocks(it) + it.first + i - second * it.units;
  }
  __device__ __forceinline__ int weight_scale_place(const PhasedItem& it, int i) const {
    return i >= it.units ? i + kPhasedMostUnits - it.units : i;
  }
  __device__ __forceinline__ int2 row(const PhasedItem& it, int r) const {
    return r < it.rows ? load_cg(reinterpret_cast<const int2*>(a.rows + it.row0 + r)) : int2{};
  }
  __device__ __forceinline__ void put_row(const PhasedItem& it, int r, int2 row) const {
    if (r < it.rows) *reinterpret_cast<int2*>(E::rows(s, item.slot) + r) = row;
  }

  // What consumers want to know of an item beside its units, by the last 64 threads; one latency
  // for all that most items have.
  __device__ __forceinline__ void bring_rows_and_scales(const PhasedItem& it) const {
    constexpr int kThreads = kFfnGatherThreads - 32, kAtOnce = ceil_div(E::kRows, kThreads);
    const int by = thread - 32;
    float* scales = E::weight_scales(s, item.slot);
    const auto load = [&](int i) {
      const float* from = weight_scale(it, i);
      return from ? load_cg(from) : 0.0f;
    };
    const auto put = [&](int i, float scale) {
      if (i < 2 * it.units) scales[weight_scale_place(it, i)] = scale;
    };
    float scale[kAtOnce];
    int2 rows[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      scale[i] = load(by + i * kThreads);
      rows[i] = row(it, by + i * kThreads);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      put(by + i * kThreads, scale[i]);
      put_row(it, by + i * kThreads, rows[i]);
    }
#pragma unroll 1
    for (int i = by + kAtOnce * kThreads; i < 2 * it.units; i += kThreads) put(i, load(i));
  }

  // By one thread: the copy engine brings an item's rows and scales.
  __device__ __forceinline__ void bring_together(const PhasedItem& it) {
    const TensorMap* map = it.down ? maps.middle : maps.rows;
    const long long pitch = it.down ? column_pitch(a.most_rows) : a.scale_pitch;
    const int skipped = it.row0 % kScalesTogether;  // scales in front
    const float* scales = (it.down ? a.middle_scale : a.rows_scale) + (it.row0 - skipped);
    const int scale_bytes = round_up(skipped + it.rows, kScalesTogether) * 4,
              bytes = round_up(it.rows, kPhasedBoxRows) * kScaleGroup + scale_bytes;
#pragma unroll 1
    for (int k = it.first; k < it.first + it.units; ++k, unit.next()) {
      const u32 full = s.full(unit.slot), to = E::tokens(s, unit.slot);
      mbarrier_wait(s.empty(unit.slot), unit.phase);
      if (it.rows > 0) {
        mbarrier_expect(full, bytes);
#pragma unroll 1
        for (int r = 0; r < it.rows; r += kPhasedBoxRows)
          tma_load_2d(to + r * kScaleGroup, map, full, k * kScaleGroup, it.row0 + r);
        bulk_load(s.ring + E::row_scales_at(unit.slot), scales + k * pitch, full, scale_bytes);
      }
      mbarrier_arrive(full, kFfnGatherThreads);
    }
  }

  // By all: row by row, the weights' scales with the first unit's.
  __device__ __forceinline__ void bring_apart(const PhasedItem& it, int publish_at) {
    const u32 scales = s.ring + E::weight_scales_at(item.slot);
#pragma unroll 1
    for (int i = thread; i < 2 * it.units; i += kFfnGatherThreads)
      if (const float* from = weight_scale(it, i))
        copy_async_4(scales + weight_scale_place(it, i) * 4, from);
    // A row of a unit is 8 chunks of 16 bytes; this thread brings the same one of every kStep-th
    // row.  Their places repeat after two of them, but for the rows' own distance.
    constexpr int kChunks = kScaleGroup / 16, kStep = kFfnGatherThreads / kChunks,
                  kMine = ceil_div(E::kRows, kStep),
                  kScales = ceil_div(E::kRows, kFfnGatherThreads);
    static_assert(kStep % 8 == 4);
    const int chunk = thread % kChunks, first_row = thread / kChunks;
    const u32 place[2] = {
        static_cast<u32>(first_row * kScaleGroup + (chunk ^ (first_row % 8)) * 16),
        static_cast<u32>(first_row * kScaleGroup + (chunk ^ ((first_row + kStep) % 8)) * 16)};
    // What a unit needs stands ready: where rows begin, in blocks of 128 columns.
    const Row* rows = E::rows(s, item.slot);
    const auto block_at = [&](int r) -> u32 {
      return r < it.rows ? (a.rows_grouped ? it.row0 + r : rows[r].token) * d_blocks : 0;
    };
    u32 scale_at[kScales], row_at[kMine];
#pragma unroll
    for (int i = 0; i < kScales; ++i) scale_at[i] = block_at(thread + i * kFfnGatherThreads);
#pragma unroll
    for (int i = 0; i < kMine; ++i) row_at[i] = block_at(first_row + i * kStep);
#pragma unroll 1
    for (int k = it.first; k < it.first + it.units; ++k, unit.next()) {
      mbarrier_wait(s.empty(unit.slot), unit.phase);
      if (k == publish_at) mbarrier_wait(s.written(), written);
      const u32 to = E::tokens(s, unit.slot);
#pragma unroll
      for (int i = 0; i < kMine; ++i)
        if (first_row + i * kStep < it.rows)
          copy_async_16(to + place[i % 2] + i * kStep * kScaleGroup,
                        a.rows_q + chunk * 16 + static_cast<u64>(row_at[i] + k) * kScaleGroup);
#pragma unroll
      for (int i = 0; i < kScales; ++i) {
        const int r = thread + i * kFfnGatherThreads;
        if (r < it.rows)
          copy_async_4(s.ring + E::row_scales_at(unit.slot) + r * 4,
                       a.rows_scale + scale_at[i] + k);
      }
      copy_async_arrive(s.full(unit.slot));
      if (k == publish_at) add_release(a.ready + unpublished, 1);
    }
  }

  // The last who waited for a tile leaves its counter as it was, for a launch on the same list.
  __device__ __forceinline__ void leave_counter(const PhasedItem& it) const {
    const int all = h_blocks + ceil_div(a.hidden, kFfnUnitCols) * it.parts;
    if (atomicAdd(a.ready + it.tile, 1) == all - 1) a.ready[it.tile] = 0;
  }

  __device__ __forceinline__ void run() {
#pragma unroll 1
    for (;; item.next()) {
      mbarrier_wait(s.item_full(item.slot), item.phase);
      const PhasedItem it = *E::head(s, item.slot);
      if (it.rows == kNoMoreItems) break;
      // When this thread publishes the item before, which the consumers have left when its ring is
      // filled once more.  To be sure that the whole GPU sees what was written takes long, and an
      // SM is sure of one thing at a time (0.7 us each): consumers that wait for it hold up the
      // tensor cores.
      const bool publishes =
          thread == kFfnGatherThreads - 32 && unpublished >= 0 && publishes_meanwhile(it);
      if (stands_together(a, it)) {
        if (thread >= 32) bring_rows_and_scales(it);
        __syncwarp();
        if (lane == 0) mbarrier_arrive(s.rows_full(item.slot));
        if (thread == 0) {
          if (it.down && it.rows > 0) {
            wait_at_least(a.ready + it.tile, h_blocks);
            fence_proxy_async_global();
          }
          bring_together(it);
          if (it.down && it.rows > 0) leave_counter(it);
        } else {
          unit.skip(it.units);
        }
        if (publishes) {
          mbarrier_wait(s.written(), written);
          add_release(a.ready + unpublished, 1);
        }
      } else {
        for (int r = thread; r < it.rows; r += kFfnGatherThreads) put_row(it, r, row(it, r));
        named_barrier(kGatherers, kFfnGatherThreads);
        if (lane == 0) mbarrier_arrive(s.rows_full(item.slot));
        bring_apart(it, publishes ? min(E::kStages, it.units - 1) : -1);
      }
      if (unpublished >= 0) written ^= 1;
      unpublished = it.rows > 0 && !it.down ? it.tile : -1;
      __syncwarp();
      if (lane == 0) mbarrier_arrive(s.item_empty(item.slot));
    }
  }
};

}  // namespace ramp
