// SPDX-License-Identifier: Apache-2.0
// What the warps of an `ffn` block share: places in shared memory, ring cursors, the item they work
// on.
#pragma once

#include "kernels/ffn/config.h"
#include "kernels/hopper/wgmma.cuh"
#include "kernels/prepare/state.h"

namespace ramp {

struct alignas(64) TensorMap {
  u64 opaque[16];
};
struct FfnMaps {
  const TensorMap *w13, *w2;
};

// kOneWarpgroup + 0 and + 1.
enum NamedBarrier { kAllConsumers = 1, kOneWarpgroup = 2, kGatherers = 4 };

// Calls f with the menu's index `choice` as a constant.  One that is out of range (a corrupted
// word) runs the entry at that end of the menu.
template <int kEntries, int kIndex = 0, class F>
__device__ __forceinline__ void with_index(int choice, const F& f) {
  if constexpr (kIndex + 1 < kEntries) {
    if (choice > kIndex) return with_index<kEntries, kIndex + 1>(choice, f);
  }
  f.template operator()<kIndex>();
}

// What everybody in the block needs to know of an item.
struct ItemHead {
  int expert, slice;
  int rows;  // of the tile, or kNoMoreItems
  int row0;  // first row, in the order grouped by expert
};
constexpr int kNoMoreItems = -1;

// Where a block's shared memory begins, the same for every entry.
struct BlockShared {
  u32 ring;      // weight units, on 1,024 bytes
  u32 barriers;  // and claims; what stands here the topology says
  char* base;    // generic address of `ring`
  u32 rank;      // of this block in its cluster

  __device__ BlockShared(char* dynamic_shared, int split) {
    barriers = (smem_u32(dynamic_shared) + 15) & ~15u;
    ring = (barriers + kFfnBarrierBytes + 1023) & ~1023u;
    base = dynamic_shared + (ring - smem_u32(dynamic_shared));
    rank = blockIdx.x % split;
  }
  // An int of those behind the barriers, which lie below the ring: a signed distance.
  __device__ volatile int* word(u32 at) const {
    return reinterpret_cast<volatile int*>(base + static_cast<int>(at - ring));
  }
};

// Addresses in shared memory, and what a block knows of itself.  Barriers: full, empty, early_full,
// early_empty, item_full, item_empty, rows_full, exchange_full, claim.
struct FfnShared : BlockShared {
  bool owner;  // of a first item, which is `own` but for its rows
  ItemHead own;
  int early;  // units of it that go through registers

  using BlockShared::BlockShared;

