// SPDX-License-Identifier: Apache-2.0
// Algorithm 1 by one block, or by a cluster, for loads whose pairs they keep in registers (runs.h):
// counts the tokens of each local expert, evaluates Eq. 3 for every entry of the menu, picks, and
// groups tokens and tiles.
//
// Ranks inside an expert are stable (a row's place follows its pair's index): a warp owns a
// contiguous run of pairs and counts for itself, and the warps' counts are summed in order.  No
// atomics, so every run groups alike.  The blocks of a cluster own runs one behind the other, tell
// each other their counts through distributed shared memory, and each evaluates the whole menu: to
// ask another would cost more.
#pragma once

#include "kernels/prepare/routing.cuh"
#include "kernels/prepare/runs.h"

namespace ramp {

constexpr int kPrepareThreads = 1024;
constexpr int kPrepareWarps = kPrepareThreads / 32;
// A lane's pairs, of a block that selects alone or in a cluster.
RAMP_HD constexpr int pairs_of_lane(int blocks) {
  return ceil_div(blocks > 1 ? kPairsOfCluster / blocks : kPairsAlone, kPrepareThreads);
}

// Counters of an expert, one a warp; the odd pitch spreads the experts over the banks.
constexpr int kCounterPitch = kPrepareWarps + 1;

// Dynamic shared memory of a selecting block: a barrier's two words (as many for each expert, so
// that the sum is so many bytes an expert), and per expert the warps' counters, their sums over the
// warps before, the count, the base, every entry's tile base, the counts of a cluster's blocks and
// the sum of those before this one.  All kernels get the same, so that an SM's split into L1 and
// shared memory stays what it is.
RAMP_HD constexpr int prepare_shared_bytes(int local_experts, int entries) {
  return (2 + kCounterPitch + kPrepareWarps + 2 + entries + kBlocksOfCluster + 1) * local_experts *
         4;
}

// Adds this warp's pairs to its counters; returns the place among those before it in the warp
// (garbage if expert < 0).
__device__ __forceinline__ int rank_in_warp(int expert, int* counter, int lane) {
  const unsigned same = __match_any_sync(~0u, expert);
  const int before = expert >= 0 ? counter[expert * kCounterPitch] : 0;
  __syncwarp();
  if (expert >= 0 && lane == __ffs(same) - 1)
    counter[expert * kCounterPitch] = before + __popc(same);
  __syncwarp();
  return before + __popc(same & ((1u << lane) - 1));
}

__device__ __forceinline__ void store_row(Row* to, Row row) {
  *reinterpret_cast<int2*>(to) = int2{row.token, __float_as_int(row.gate)};
}

// Row `rank` of an expert whose rows begin at `base`.
__device__ __forceinline__ void place_row(const PrepareArgs& a, int expert, int base, int rank,
                                          Row row) {
  store_row(a.rows + base + rank, row);
  if (rank < kHeadRows) store_row(a.head + expert * kHeadRows + rank, row);
}

// Evaluates an entry by one warp (Eq. 1 and Eq. 3): its predicted us, where each expert's tiles
// would start, and the number of tiles.
template <class CountOf>
__device__ __forceinline__ void evaluate_entry_and_tiles(const PrepareArgs& a,
                                                         const MenuEntry& entry, int lane,
                                                         const CountOf& count_of, int* tile_base,
                                                         float* cost, int* tiles) {
  int claimed = 0;
  const float us =
      evaluate_entry(entry, a.local_experts, lane, count_of, [&](int e, int n, int first_phase) {
        const int mine = first_phase - (n > 0 && e < a.owned_experts);
        const int upto = inclusive_scan(mine, lane);
        if (e < a.local_experts) tile_base[e] = claimed + upto - mine;
        claimed += __shfl_sync(~0u, upto, 31);
      });
  if (lane == 0) {
    *cost = us;
    *tiles = claimed;
  }
}

// By a whole warp: each(e, n_e, rows before it) of every expert; returns the rows of all.
template <class CountOf, class Each>
__device__ __forceinline__ int scan_counts(int experts, int lane, const CountOf& count_of,
                                           const Each& each) {
  int rows = 0;
  for (int e0 = 0; e0 < experts; e0 += 32) {
    const int e = e0 + lane, n = count_of(e);
    const int upto = inclusive_scan(n, lane);
    if (e < experts) each(e, n, rows + upto - n);
    rows += __shfl_sync(~0u, upto, 31);
  }
  return rows;
}

// What the layer reads of the choice, and the counters of it; by one thread.
__device__ __forceinline__ void write_state(const PrepareArgs& a, int choice, int tiles, int rows) {
  LayerState& s = *a.state;
  s.choice = choice;
  s.tiles = tiles;
  s.claim = 0;
  s.rows = rows;
  // Nothing comes back from these: to read and write costs a latency that the layer waits for.
  atomicAdd(&s.passes, 1u);
  atomicAdd(&s.entry_runs[choice], 1u);
}

__device__ __forceinline__ void count_skipped(const PrepareArgs& a, const int* skipped) {
  LayerState& s = *a.state;
  if (skipped[0]) atomicAdd(&s.foreign, static_cast<unsigned>(skipped[0]));
  if (skipped[1]) atomicAdd(&s.padded, static_cast<unsigned>(skipped[1]));
  if (skipped[2]) atomicAdd(&s.invalid, static_cast<unsigned>(skipped[2]));
}

// Adds a warp's skipped pairs to the block's.
__device__ __forceinline__ void sum_skipped(const PairCounts& skipped, int* sum, int lane) {
  const int skips[3] = {__reduce_add_sync(~0u, skipped.foreign),
                        __reduce_add_sync(~0u, skipped.padded),
                        __reduce_add_sync(~0u, skipped.invalid)};
#pragma unroll
  for (int i = 0; i < 3; ++i)
    if (lane == 0 && skips[i]) atomicAdd(&sum[i], skips[i]);
}

// Tiles of the list that are not claimed (state.h).
__device__ __forceinline__ int tiles_ahead(const PrepareArgs& a, int choice) {
  return a.menu.entry[choice].grid.phases > 1 ? a.owned_experts : 0;
}

// The list of tiles, of which `claimed_in_all` are claimed; this is block `part` of the `parts`
// that share the work.
__device__ __forceinline__ void write_tiles(const PrepareArgs& a, int choice, const int* count,
                                            const int* base, const int* tile_base,
                                            int claimed_in_all, int part, int parts) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, experts = a.local_experts;
  const Grid& grid = a.menu.entry[choice].grid;
  const int tile_rows = grid.phase[0].rows;
  const bool phased = grid.phases > 1;
  const int ahead = tiles_ahead(a, choice);
  const auto owned = [&](int e) { return count[e] > 0 && e < a.owned_experts; };
  const auto claimed_of = [&](int e) {  // no need to divide
    return (e + 1 < experts ? tile_base[e + 1] : claimed_in_all) - tile_base[e];
  };
  // Of 32 experts those whose last tile is short, claimed, taken alone and stands behind all that
  // are not.
  const bool any_last = short_tiles_last(grid, ahead + claimed_in_all);
  const auto shorts_of = [&](int e0) {
    if (!any_last) return 0u;
    const int e = e0 + lane, claimed = e < experts ? claimed_of(e) : 0;
    return __ballot_sync(~0u, claimed > 0 && (claimed - 1) % a.together == 0 &&
                                  count[e] - (owned(e) + claimed - 1) * tile_rows <= kShortRows);
  };
  int shorts = 0, shorts_before = 0;
#pragma unroll 1  // here and below: code that is not there need not be fetched
  for (int e0 = 0; e0 < experts; e0 += 32) shorts += __popc(shorts_of(e0));
#pragma unroll 1
  for (int e0 = 0; e0 < experts; e0 += kPrepareWarps) {
    const int e = e0 + warp;
    const unsigned is_short = shorts_of(e0);
    const int before = shorts_before + __popc(is_short & ((1u << warp) - 1));
    shorts_before += __popc(is_short);
    if (e >= experts) continue;
    const int n = count[e], own = owned(e), claimed = claimed_of(e);
    const int together = claimed - (is_short >> warp & 1), first = ahead + tile_base[e] - before;
    const int shares = phased && own + claimed > 1 ? kTileShares : 0;
#pragma unroll 1
    for (int t = part * 32 + lane; t < claimed; t += parts * 32) {
      const int at = (t + own) * tile_rows;
      const bool last = t >= together;
      const int to = last ? ahead + claimed_in_all - shorts + before : first + t;
      a.tile[to] = Tile{e | min(tile_rows, n - at) << 16 | shares, base[e] + at, last ? to : first,
                        last ? 1 : together};
      if (phased) a.ready[to] = 0;
    }
    if (e < ahead && part == 0 && lane == 0) {
      a.tile[e] = Tile{e | min(tile_rows, n) << 16 | shares, base[e], e, 1};
      a.ready[e] = 0;
    }
  }
}
static_assert(kPrepareWarps == 32);

