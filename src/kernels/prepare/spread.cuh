// SPDX-License-Identifier: Apache-2.0
// Algorithm 1 for loads that one block would take long for, spread over blocks that own a
// contiguous run of pairs each (runs.h).  Two launches, because every block needs every other's
// counts and the end of a launch is the one meeting that asks nothing of memory or of who is
// resident: no counter that has to be right before the first pass, no block that waits for one that
// has not started.  It costs about what a meeting through memory costs.
//
//   count   block b: run_counts[b] and, of each pair of its run, expert and rank inside the run
//   group   all blocks: the counts of all runs, the menu, bases; then rows of its run, and its
//           share of the tiles; block 0 says what was chosen
//
// The ranks are stable like those of one block: warps own contiguous pairs of a run, and the
// counts of warps and of runs are summed in order.
#pragma once

#include "kernels/prepare/arrived.cuh"

namespace ramp {

// A pair's place in `places`: expert | rank in the run << kExpertBits, or -1.
constexpr int kExpertBits = 9;
static_assert(kMaxLocalExperts <= 1 << kExpertBits);
constexpr int kRoundsInFlight = 8;  // a lane's pairs that are loaded together

// Pairs of each warp of each run, whole rounds of 32.
__device__ __forceinline__ int pairs_of_warp(int pairs, int runs) {
  return round_up(ceil_div(pairs, runs * kPrepareWarps), 32);
}

__device__ __forceinline__ void count_run(const PrepareArgs& a, int block, int runs, int* shared) {
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int experts = a.local_experts, pairs = a.tokens * a.top_k;
  const int run = pairs_of_warp(pairs, runs), rounds = run / 32;
  const int begin = (block * kPrepareWarps + warp) * run;
  int* counters = shared;  // [experts][kCounterPitch]
  int* counter = counters + warp;
  __shared__ int skipped_sum[3];

  for (int i = tid; i < kCounterPitch * experts; i += kPrepareThreads) counters[i] = 0;
  if (tid < 3) skipped_sum[tid] = 0;
  __syncthreads();
  wait_for_dependencies();
  // Only now: blocks of `group` that quantise start on this and read what the router's kernel and
  // those before it wrote, without a wait of their own.
  launch_dependents();

  PairCounts skipped;
  const auto rank_rounds = [&](int from, int(&place)[kRoundsInFlight]) {
    int id[kRoundsInFlight];
#pragma unroll
    for (int r = 0; r < kRoundsInFlight; ++r) {
      const int i = begin + (from + r) * 32 + lane;
      id[r] = from + r < rounds && i < pairs ? load_cg(a.ids + i) : 0;
    }
#pragma unroll
    for (int r = 0; r < kRoundsInFlight; ++r) {
      const bool in = from + r < rounds && begin + (from + r) * 32 + lane < pairs;
      place[r] = in ? local_expert_of(a, id[r], skipped) : -1;
    }
#pragma unroll
    for (int r = 0; r < kRoundsInFlight; ++r)
      if (from + r < rounds) {
        const int rank = rank_in_warp(place[r], counter, lane);
        if (place[r] >= 0) place[r] |= rank << kExpertBits;
      }
  };
  const auto each_round = [&](int from, const auto& visit) {
#pragma unroll
    for (int r = 0; r < kRoundsInFlight; ++r) {
      const int i = begin + (from + r) * 32 + lane;
      if (from + r < rounds && i < pairs) visit(i, r);
    }
  };
  int first[kRoundsInFlight];  // stay in registers; later ones wait where they will stand
  rank_rounds(0, first);
  for (int from = kRoundsInFlight; from < rounds; from += kRoundsInFlight) {
    int place[kRoundsInFlight];
    rank_rounds(from, place);
    each_round(from, [&](int i, int r) { a.places[i] = place[r]; });
  }
  sum_skipped(skipped, skipped_sum, lane);
  __syncthreads();

  // The counters become the sums over the warps before.
  for (int e = tid; e < experts; e += kPrepareThreads) {
    int n = 0;
#pragma unroll 8
    for (int w = 0; w < kPrepareWarps; ++w) {
      const int mine = counters[e * kCounterPitch + w];
      counters[e * kCounterPitch + w] = n;
      n += mine;
    }
    a.run_counts[block * experts + e] = n;
  }
  if (tid == kPrepareThreads - 1) count_skipped(a, skipped_sum);
  __syncthreads();

  const auto in_run = [&](int place) {
    if (place < 0) return place;
    const int expert = place & ((1 << kExpertBits) - 1);
    return place + (counter[expert * kCounterPitch] << kExpertBits);
  };
  each_round(0, [&](int i, int r) { a.places[i] = in_run(first[r]); });
  for (int from = kRoundsInFlight; from < rounds; from += kRoundsInFlight) {
    int place[kRoundsInFlight];
    each_round(from, [&](int i, int r) { place[r] = load_cg(a.places + i); });
    each_round(from, [&](int i, int r) { a.places[i] = in_run(place[r]); });
  }
}

// The counts of all runs and of those before `block`, into arrays of zeros.  A warp sums 32
// experts over some of the runs.
__device__ __forceinline__ void sum_runs(const PrepareArgs& a, int block, int runs, int* total,
                                         int* before) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, experts = a.local_experts;
  const int chunks = ceil_div(experts, 32), shares = kPrepareWarps / chunks;
  const int e = warp % chunks * 32 + lane;
  if (warp >= chunks * shares || e >= experts) return;
  int all = 0, mine = 0;
  for (int from = warp / chunks; from < runs; from += shares * kRoundsInFlight) {
    int n[kRoundsInFlight];
#pragma unroll
    for (int r = 0; r < kRoundsInFlight; ++r) {
      const int s = from + r * shares;
      n[r] = s < runs ? load_cg(a.run_counts + s * experts + e) : 0;
    }
#pragma unroll
    for (int r = 0; r < kRoundsInFlight; ++r) {
      all += n[r];
      mine += from + r * shares < block ? n[r] : 0;
    }
  }
  atomicAdd(&total[e], all);
  atomicAdd(&before[e], mine);
}

