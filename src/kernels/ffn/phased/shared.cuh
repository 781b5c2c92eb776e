// SPDX-License-Identifier: Apache-2.0
// What the warps of a block of the two-phase `ffn` share: places in shared memory and the item they
// work on.
#pragma once

#include "kernels/ffn/shared.cuh"

namespace ramp {

// A row tile times 128 columns of h (up) or 256 columns of the output and a part of h (down).
struct PhasedItem {
  int down;       // 0: up
  int expert;     // local
  int column;     // 128-block of h, or 256-block of the output
  int rows;       // of the tile, or kNoMoreItems; 0: units to be dropped
  int row0;       // first row, in the order grouped by expert
  int tile;       // index in the list
  short weights;  // kWeightsAgain, kWeightsHalf
  short parts;    // that h is cut into
  short first;    // of its units of 128 columns of d or of h,
  short units;    // and how many
};
static_assert(sizeof(PhasedItem) == kPhasedHeadBytes);
// Whether the copy engine brings an item's rows and their scales, because the rows stand together
// and their scales column by column.
__device__ __forceinline__ bool stands_together(const FfnArgs& a, const PhasedItem& it) {
  return it.down || a.scale_pitch;
}
// Whether the item before, if it is an up item, is published while this one is worked on.  Not
// before a down item, which may wait for it, nor before one of no rows: the cluster's other block
// may have one.
__device__ __forceinline__ bool publishes_meanwhile(const PhasedItem& it) {
  return !it.down && it.rows > 0;
}
// Other items read the same weights; the cluster's two blocks read the same now, and each brings
// half of a unit for both.
enum PhasedWeights { kWeightsAgain = 1, kWeightsHalf = 2 };

struct PhasedMaps {
  const TensorMap *w13, *w2;       // of weights
  const TensorMap *rows, *middle;  // of grouped rows and of those between the projections
};

// Barriers: full, empty, item_full, item_empty, rows_full, written, claim.
struct PhasedShared : BlockShared {
  using BlockShared::BlockShared;

  __device__ u32 full(int s) const { return barriers + s * 8; }
  __device__ u32 empty(int s) const { return full(kFfnMaxStages + s); }
  __device__ u32 item_full(int i) const { return empty(kFfnMaxStages + i); }
  __device__ u32 item_empty(int i) const { return item_full(kFfnItemSlots + i); }
  __device__ u32 rows_full(int i) const { return item_empty(kFfnItemSlots + i); }
  __device__ u32 written() const { return rows_full(kFfnItemSlots); }
  __device__ u32 claim(int i) const { return written() + 8 + i * 8; }
  __device__ u32 claimed(int i) const {  // the claims themselves, an int each
    return claim(kPhasedClaimSlots) + i * 4;
  }
  // Whether the routing is known: the weights' first copies keep their pace until then.
  __device__ volatile int* known() const { return word(claimed(kPhasedClaimSlots)); }
};
static_assert((2 * kFfnMaxStages + 3 * kFfnItemSlots + 1 + kPhasedClaimSlots) * 8 +
                  (kPhasedClaimSlots + 1) * 4 <=
              kFfnBarrierBytes);

// What an entry's scheduling thread alone needs to know: data, so that entries which claim in other
// ways share their code.
struct PhasedClaims {
  int dynamic, grouped;
};

// What a menu is compiled for: the tallest tile and a ring that every entry has, so that all its
// entries share one code.  They differ in the list of tiles and in how they claim.
template <MenuStart kStart>
struct PhasedCode {
  static constexpr int kRows = kStart.rows, kSplit = kStart.any.split, kStages = kStart.ring;
  static constexpr PhasedLayout layout = phased_layout(kRows, kStages);

  __device__ static PhasedItem* head(const PhasedShared& s, int i) {
    return reinterpret_cast<PhasedItem*>(s.base + layout.items + i * layout.item_bytes);
  }
  __device__ static Row* rows(const PhasedShared& s, int i) {
    return reinterpret_cast<Row*>(s.base + layout.items + i * layout.item_bytes + layout.item_rows);
  }
  // Of the item's units, those of the first 128 weight rows of each, then those of the other 128.
  __device__ static int weight_scales_at(int i) {
    return layout.items + i * layout.item_bytes + kPhasedHeadBytes;
  }
  __device__ static float* weight_scales(const PhasedShared& s, int i) {
    return reinterpret_cast<float*>(s.base + weight_scales_at(i));
  }
  __device__ static u32 weights(const PhasedShared& s, int slot) {
    return s.ring + slot * kFfnUnitBytes;
  }
  __device__ static u32 tokens(const PhasedShared& s, int slot) {
    return s.ring + layout.rows + slot * kRows * kScaleGroup;
  }
  __device__ static int row_scales_at(int slot) {
    return layout.scales_x + slot * phased_scales(kRows) * 4;
  }
};

}  // namespace ramp