// The path of a small load is a chain of latencies, so what does not depend on the routing is
// fetched and divided before the wait, and the router's weights come with the ids although they are
// needed last.
// Block `block` of kBlocks, which are a cluster if there are several.  kTells: the launch's other
// blocks wait for the pairs' places.
template <int kBlocks, bool kTells = false>
__device__ __forceinline__ void select(const PrepareArgs& a, int block, int* shared) {
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int experts = a.local_experts;
  const u32 all_told = smem_u32(shared);                 // a cluster's barrier, two words
  int* counters = shared + 2;                            // [experts][kCounterPitch]
  int* before = counters + kCounterPitch * experts;      // [experts][warps]
  int* count = before + kPrepareWarps * experts;         // [experts]
  int* base = count + experts;                           // [experts]
  int* tile_base = base + experts;                       // [entries][experts]
  int* told = tile_base + a.menu.entries * experts;      // [blocks][experts] their counts
  int* rows_before = told + kBlocksOfCluster * experts;  // [experts] of the blocks before
  __shared__ float cost[kMaxMenu];
  __shared__ int tiles[kMaxMenu];
  __shared__ int total;
  __shared__ int skipped_sum[3];

  constexpr int kMine = pairs_of_lane(kBlocks);
  const int pairs = a.tokens * a.top_k;
  const int run = round_up(ceil_div(pairs, kPrepareWarps * kBlocks), 32);  // pairs of a warp
  const int begin = (block * kPrepareWarps + warp) * run;
  const int rounds = ceil_div(max(0, min(run, pairs - begin)), 32);  // that have a pair
  // Whoever has something to do beside its pairs: the last warps, which have none if they are few.
  const int first_helper = kPrepareWarps - 1 - a.menu.entries;
  const MenuEntry entry = a.menu.entry[max(0, min(warp - first_helper, a.menu.entries - 1))];
  int token[kMine];
#pragma unroll
  for (int r = 0; r < kMine; ++r) token[r] = computed((begin + r * 32 + lane) / a.top_k);

  for (int i = tid; i < kCounterPitch * experts; i += kPrepareThreads) counters[i] = 0;
  if (tid < 3) skipped_sum[tid] = 0;
  if constexpr (kBlocks > 1) {
    if (tid == 0) {
      mbarrier_init(all_told, 1);
      fence_mbarrier_init();
      mbarrier_arrive_expect(all_told, kBlocks * experts * 4);
    }
    cluster_sync();  // nobody tells a block that has not started
  } else {
    __syncthreads();
  }
  wait_for_dependencies();

  int expert[kMine], rank[kMine] = {};
  float gate[kMine];
  int* counter = counters + warp;
  PairCounts skipped;
#pragma unroll
  for (int r = 0; r < kMine; ++r) {
    const int i = begin + r * 32 + lane;
    expert[r] = r < rounds ? local_expert(a, i, pairs, skipped) : -1;
    gate[r] = r < rounds && i < pairs && a.gates ? load_cg(a.gates + i) : 1.0f;
  }
#pragma unroll
  for (int r = 0; r < kMine; ++r)
    if (r < rounds) rank[r] = rank_in_warp(expert[r], counter, lane);
  __syncthreads();

  const auto sum_of_warps = [&](int e) {  // of those that have pairs
    int n = 0;
#pragma unroll 1
    for (int w = 0; w < kPrepareWarps && (block * kPrepareWarps + w) * run < pairs; w += 8)
#pragma unroll
      for (int i = 0; i < 8; ++i) n += counters[e * kCounterPitch + w + i];
    return n;
  };
  if constexpr (kBlocks > 1) {
    for (int i = tid; i < kBlocks * experts; i += kPrepareThreads) {
      const int e = i % experts, to = i / experts;
      store_async_4(map_to_rank(smem_u32(told + block * experts + e), to),
                    map_to_rank(all_told, to), sum_of_warps(e));
    }
    // Not by a barrier of the cluster: its release is a fence of the whole GPU's memory.
    mbarrier_wait_cluster(all_told, 0);
  }
  // n_e, or 0 beyond the last expert; of one block's pairs it is summed by every warp that needs
  // it, which is faster than to meet once more.
  const auto count_of = [&](int e) {
    int n = 0;
    if (e < experts) {
      if constexpr (kBlocks == 1)
        n = sum_of_warps(e);
      else
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) n += told[b * experts + e];
    }
    return n;
  };
  if (warp == kPrepareWarps - 1) {
    const int rows = scan_counts(experts, lane, count_of, [&](int e, int n, int before_it) {
      base[e] = before_it;
      count[e] = n;
      if (kBlocks == 1 || block == 0) a.counts[e] = n;
      int others = 0;
      for (int b = 0; b < (kBlocks > 1 ? block : 0); ++b) others += told[b * experts + e];
      rows_before[e] = others;
    });
    if (lane == 0) total = rows;
  } else if (warp >= first_helper) {
    const int of = warp - first_helper;
    evaluate_entry_and_tiles(a, entry, lane, count_of, tile_base + of * experts, cost + of,
                             tiles + of);
  } else {  // a lane a warp: how many pairs of the expert the warps before it have
    for (int e = warp; e < experts; e += first_helper) {
      const int n = counters[e * kCounterPitch + lane];
      before[e * kPrepareWarps + lane] = inclusive_scan(n, lane) - n;
    }
  }
  if (rounds > 0) sum_skipped(skipped, skipped_sum, lane);
  __syncthreads();

  const int choice = a.forced >= 0 ? a.forced : cheapest_of(cost, a.menu.entries, lane);
  if (tid == 0) {
    if (kBlocks == 1 || block == 0)
      write_state(a, choice, tiles_ahead(a, choice) + tiles[choice], total);
    count_skipped(a, skipped_sum);
  }

#pragma unroll
  for (int r = 0; r < kMine; ++r) {
    const int e = expert[r], i = begin + r * 32 + lane;
    if (r < rounds && e >= 0)
      rank[r] += (kBlocks > 1 ? rows_before[e] : 0) + before[e * kPrepareWarps + warp];
    if (a.position && r < rounds && i < pairs) a.position[i] = e >= 0 ? base[e] + rank[r] : -1;
  }
  if constexpr (kTells) {
    __syncthreads();
    if (tid == 0) add_release(&a.state->grouped, 1);
  }
#pragma unroll
  for (int r = 0; r < kMine; ++r)
    if (r < rounds && expert[r] >= 0)
      place_row(a, expert[r], base[expert[r]], rank[r], Row{token[r], gate[r]});
  write_tiles(a, choice, count, base, tile_base + choice * experts, tiles[choice], block, kBlocks);
}

}  // namespace ramp