  // full(kFfnMaxStages + u): the rows of early unit u, whose weights are in registers.
  __device__ u32 full(int s) const { return barriers + s * 8; }
  __device__ u32 empty(int s) const { return full(kFfnMaxStages + kFfnMaxEarly + s); }
  __device__ u32 early_full(int u) const { return empty(kFfnMaxStages + u); }
  __device__ u32 early_empty(int u) const { return early_full(kFfnMaxEarly + u); }
  __device__ u32 item_full(int i) const { return early_empty(kFfnMaxEarly + i); }
  __device__ u32 item_empty(int i) const { return item_full(kFfnItemSlots + i); }
  __device__ u32 rows_full(int i) const { return item_empty(kFfnItemSlots + i); }
  __device__ u32 exchange_full(int i) const { return rows_full(kFfnItemSlots + i); }
  __device__ u32 claim(int i) const { return exchange_full(kFfnExchanges + i); }
  __device__ u32 claimed(int i) const {  // the items themselves, an int each
    return claim(kFfnClaimSlots) + i * 4;
  }
  // Whether the routing is known: the weights' first copies keep their pace until then.
  __device__ volatile int* known() const { return word(claimed(kFfnClaimSlots)); }
};
static_assert((2 * kFfnMaxStages + 3 * kFfnMaxEarly + 3 * kFfnItemSlots + kFfnExchanges +
               kFfnClaimSlots) *
                      8 +
                  (kFfnClaimSlots + 1) * 4 <=
              kFfnBarrierBytes);

// A place in a ring and the phase that a wait there looks for.
struct RingCursor {
  int depth;
  int slot = 0;
  u32 phase = 0;
  __device__ __forceinline__ void next() {
    if (++slot == depth) slot = 0, phase ^= 1;
  }
  __device__ __forceinline__ void skip(int places) {
    slot += places, phase ^= slot / depth & 1, slot %= depth;
  }
};

// Units [from, to), all but the first kFfnAtOnce at a pace that the memory can hold, so that no
// queue stands before the few words that the routing is made of; once it is known there is no
// reason to wait.
template <class Shared, class Load>
__device__ __forceinline__ void load_paced(const Shared& s, const FfnArgs& a, int from, int to,
                                           const Load& load) {
  u64 next = global_ns() + a.pace_ns;
#pragma unroll 1
  for (int u = from; u < to; ++u, next += a.pace_ns) {
    if (from > 0)
      while (global_ns() < next && !*s.known()) {
      }
    load(u);
  }
}

__device__ __forceinline__ int4 tile_words(const FfnArgs& a, int tile) {
  return load_cg(reinterpret_cast<const int4*>(a.tile + tile));
}
// What tiles [begin, end) hold of a tile's group; from the Tile's words.
struct TileGroup {
  int first, count;
  __device__ __forceinline__ TileGroup(const int4& words, int begin, int end)
      : first(max(words.z, begin)), count(min(words.z + words.w, end) - first) {}
};

// A place in the list of tiles [begin, end), of which each stands for `columns` items: of one tile
// after the other, or (`grouped`) of one column of all of a group's tiles after the other.
struct ListedItem {
  int tile, column;
  int4 words;  // of the Tile
};
__device__ __forceinline__ ListedItem listed_item(const FfnArgs& a, int index, int columns,
                                                  int grouped, int begin = 0,
                                                  int end = 0x7fffffff) {
  ListedItem item{begin + index / columns, index % columns, {}};
  item.words = tile_words(a, item.tile);
  if (grouped) {
    const TileGroup group(item.words, begin, end);
    const int at = index - (group.first - begin) * columns;  // within the group's items
    item.column = at / group.count;
    item.tile = group.first + at % group.count;
    item.words = tile_words(a, item.tile);
  }
  return item;
}

// In a cluster the first block claims for all and sends each what it claimed; by one thread a
// block.
template <int kSplit, int kSlots>
struct ClaimMail {
  RingCursor in{kSlots}, out{kSlots};

  template <class Shared>
  __device__ __forceinline__ void claim(const Shared& s, const FfnArgs& a) {
    if (s.rank > 0) return;
    const u32 claimed = atomicAdd(&a.state->claim, 1);
    for (int r = 0; r < kSplit; ++r)
      store_async_4(map_to_rank(s.claimed(out.slot), r), map_to_rank(s.claim(out.slot), r),
                    claimed);
    out.next();
  }
  template <class Shared>
  __device__ __forceinline__ int receive(const Shared& s) {
    mbarrier_arrive_expect(s.claim(in.slot), 4);
    mbarrier_wait_cluster(s.claim(in.slot), in.phase);
    const int claimed = *s.word(s.claimed(in.slot));
    in.next();
    return claimed;
  }
};

// The numbers of an entry: data for what serves all entries of a menu with the same code, constants
// where there is one entry and for what is compiled for it.
struct FfnNumbers {
  int rows, stages, split, dynamic, grouped;  // FfnConfig
  int rows_q, intermediate, staging, exchange, scales_x, scales_w, scales_mid, items,
      item_bytes;  // FfnLayout

