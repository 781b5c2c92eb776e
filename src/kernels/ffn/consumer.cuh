// SPDX-License-Identifier: Apache-2.0
// The consumer warpgroups of `ffn`: multiply, promote, activate, multiply, add into the output.
#pragma once

#include "kernels/ffn/activate.cuh"

namespace ramp {

// acc += part * (weight scale * row scale), the promotion of one 128-deep block.
template <int N>
__device__ __forceinline__ void promote(float (&acc)[N / 2], const float (&part)[N / 2],
                                        float weight_scale, const float (&row_scale)[N / 4]) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i)
    acc[i] = fmaf(part[i], __fmul_rn(weight_scale, row_scale[i / 4 * 2 + i % 2]), acc[i]);
}

// 64 weight rows of 128 columns, in shared memory or in registers.
struct Descriptor {
  u64 first;
  __device__ __forceinline__ u64 operator[](int k) const { return first + k * kDescriptorStepK; }
};
using Fragments = u32[4][4];

// A 64-row atom times the tile over one 128-deep block: four wgmmas of 32.  The tensor core aligns
// what it adds to the largest product and keeps about 14 bits, so a sum gets better the sooner it
// is continued in FP32: into kParts separate results where the registers allow it.
template <int N, int kParts, class Weights>
__device__ __forceinline__ void multiply_block(float (&part)[kParts][N / 2], const Weights& a,
                                               u64 b) {
#pragma unroll
  for (int k = 0; k < 4; ++k)
    wgmma<N>(part[k * kParts / 4], a[k], b + k * kDescriptorStepK, k * kParts % 4 > 0);
}
template <int N, int kParts>
__device__ __forceinline__ void add_parts(float (&part)[kParts][N / 2]) {
#pragma unroll
  for (int p = 1; p < kParts; ++p)
#pragma unroll
    for (int i = 0; i < N / 2; ++i) part[0][i] += part[p][i];
}

// Where a warpgroup's two atoms lie in an up unit: gate rows and up rows of its columns, or of the
// cluster's share of them two 128-blocks of d.
template <int kSplit>
__device__ __forceinline__ u32 up_atom_at(u32 unit, int group, int atom) {
  return unit + (kSplit == 1 ? group * 8192 + atom * 16384 : group * 16384 + atom * 8192);
}

// The first units of a block's own item, which wait in the consumers' registers for their rows.
template <int kUnits>
struct EarlyWeights {
  Fragments unit[kUnits > 0 ? kUnits : 1][2];

  template <int kSplit>
  __device__ __forceinline__ void take(const FfnShared& s) {
    const int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int row = warp * 16 + lane % 16;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      mbarrier_wait(s.early_full(u), 0);
#pragma unroll
      for (int atom = 0; atom < 2; ++atom) {
        const u32 from = up_atom_at<kSplit>(s.ring + u * kFfnUnitBytes, group, atom);
#pragma unroll
        for (int k = 0; k < 4; ++k)
          load_matrix_x4(unit[u][atom][k],
                         from + row * kScaleGroup + (((2 * k + lane / 16) ^ (row % 8)) * 16));
      }
      __syncwarp();
      if (lane == 0) mbarrier_arrive(s.early_empty(u));
    }
  }
};

// A consumer thread, whichever entry runs.
struct ConsumerThread {
  const FfnShared& s;
  const FfnArgs& a;
  RingCursor unit;
  const int group = uniform(threadIdx.x / 128 - 1);  // of the two warpgroups
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  int buffer = 0;  // staging

  __device__ __forceinline__ void release(int slot) const {
    __syncwarp();
    if (lane == 0) mbarrier_arrive(s.empty(slot));
  }
  // The next units of the ring, unused.
  __device__ __forceinline__ void pass(int units) {
#pragma unroll 1
    for (; units > 0; --units, unit.next()) {
      mbarrier_wait(s.full(unit.slot), unit.phase);
      release(unit.slot);
    }
  }
};

// A thread's sums of an item, as many as the menu's tallest tile has; lower ones leave some alone.
// Zero between items: what an item's units give is added.  Clearing them all, and not a tile's own,
// is what tells the compiler that nothing is kept in them while the output is computed.
template <class Units>
struct ItemSums {
  float sum0[Units::kGroups][Units::kTallest / 2], sum1[Units::kGroups][Units::kTallest / 2];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int g = 0; g < Units::kGroups; ++g)
#pragma unroll
      for (int i = 0; i < Units::kTallest / 2; ++i) sum0[g][i] = sum1[g][i] = 0.0f;
  }
};

