// SPDX-License-Identifier: Apache-2.0
// What the warps of an `ffn` block share: places in shared memory, ring cursors, the item they work
// on.
#pragma once

#include "kernels/ffn/whole.h"
#include "kernels/hopper/wgmma.cuh"

namespace ramp {

struct alignas(64) TensorMap {
  u64 opaque[16];
};

// kOneWarpgroup + 0 and + 1; the last two only where the whole layer is one launch.
enum NamedBarrier { kAllConsumers = 1, kOneWarpgroup = 2, kRouters = 4, kRouted = 5 };

// Addresses in shared memory that hold for every entry.
struct FfnShared {
  u32 ring;             // weight units, on 1,024 bytes
  u32 barriers;         // full, empty, item_full, item_empty, rows_full
  char* base;           // generic address of `ring`
  u32 rank;             // of this block in its cluster
  FfnRouting* routing;  // only where the whole layer is one launch

  __device__ u32 full(int s) const { return barriers + s * 8; }
  __device__ u32 empty(int s) const { return barriers + (kFfnMaxStages + s) * 8; }
  __device__ u32 item_full(int i) const { return barriers + (2 * kFfnMaxStages + i) * 8; }
  __device__ u32 item_empty(int i) const {
    return barriers + (2 * kFfnMaxStages + kFfnItemSlots + i) * 8;
  }
  __device__ u32 rows_full(int i) const {
    return barriers + (2 * kFfnMaxStages + 2 * kFfnItemSlots + i) * 8;
  }
  __device__ u32 sums_full() const {
    return barriers + (2 * kFfnMaxStages + 3 * kFfnItemSlots) * 8;
  }
  __device__ u32 middle_full() const { return sums_full() + 8; }
  __device__ u32 claim(int i) const { return sums_full() + 16 + i * 8; }
  __device__ u32 claimed(int i) const {
    return claim(kFfnClaimSlots) + i * 4;
  }  // the items themselves, an int each
};

// A place in a ring of kDepth and the phase that a wait there looks for.
template <int kDepth>
struct RingCursor {
  int slot = 0;
  u32 phase = 0;
  __device__ __forceinline__ void next() {
    if (++slot == kDepth) slot = 0, phase ^= 1;
  }
};

// What everybody in the block needs to know of an item.
struct ItemHead {
  int expert, slice;
  int rows;  // of the tile, or one of:
  int row0;  // first row, in the order grouped by expert
};
constexpr int kOwnedItem =
    0;  // the block's first item, published before the routing is known: rows = min(n_e, tile);
        // they stand in `head`, and if there are none the units requested so far are dropped
constexpr int kNoMoreItems = -1;

// kIsWhole: the launch is the whole layer, else `prepare` ran before.
template <FfnConfig kConfig, bool kIsWhole>
struct FfnEntry {
  static constexpr bool kWhole = kIsWhole;
  static constexpr FfnConfig config = kConfig;
  static constexpr FfnLayout layout = ffn_layout(kConfig);
  static constexpr int kRows = kConfig.rows;
  static constexpr int kGroups = ffn_groups(kConfig);
  static constexpr int kRowBytes =
      kRows * kScaleGroup;  // of one 128-column block of the tile's rows

  __device__ static ItemHead* head(const FfnShared& s, int i) {
    return reinterpret_cast<ItemHead*>(s.base + layout.items + i * layout.item_bytes);
  }
  __device__ static Row* rows(const FfnShared& s, int i) {
    return reinterpret_cast<Row*>(head(s, i) + 1);
  }
  // Units of its own item that a block asks for before it knows the routing.
  __device__ static int prefilled(const FfnShared& s, const FfnArgs& a, int slice) {
    return min(a.prefill, groups(a, slice) * (up_end(s, a) - up_begin(s, a)));
  }
  // Rows of the tile: for an owned item each thread looks the count up for itself, one latency for
  // all.
  __device__ static int num_rows(const FfnArgs& a, const ItemHead& h) {
    if constexpr (kWhole) return h.rows;  // known before any item is published
    return h.rows == kOwnedItem ? min(load_cg(a.counts + h.expert), kRows) : h.rows;
  }
  static constexpr int kSplit = kConfig.split;
  // This block's blocks of d: 128 columns each of the up projection's input, 256 each of the
  // output.
  __device__ static int up_begin(const FfnShared& s, const FfnArgs& a) {
    return ffn_part(a.hidden / kScaleGroup, s.rank, kSplit);
  }
  __device__ static int up_end(const FfnShared& s, const FfnArgs& a) {
    return ffn_part(a.hidden / kScaleGroup, s.rank + 1, kSplit);
  }
  __device__ static int down_begin(const FfnShared& s, const FfnArgs& a) {
    return ffn_part(ceil_div(a.hidden, kFfnUnitCols), s.rank, kSplit);
  }
  __device__ static int down_end(const FfnShared& s, const FfnArgs& a) {
    return ffn_part(ceil_div(a.hidden, kFfnUnitCols), s.rank + 1, kSplit);
  }
  // 128-blocks of h in a slice; the last slice may be short.
  __device__ static int groups(const FfnArgs& a, int slice) {
    return min(kGroups, a.intermediate / kScaleGroup - slice * kGroups);
  }
};

}  // namespace ramp
