// SPDX-License-Identifier: Apache-2.0
// `prepare`: everything between the router and the experts in one launch.  Block 0 selects
// (Algorithm 1): counts the tokens of each local expert, evaluates Eq. 3 for every entry of the
// menu, picks, and groups tokens and tiles.  The other blocks quantise the rows and clear the
// output meanwhile; neither needs the other.
//
// Ranks inside an expert are stable (a row's place follows its pair's index): a warp owns a
// contiguous run of pairs and counts for itself, and the warps' counts are summed in order.  No
// atomics, so every run groups alike.
#pragma once

#include "kernels/prepare/routing.cuh"
#include "kernels/prepare/rows.cuh"

namespace ramp {

constexpr int kPrepareThreads = 1024;
constexpr int kPrepareWarps = kPrepareThreads / 32;
constexpr int kPairsInRegisters = 4;  // a lane's, so 4,096 pairs are read once

// Counters of an expert, one a warp; the odd pitch spreads the experts over the banks.
constexpr int kCounterPitch = kPrepareWarps + 1;

// Dynamic shared memory of block 0: per expert the warps' counters, their sums over the warps
// before, the count, the base and every entry's tile base.
RAMP_HD constexpr int prepare_shared_bytes(int local_experts, int entries) {
  return (kCounterPitch + kPrepareWarps + 2 + entries) * local_experts * 4;
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

// Row `rank` of an expert whose rows begin at `base`.
__device__ __forceinline__ void place_row(const PrepareArgs& a, int expert, int base, int rank,
                                          Row row) {
  const int2 packed = {row.token, __float_as_int(row.gate)};
  *reinterpret_cast<int2*>(a.rows + base + rank) = packed;
  if (rank < kHeadRows) *reinterpret_cast<int2*>(a.head + expert * kHeadRows + rank) = packed;
}

// The path of a small load is a chain of latencies, so what does not depend on the routing is
// fetched before the wait, and the router's weights come with the ids although they are needed
// last.
__device__ __forceinline__ void select(const PrepareArgs& a, int* shared) {
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int experts = a.local_experts;
  int* counters = shared;                            // [experts][kCounterPitch]
  int* before = counters + kCounterPitch * experts;  // [experts][warps]
  int* count = before + kPrepareWarps * experts;     // [experts]
  int* base = count + experts;                       // [experts]
  int* tile_base = base + experts;                   // [entries][experts]
  __shared__ float cost[kMaxMenu];
  __shared__ int tiles[kMaxMenu];
  __shared__ int total;
  __shared__ int skipped_sum[3];

  const int pairs = a.ids ? a.tokens * a.top_k : 0;
  const int run = round_up(ceil_div(pairs, kPrepareWarps), 32);  // pairs of a warp
  const int begin = warp * run, rounds = run / 32;
  const bool keep = rounds <= kPairsInRegisters;
  const MenuEntry entry = a.menu.entry[min(warp, a.menu.entries - 1)];

  for (int i = tid; i < kCounterPitch * experts; i += kPrepareThreads) counters[i] = 0;
  if (tid < 3) skipped_sum[tid] = 0;
  __syncthreads();
  wait_for_dependencies();

  int expert[kPairsInRegisters], rank[kPairsInRegisters];
  float gate[kPairsInRegisters];
  int* counter = counters + warp;
  PairCounts skipped;
  if (keep) {
#pragma unroll
    for (int r = 0; r < kPairsInRegisters; ++r) {
      const int i = begin + r * 32 + lane;
      expert[r] = r < rounds ? local_expert(a, i, pairs, skipped) : -1;
      gate[r] = r < rounds && i < pairs && a.gates ? load_cg(a.gates + i) : 1.0f;
    }
#pragma unroll
    for (int r = 0; r < kPairsInRegisters; ++r)
      if (r < rounds) rank[r] = rank_in_warp(expert[r], counter, lane);
  } else {
    for (int r = 0; r < rounds; ++r)
      rank_in_warp(local_expert(a, begin + r * 32 + lane, pairs, skipped), counter, lane);
  }
  const int skips[3] = {__reduce_add_sync(~0u, skipped.foreign),
                        __reduce_add_sync(~0u, skipped.padded),
                        __reduce_add_sync(~0u, skipped.invalid)};
#pragma unroll
  for (int i = 0; i < 3; ++i)
    if (lane == 0 && skips[i]) atomicAdd(&skipped_sum[i], skips[i]);
  __syncthreads();

  // n_e of expert e0 + lane; with pairs it is summed by every warp that needs it, which is faster
  // than to meet once more.  `before` is the sum of the experts in front, kept by the caller: ready
  // counts of more rows than there are tokens are cut there, so that no row lies outside.
  const auto count_of = [&](int e, int& before) {
    int n = 0;
    if (e < experts && a.ready_counts) n = max(0, load_cg(a.ready_counts + e));
    if (e < experts && !a.ready_counts)
#pragma unroll
      for (int w = 0; w < kPrepareWarps; ++w) n += counters[e * kCounterPitch + w];
    if (a.ready_counts) {
      n = min(n, a.tokens);
      const int upto = inclusive_scan(n, lane);
      n = max(0, min(n, a.tokens - (before + upto - n)));
      before += __shfl_sync(~0u, upto, 31);
      before = min(before, a.tokens);
    }
    return n;
  };
  if (warp < a.menu.entries) {  // Eq. 1 and Eq. 3, and where each expert's tiles would start
    int claimed = 0, rows_before = 0;
    const float us = evaluate_entry(
        entry, experts, lane, [&](int e) { return count_of(e, rows_before); },
        [&](int e, int n, int first_phase) {
          const int mine = first_phase - (n > 0 && e < a.owned_experts);
          const int upto = inclusive_scan(mine, lane);
          if (e < experts) tile_base[warp * experts + e] = claimed + upto - mine;
          claimed += __shfl_sync(~0u, upto, 31);
        });
    if (lane == 0) {
      cost[warp] = us;
      tiles[warp] = claimed;
    }
  } else if (warp == kPrepareWarps - 1) {
    int rows = 0, rows_before = 0;
    for (int e0 = 0; e0 < experts; e0 += 32) {
      const int e = e0 + lane, n = count_of(e, rows_before);
      const int upto = inclusive_scan(n, lane);
      if (e < experts) {
        base[e] = rows + upto - n;
        count[e] = a.counts[e] = n;
      }
      rows += __shfl_sync(~0u, upto, 31);
    }
    if (lane == 0) total = rows;
  } else {  // a lane a warp: how many pairs of the expert the warps before it have
    const int helpers = kPrepareWarps - 1 - a.menu.entries;
    for (int e = warp - a.menu.entries; e < experts; e += helpers) {
      const int n = counters[e * kCounterPitch + lane];
      before[e * kPrepareWarps + lane] = inclusive_scan(n, lane) - n;
    }
  }
  __syncthreads();

  const int choice = a.forced >= 0 ? a.forced : cheapest(cost, a.menu.entries);
  if (tid == 0) {
    LayerState& s = *a.state;
    s.choice = choice;
    s.tiles = tiles[choice];
    s.claim = 0;
    s.rows = total;
    // Nothing comes back from these: to read and write costs a latency that the layer waits for.
    atomicAdd(&s.passes, 1u);
    atomicAdd(&s.entry_runs[choice], 1u);
    if (skipped_sum[0]) atomicAdd(&s.foreign, static_cast<unsigned>(skipped_sum[0]));
    if (skipped_sum[1]) atomicAdd(&s.padded, static_cast<unsigned>(skipped_sum[1]));
    if (skipped_sum[2]) atomicAdd(&s.invalid, static_cast<unsigned>(skipped_sum[2]));
  }

  if (a.ready_counts) {
    for (int e = warp; e < experts; e += kPrepareWarps)
      for (int r = lane; r < count[e]; r += 32)
        place_row(a, e, base[e], r,
                  Row{base[e] + r, a.gates ? load_cg(a.gates + base[e] + r) : 1.0f});
  } else if (keep) {
#pragma unroll
    for (int r = 0; r < kPairsInRegisters; ++r) {
      const int e = expert[r];
      if (r < rounds && e >= 0)
        place_row(a, e, base[e], before[e * kPrepareWarps + warp] + rank[r],
                  Row{(begin + r * 32 + lane) / a.top_k, gate[r]});
    }
  } else {
    PairCounts counted;
    for (int e = lane; e < experts; e += 32)
      counter[e * kCounterPitch] = before[e * kPrepareWarps + warp];
    __syncwarp();
    for (int r = 0; r < rounds; ++r) {  // the counters start from the warps before and count on
      const int i = begin + r * 32 + lane, e = local_expert(a, i, pairs, counted);
      const int place = rank_in_warp(e, counter, lane);
      if (e >= 0)
        place_row(a, e, base[e], place, Row{i / a.top_k, a.gates ? load_cg(a.gates + i) : 1.0f});
    }
  }

  const Grid& grid = a.menu.entry[choice].grid;
  const Phase& phase = grid.phase[0];
  for (int e = warp; e < experts; e += kPrepareWarps) {
    const int n = count[e], owned = n > 0 && e < a.owned_experts;
    const int first = tile_base[choice * experts + e], claimed = row_tiles(n, phase) - owned;
    for (int t = lane; t < claimed; t += 32) {
      const int at = (t + owned) * phase.rows;
      a.tile[first + t] = Tile{e | min(phase.rows, n - at) << 16, base[e] + at, first, claimed};
      if (grid.phases > 1) a.ready[first + t] = 0;
    }
  }
}

// Quantises the rows and clears the output of the same columns.  `meanwhile` is done while the
// first row is on its way.
template <class Meanwhile>
__device__ __forceinline__ void quantise_rows(const PrepareArgs& a, int block, int blocks,
                                              const Meanwhile& meanwhile) {
  const int groups = a.hidden_size / kScaleGroup, lane16 = threadIdx.x % 16;
  const long long all = static_cast<long long>(a.tokens) * groups;
  const long long step = static_cast<long long>(blocks) * (kPrepareThreads / 16);
  long long g = static_cast<long long>(block) * (kPrepareThreads / 16) + threadIdx.x / 16;
  const auto load = [&](long long of) {
    return of < all
               ? load_cg(reinterpret_cast<const int4*>(a.hidden + of * kScaleGroup + lane16 * 8))
               : int4{};
  };
  int4 row = load(g);
  meanwhile();
  for (; g - (threadIdx.x / 16) % 2 < all; g += step) {
    // Both halves of a warp stay until the later is done: the shuffles name them all.
    const int4 next = load(g + step);
    const bool mine = g < all;
    const long long at = g * kScaleGroup + lane16 * 8;
    const QuantisedEight q = quantise_eight(row);
    if (mine) {
      *reinterpret_cast<uint2*>(a.rows_q + at) = q.codes;
      if (lane16 == 0) a.rows_scale[g] = q.scale;
      *reinterpret_cast<uint4*>(a.output + at) = uint4{0, 0, 0, 0};
    }
    row = next;
  }
}

}  // namespace ramp

extern "C" __global__ __launch_bounds__(ramp::kPrepareThreads, 1) void ramp_prepare(
    const __grid_constant__ ramp::PrepareArgs a) {
  extern __shared__ int prepare_shared[];
  ramp::launch_dependents();
  if (blockIdx.x == 0) {
    ramp::select(a, prepare_shared);
  } else {
    ramp::wait_for_dependencies();
    ramp::quantise_rows(a, blockIdx.x - 1, gridDim.x - 1, [&] {
      ramp::inspect_tokens(a, (blockIdx.x - 1) * ramp::kPrepareWarps + threadIdx.x / 32,
                           (gridDim.x - 1) * ramp::kPrepareWarps);
    });
  }
}