// What depends on the height of a tile: all that multiplies.
template <class E>
struct Multiplier {
  static constexpr int N = E::kRows;
  using Sums = float[N / 2];
  // Two atoms in flight hide the promotion of one behind the other's multiplication; where the sums
  // of a tile leave no registers for that, one at a time.
  static constexpr bool kTwoInFlight = N * E::kGroups < 80;
  static constexpr int kParts = N * E::kGroups <= 16 ? 4 : N * E::kGroups <= 32 ? 2 : 1;
  ConsumerThread& t;
  const FfnShared& s = t.s;
  const FfnArgs& a = t.a;
  RingCursor& unit = t.unit;
  const int group = t.group, warp = t.warp, lane = t.lane;

  // Two 64-row atoms of weights, a0 and a1, times the tiles b0 and b1 over one 128-deep block; use0
  // and use1 take the products.
  template <class Weights, class Use0, class Use1>
  __device__ __forceinline__ static void multiply_two(const Weights& a0, u64 b0, const Weights& a1,
                                                      u64 b1, const Use0& use0, const Use1& use1) {
    if constexpr (kTwoInFlight) {
      float part0[kParts][N / 2], part1[kParts][N / 2];
      wgmma_fence();
      multiply_block<N>(part0, a0, b0);
      wgmma_commit();
      multiply_block<N>(part1, a1, b1);
      wgmma_commit();
      wgmma_wait<1>();
      add_parts<N>(part0);
      use0(part0[0]);
      wgmma_wait<0>();
      add_parts<N>(part1);
      use1(part1[0]);
    } else {
      multiply_one(a0, b0, use0);
      multiply_one(a1, b1, use1);
    }
  }
  template <class Weights, class Use>
  __device__ __forceinline__ static void multiply_one(const Weights& a, u64 b, const Use& use) {
    float part[1][N / 2];
    wgmma_fence();
    multiply_block<N>(part, a, b);
    wgmma_commit();
    wgmma_wait<0>();
    use(part[0]);
  }

  // The tile's rows of 128-block j of a unit, and their scales.
  struct Tile {
    u64 rows;
    float scale[N / 4];
  };
  __device__ __forceinline__ Tile tile_of(int place, int j) const {
    Tile tile{matrix_descriptor(s.ring + E::numbers().rows_at(place, j)), {}};
    load_row_scale(tile.scale, E::numbers().row_scales_at(place, j));
    return tile;
  }
  __device__ __forceinline__ float2 weight_scales(int place, int j) const {
    return *reinterpret_cast<const float2*>(s.base + E::numbers().weight_scales_at(place, j));
  }

  // An up unit, 128-blocks k and on of d, whose weights are a0 and a1.  Alone: gate into sum0, up
  // into sum1.  Of two blocks' 128 columns: the same, and a warpgroup takes one of the unit's two
  // 128-blocks of d.  Of four blocks': 32 gate rows and 32 up rows are one atom, and a warpgroup
  // takes two of four 128-blocks, one into each sum.
  template <class Weights>
  __device__ __forceinline__ void multiply_up(const Weights& a0, const Weights& a1, int place,
                                              int k, const Tile& alone, Sums& sum0,
                                              Sums& sum1) const {
    const int k_blocks = a.hidden / kScaleGroup;
    const auto into = [&](Sums& sum, float weight_scale, const Tile& tile) {
      return [&sum, weight_scale, &tile](const float(&part)[N / 2]) {
        promote<N>(sum, part, weight_scale, tile.scale);
      };
    };
    if constexpr (E::kSplit == 1) {
      const float2 w = weight_scales(place, 0);
      multiply_two(a0, alone.rows, a1, alone.rows, into(sum0, w.x, alone), into(sum1, w.y, alone));
    } else if constexpr (E::kSplit == 2) {
      if (k + group >= k_blocks) return;
      const float2 w = weight_scales(place, group);
      const Tile tile = tile_of(place, group);
      multiply_two(a0, tile.rows, a1, tile.rows, into(sum0, w.x, tile), into(sum1, w.y, tile));
    } else {
      const int j = group * 2;
      if (k + j >= k_blocks) return;
      const auto scale = [&](int block) {
        const float2 w = weight_scales(place, block);
        return warp < 2 ? w.x : w.y;
      };
      const Tile tile0 = tile_of(place, j);
      if (k + j + 1 < k_blocks) {
        const Tile tile1 = tile_of(place, j + 1);
        multiply_two(a0, tile0.rows, a1, tile1.rows, into(sum0, scale(j), tile0),
                     into(sum1, scale(j + 1), tile1));
      } else {
        multiply_one(a0, tile0.rows, into(sum0, scale(j), tile0));
      }
    }
  }

  __device__ __forceinline__ static Sums& of_tile(float (&sum)[E::kTallest / 2]) {
    return reinterpret_cast<Sums&>(sum);
  }