  __device__ ItemHead* head(const FfnShared& s, int i) const {
    return reinterpret_cast<ItemHead*>(s.base + items + i * item_bytes);
  }
  __device__ Row* item_rows(const FfnShared& s, int i) const {
    return reinterpret_cast<Row*>(head(s, i) + 1);
  }
  // Where a unit's rows and scales lie, of 128-block j of d; `place` is a slot, or `stages` + u for
  // early unit u.
  __device__ int rows_at(int place, int j) const {
    return rows_q + (place * split + j) * rows * kScaleGroup;
  }
  __device__ int row_scales_at(int place, int j) const {
    return scales_x + (place * split + j) * rows * 4;
  }
  __device__ int weight_scales_at(int place, int j) const {
    return scales_w + (place * split + j) * 8;
  }
};

// How the entries of a menu cut an item into units: all of them alike.
template <MenuStart kStart>
struct FfnUnits {
  static constexpr int kTallest = kStart.rows;
  static constexpr int kEarly = kStart.early;
  static constexpr int kSplit = kStart.any.split;
  static constexpr int kGroups = ffn_groups(kStart.any);
  static constexpr int kUpBlocks = kSplit;  // 128-blocks of d in an up unit
  static constexpr int kOwnColumns = ffn_own_columns(kStart.any);

  __device__ static int slices(const FfnArgs& a) { return ffn_slices(kStart.any, a.intermediate); }
  // This block's 256-blocks of the output's columns.
  __device__ static int down_begin(const FfnShared& s, const FfnArgs& a) {
    return ffn_part(ceil_div(a.hidden, kFfnUnitCols), s.rank, kSplit);
  }
  __device__ static int down_end(const FfnShared& s, const FfnArgs& a) {
    return ffn_part(ceil_div(a.hidden, kFfnUnitCols), s.rank + 1, kSplit);
  }
  // 128-blocks of h in a slice; the last slice may be short.
  __device__ static int groups(const FfnArgs& a, int slice) {
    if constexpr (kGroups == 1) return 1;
    return min(kGroups, a.intermediate / kScaleGroup - slice * kGroups);
  }
  // An item's units: `up` of them, then `down`.
  __device__ static int up_units(const FfnArgs& a, int slice) {
    return ffn_up_units(kStart.any, a.hidden) * groups(a, slice);
  }
  __device__ static int down_units(const FfnShared& s, const FfnArgs& a, int slice) {
    return (down_end(s, a) - down_begin(s, a)) * groups(a, slice);
  }
  // Units of its own item that a block asks for before it knows the routing; the first s.early of
  // them go through registers, the others stand in the ring.
  __device__ static int prefilled(const FfnShared& s, const FfnArgs& a) {
    const int slice = s.own.slice;
    return min(a.prefill, up_units(a, slice) + down_units(s, a, slice));
  }
  // Early units of a launch: all that the menu has, or none if the ring alone holds the prefill.
  __device__ static int early_units(const FfnArgs& a) {
    const bool deep = a.prefill > kStart.ring && ffn_up_units(kStart.any, a.hidden) >= kEarly;
    return deep ? kEarly : 0;
  }
};

template <FfnConfig kConfig, MenuStart kStart>
struct FfnEntry : FfnUnits<kStart> {
  using Units = FfnUnits<kStart>;
  static constexpr FfnConfig config = kConfig;
  static constexpr FfnLayout layout = ffn_layout(kConfig, kStart.early);
  static constexpr int kRows = kConfig.rows;
  static constexpr int kRowBytes =
      kRows * kScaleGroup;  // of one 128-column block of the tile's rows

  // One by one: of a whole constant struct the compiler makes a choice between addresses, and
  // loads.
  __device__ static FfnNumbers numbers() {
    FfnNumbers n;
    n.rows = config.rows, n.stages = config.stages, n.split = config.split;
    n.dynamic = config.dynamic, n.grouped = config.grouped;
    n.rows_q = layout.rows, n.intermediate = layout.intermediate, n.staging = layout.staging;
    n.exchange = layout.exchange, n.scales_x = layout.scales_x, n.scales_w = layout.scales_w;
    n.scales_mid = layout.scales_mid, n.items = layout.items, n.item_bytes = layout.item_bytes;
    return n;
  }
};

}  // namespace ramp