__device__ __forceinline__ void group_run(const PrepareArgs& a, int block, int runs, int* shared) {
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int experts = a.local_experts, pairs = a.ids ? a.tokens * a.top_k : 0;
  int* total = shared;              // [experts] of all runs, not cut yet
  int* before = total + experts;    // [experts] of the runs before
  int* count = before + experts;    // [experts] n_e
  int* base = count + experts;      // [experts]
  int* tile_base = base + experts;  // [entries][experts]
  __shared__ float cost[kMaxMenu];
  __shared__ int tiles[kMaxMenu];
  __shared__ int all_rows;

  const int run = pairs_of_warp(pairs, runs) * kPrepareWarps;
  const int begin = block * run, end = min(begin + run, pairs);
  const MenuEntry entry = a.menu.entry[min(warp, a.menu.entries - 1)];
  for (int i = tid; i < 2 * experts; i += kPrepareThreads) shared[i] = 0;  // total and before
  __syncthreads();
  wait_for_dependencies();

  int place[kRoundsInFlight];
  float gate[kRoundsInFlight];
  const auto load_pairs = [&](int from) {
#pragma unroll
    for (int r = 0; r < kRoundsInFlight; ++r) {
      const int i = from + r * kPrepareThreads + tid;
      place[r] = i < end ? load_cg(a.places + i) : -1;
      gate[r] = i < end && a.gates ? load_cg(a.gates + i) : 1.0f;
    }
  };
  load_pairs(begin);
  if (a.ready_counts) {
    for (int e = tid; e < experts; e += kPrepareThreads) total[e] = load_cg(a.ready_counts + e);
  } else {
    sum_runs(a, block, runs, total, before);
  }
  __syncthreads();

  const auto given = [&](int e) { return e < experts ? total[e] : 0; };
  const auto kept_of = [&](int n, int& rows_before) {
    return a.ready_counts ? cut_ready_count(a, n, rows_before, lane) : n;
  };
  if (warp < a.menu.entries) {  // by every block: to ask another would cost more
    int rows_before = 0;
    evaluate_entry_and_tiles(
        a, entry, lane, [&](int e) { return kept_of(given(e), rows_before); },
        tile_base + warp * experts, cost + warp, tiles + warp);
  } else if (warp == kPrepareWarps - 1) {
    int rows_before = 0, cut = 0;
    const auto kept = [&](int e) {
      const int said = given(e), n = kept_of(said, rows_before);
      cut += n != said;
      return n;
    };
    const int rows = scan_counts(experts, lane, kept, [&](int e, int n, int before_it) {
      base[e] = row_base(a, e, before_it);
      count[e] = n;
      if (block == 0) a.counts[e] = n;
    });
    if (lane == 0) all_rows = rows;
    if (block == 0 && a.ready_counts) count_cut(a, cut, lane);
  }
  __syncthreads();

  const int choice = a.forced >= 0 ? a.forced : cheapest_of(cost, a.menu.entries, lane);
  if (block == 0 && tid == 0)
    write_state(a, choice, tiles_ahead(a, choice) + tiles[choice], all_rows);
  if (a.ready_counts) place_ready_rows(a, block, runs, all_rows, count, base);
  for (int from = begin; from < end; from += kRoundsInFlight * kPrepareThreads) {
    if (from > begin) load_pairs(from);
#pragma unroll
    for (int r = 0; r < kRoundsInFlight; ++r) {
      const int i = from + r * kPrepareThreads + tid;
      if (i >= end) continue;
      int at = -1;
      if (place[r] >= 0) {
        const int e = place[r] & ((1 << kExpertBits) - 1);
        const int rank = before[e] + (place[r] >> kExpertBits);
        place_row(a, e, base[e], rank, Row{i / a.top_k, gate[r]});
        at = base[e] + rank;
      }
      if (a.position) a.position[i] = at;
    }
  }
  write_tiles(a, choice, count, base, tile_base + choice * experts, tiles[choice], block, runs);
}

}  // namespace ramp