  // The owned item's units whose weights are in registers: before its others, and out of the loop
  // over items, so that these registers are free in it.
  __device__ __forceinline__ void up_early(const EarlyWeights<E::kEarly>& early,
                                           ItemSums<typename E::Units>& sums) const {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) sums.sum0[0][i] = sums.sum1[0][i] = 0.0f;
#pragma unroll
    for (int u = 0; u < E::kEarly; ++u) {
      const int place = E::config.stages + u;
      mbarrier_wait(s.full(kFfnMaxStages + u), 0);
      fence_proxy_async();  // the gathered rows came by ordinary copies
      multiply_up(early.unit[u][0], early.unit[u][1], place, u * E::kUpBlocks,
                  E::kSplit == 1 ? tile_of(place, 0) : Tile{}, of_tile(sums.sum0[0]),
                  of_tile(sums.sum1[0]));
    }
  }

  // early_units: how many of the item's units have been added already.
  __device__ __forceinline__ void up(ItemSums<typename E::Units>& sums, int groups,
                                     int early_units) {
    const int k_blocks = a.hidden / kScaleGroup;
    for (int k = early_units * E::kUpBlocks; k < k_blocks; k += E::kUpBlocks) {
      int first_slot = 0;
      Tile alone;
#pragma unroll
      for (int g = 0; g < E::kGroups; ++g) {
        if (g < groups) {
          mbarrier_wait(s.full(unit.slot), unit.phase);
          if (g == 0) {
            first_slot = unit.slot;
            fence_proxy_async();
            if constexpr (E::kSplit == 1) alone = tile_of(uniform(unit.slot), 0);
          }
          const int slot = uniform(unit.slot);
          const u32 weights = s.ring + slot * kFfnUnitBytes;
          multiply_up(Descriptor{matrix_descriptor(up_atom_at<E::kSplit>(weights, group, 0))},
                      Descriptor{matrix_descriptor(up_atom_at<E::kSplit>(weights, group, 1))}, slot,
                      k, alone, of_tile(sums.sum0[g]), of_tile(sums.sum1[g]));
          if (g > 0) t.release(unit.slot);
          if (g == groups - 1) t.release(first_slot);  // its rows served all groups
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

  // Output columns d_block * 256 .. + 255 of the tile's rows, in this warpgroup alone.
  __device__ __forceinline__ void down_block(int d_block, int groups, int num_rows,
                                             const Row* rows) {
    const u32 staging =
        s.ring + E::layout.staging + (group * E::config.staging + t.buffer) * N * kFfnStagingPitch;
    if constexpr (E::config.staging == 1) {
      bulk_wait_read();
      named_barrier(kOneWarpgroup + group, 128);
    }
    if constexpr (E::kGroups == 1) {
      mbarrier_wait(s.full(unit.slot), unit.phase);
      const float2 weight_scale =
          *reinterpret_cast<const float2*>(s.base + E::numbers().weight_scales_at(unit.slot, 0));
      const u64 weights = matrix_descriptor(s.ring + uniform(unit.slot) * kFfnUnitBytes);
      const u64 middle = matrix_descriptor(s.ring + E::layout.intermediate);
      float scale[N / 4];
      load_row_scale(scale, E::layout.scales_mid);
      constexpr int kAtOnce = N <= 32 ? 4 : 2;  // of the unit's four atoms of 64 columns
#pragma unroll 1
      for (int first = 0; first < 4; first += kAtOnce) {
        float part[kAtOnce][kParts][N / 2];
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          multiply_block<N>(part[i], Descriptor{weights + (first + i) * (8192 >> 4)}, middle);
          wgmma_commit();
        }
        const auto finish = [&](int i) {
          if (first + i == 3) t.release(unit.slot);
          add_parts<N>(part[i]);
          stage(staging, first + i, part[i][0], first + i < 2 ? weight_scale.x : weight_scale.y,
                scale);
        };
        wgmma_wait<kAtOnce - 1>();
        finish(0);
        wgmma_wait<kAtOnce - 2>();
        finish(1);
        if constexpr (kAtOnce == 4) {
          wgmma_wait<1>();
          finish(2);
          wgmma_wait<0>();
          finish(3);
        }
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
          const float2 weight_scale = *reinterpret_cast<const float2*>(
              s.base + E::numbers().weight_scales_at(unit.slot, 0));
          const u64 weights = matrix_descriptor(s.ring + uniform(unit.slot) * kFfnUnitBytes);
          const u64 middle = matrix_descriptor(s.ring + E::layout.intermediate + g * E::kRowBytes);
          float scale[N / 4];
          load_row_scale(scale, E::layout.scales_mid + g * N * 4);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float w = half ? weight_scale.y : weight_scale.x;
            multiply_two(
                Descriptor{weights + (half * 2) * (8192 >> 4)}, middle,
                Descriptor{weights + (half * 2 + 1) * (8192 >> 4)}, middle,
                [&](const float(&part)[N / 2]) { promote<N>(sum[half * 2], part, w, scale); },
                [&](const float(&part)[N / 2]) { promote<N>(sum[half * 2 + 1], part, w, scale); });
          }
          t.release(unit.slot);
          unit.next();
        }
      }
      float one[N / 4];  // scaled already
#pragma unroll
      for (int i = 0; i < N / 4; ++i) one[i] = 1.0f;
#pragma unroll
      for (int atom = 0; atom < 4; ++atom) stage(staging, atom, sum[atom], 1.0f, one);
    }
    fence_proxy_async();
    if constexpr (E::config.staging == 2) {
      bulk_wait_read();  // the other buffer, which the next unit writes
    }
    named_barrier(kOneWarpgroup + group, 128);
    const int bytes = min(kFfnUnitCols, a.hidden - d_block * kFfnUnitCols) * 2;
#pragma unroll 1
    for (int r = warp + 4 * lane; r < num_rows;
         r += 128)  // a warp issues row after row, so all four share them
      bulk_add_bf16(
          a.output + static_cast<long long>(rows[r].token) * a.hidden + d_block * kFfnUnitCols,
          staging + r * kFfnStagingPitch, bytes);
    bulk_commit();
    if constexpr (E::config.staging == 2) t.buffer ^= 1;
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

  // The item's part of the output, in blocks of 256 columns that the warpgroups take in turn.
  __device__ __forceinline__ void down(int groups, int num_rows, const Row* rows) {
    const int begin = E::down_begin(s, a), end = E::down_end(s, a);
#pragma unroll 1
    for (int d = begin; d < end; ++d) {
      if ((d - begin) % kFfnConsumers == group)
        down_block(d, groups, num_rows, rows);
      else
        t.pass(groups);
    }
  }
};

// By the consumers, item after item: what the entries of a menu do alike is here once, and entry(f)
// runs f for the one that was chosen, whose numbers are e.  own_rows: tokens of the owned item's
// expert.
template <class Units, class Entry>
__device__ __forceinline__ void consume(const FfnShared& s, const FfnArgs& a, const FfnNumbers& e,
                                        const EarlyWeights<Units::kEarly>& early, int own_rows,
                                        const Entry& entry) {
  ConsumerThread t{s, a, RingCursor{e.stages}};
  RingCursor item{kFfnItemSlots}, exchange{kFfnExchanges};
  ItemSums<Units> sums;
  // Of one 128-block of h: nothing is early where an item has more.
  if (s.early > 0 && own_rows > 0)
    entry([&]<class E>() { Multiplier<E>{t}.up_early(early, sums); });
  else
    sums.clear();
#pragma unroll 1
  for (bool own = s.owner;; own = false, item.next()) {
    ItemHead h = s.own;
    h.rows = min(own_rows, e.rows);
    if (!own) {
      mbarrier_wait(s.item_full(item.slot), item.phase);
      h = *e.head(s, item.slot);
      if (h.rows == kNoMoreItems) break;
    }
    const int early_units = own ? s.early : 0;
    if (h.rows == 0) {  // what was requested in vain
      t.pass(Units::prefilled(s, a) - early_units);
    } else {
      const int groups = Units::groups(a, h.slice);
      const Row* rows = e.item_rows(s, item.slot);
      entry([&]<class E>() { Multiplier<E>{t}.up(sums, groups, early_units); });
      mbarrier_wait(s.rows_full(item.slot), item.phase);
      bulk_wait_read();  // the staging buffers carry the sums
      if (Units::kSplit > 1 && threadIdx.x == 128)
        mbarrier_arrive_expect(s.exchange_full(exchange.slot),
                               h.rows * (kScaleGroup - Units::kOwnColumns) * 4);
#pragma unroll
      for (int g = 0; g < Units::kGroups; ++g) {
        // Also: everybody is done with the last intermediate.
        named_barrier(kAllConsumers, 128 * kFfnConsumers);
        put_sums(s, e, sums.sum0[g], t.group * 2);
        put_sums(s, e, sums.sum1[g], t.group * 2 + 1);
        named_barrier(kAllConsumers, 128 * kFfnConsumers);
        activate<Units>(s, e, rows, h.rows, g, exchange);
      }
      sums.clear();
      exchange.next();
      fence_proxy_async();
      named_barrier(kAllConsumers, 128 * kFfnConsumers);
      entry([&]<class E>() { Multiplier<E>{t}.down(groups, h.rows, rows); });
    }
    __syncwarp();
    if (t.lane == 0) mbarrier_arrive(s.item_empty(item.slot));
  }
  bulk_wait();
}

}  // namespace ramp
