// SPDX-License-Identifier: Apache-2.0
// The parts of `ffn` that only the whole layer in one launch has: the choice in every block, the
// cleared output, and rows that are quantised by the block that gathers them.
//
// Every block counts the same ids and evaluates the same costs, so all choose alike without a word
// between them.  They meet in two counters only: `cleared`, which every block raises when its share
// of the output is zero and every consumer waits for before its first addition, and the counter of
// claimed items.  The last block to leave sets both back.  All blocks are resident at once (one an
// SM, and the next launch starts after the last of them has), so the wait ends.
#pragma once

#include "kernels/ffn/shared.cuh"
#include "kernels/prepare/routing.cuh"
#include "kernels/prepare/rows.cuh"

namespace ramp {

// Counts and costs, by the producer warpgroup; everybody derives the choice from the costs.
__device__ __forceinline__ void route(FfnRouting& r, const PrepareArgs& p) {
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int pairs = p.tokens * p.top_k, experts = p.local_experts;
  constexpr int kMine = kWholePairs / 128;
  int id[kMine];
  float gate[kMine];
  PairCounts skipped;
#pragma unroll
  for (int j = 0; j < kMine; ++j) {  // all at once: one latency
    const int i = thread + j * 128;
    id[j] = i < pairs ? load_cg(p.ids + i) : -1;
    gate[j] = i < pairs && p.gates ? load_cg(p.gates + i) : 1.0f;
  }
#pragma unroll
  for (int j = 0; j < kMine; ++j) {
    const int i = thread + j * 128;
    if (i >= pairs) break;
    const int e = local_expert_of(p, id[j], skipped);
    r.expert[i] = e >= 0 ? static_cast<u16>(e) : kNobodys;
    r.gate[i] = gate[j];
    if (e >= 0) atomicAdd(&r.count[e], 1);
  }
  if (blockIdx.x == 0) {
    const int skips[3] = {__reduce_add_sync(~0u, skipped.foreign),
                          __reduce_add_sync(~0u, skipped.padded),
                          __reduce_add_sync(~0u, skipped.invalid)};
    for (int i = 0; i < 3; ++i)
      if (lane == 0 && skips[i]) atomicAdd(&r.skipped[i], skips[i]);
  }
  named_barrier(kRouters, 128);
  for (int entry = warp; entry < p.menu.entries; entry += 4) {
    const float us = evaluate_entry(
        p.menu.entry[entry], experts, lane, [&](int e) { return e < experts ? r.count[e] : 0; },
        [](int, int, int) {});
    if (lane == 0) r.cost[entry] = us;
  }
  named_barrier(kRouters, 128);
}

__device__ __forceinline__ int choice_of(const FfnRouting& r, const PrepareArgs& p) {
  return p.forced >= 0 ? p.forced : cheapest(r.cost, p.menu.entries);
}

// What `prepare` leaves for people to look at; by one warp of one block.
__device__ __forceinline__ void report(const FfnRouting& r, const PrepareArgs& p, int choice) {
  const int lane = threadIdx.x % 32;
  int rows = 0;
  for (int e = lane; e < p.local_experts; e += 32) rows += p.counts[e] = r.count[e];
  rows = __reduce_add_sync(~0u, rows);
  if (lane != 0) return;
  LayerState& s = *p.state;
  s.choice = choice;
  s.rows = rows;
  s.passes += 1;
  s.foreign += r.skipped[0];
  s.padded += r.skipped[1];
  s.invalid += r.skipped[2];
  s.entry_runs[choice] += 1;
}

// Sets this block's share of the output to zero and says so; by the consumers.
__device__ __forceinline__ void clear_output(const PrepareArgs& p) {
  const int thread = threadIdx.x - 128;
  constexpr int kThreads = 128 * kFfnConsumers;
  const int chunks = p.tokens * (p.hidden_size / 8);
  for (int i = blockIdx.x * kThreads + thread; i < chunks; i += gridDim.x * kThreads)
    reinterpret_cast<uint4*>(p.output)[i] = uint4{0, 0, 0, 0};
  named_barrier(kAllConsumers, kThreads);
  if (thread == 0) add_release(&p.state->cleared, 1);
}

// By all threads, when the block's work is done.
__device__ __forceinline__ void leave(LayerState& s) {
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(&s.left, 1) == static_cast<int>(gridDim.x) - 1)
    s.cleared = s.whole_claim = s.left = 0;
}

// ---- tiles, by one warp ------------------------------------------------------------------------

// The claimed row tiles, expert after expert, without the first of those that blocks own; returns
// their number.
template <class E>
__device__ __forceinline__ int list_tiles(FfnRouting& r, int experts, int owned_experts) {
  const int lane = threadIdx.x % 32;
  int claimed = 0;
  for (int e0 = 0; e0 < experts; e0 += 32) {
    const int e = e0 + lane, n = e < experts ? r.count[e] : 0;
    const int mine = ceil_div(n, E::kRows) - (n > 0 && e < owned_experts);
    const int upto = inclusive_scan(mine, lane);
    if (e < experts) r.first[e] = claimed + upto - mine;
    claimed += __shfl_sync(~0u, upto, 31);
  }
  if (lane == 0) r.first[experts] = claimed;
  __syncwarp();
  return claimed;
}

// The expert of a claimed tile.
__device__ __forceinline__ int expert_of_tile(const FfnRouting& r, int experts, int tile) {
  for (int e0 = 0;; e0 += 32) {
    const int e = min(e0 + static_cast<int>(threadIdx.x) % 32, experts - 1);
    const unsigned here = __ballot_sync(~0u, r.first[e] <= tile && tile < r.first[e + 1]);
    if (here) return min(e0 + __ffs(here) - 1, experts - 1);
    if (e0 + 32 >= experts) return 0;  // never: the tile is one of the list
  }
}

// ---- rows, by each gather warp for itself ------------------------------------------------------

// Writes the rows of a tile: those pairs of the expert whose rank is row0 or one of the rows - 1
// behind it.  Several warps may write the same.
__device__ __forceinline__ void find_rows(const FfnRouting& r, const PrepareArgs& p,
                                          const ItemHead& h, Row* rows) {
  const int lane = threadIdx.x % 32, pairs = p.tokens * p.top_k;
  int rank = -h.row0;  // in the tile, of the next pair of this expert
  for (int i0 = 0; i0 < pairs && rank < h.rows; i0 += 32) {
    const int i = i0 + lane;
    const bool mine = i < pairs && r.expert[i] == h.expert;
    const unsigned all = __ballot_sync(~0u, mine);
    const int at = rank + __popc(all & ((1u << lane) - 1));
    if (mine && at >= 0 && at < h.rows) rows[at] = Row{i / p.top_k, r.gate[i]};
    rank += __popc(all);
  }
}

// The two threads that bring weight scales by asynchronous copies arrive for them apart from their
// rows, so a unit's barrier counts them twice.
constexpr int kScaleThreads = 2;

// The up units of an item: rows come as BF16, some units ahead, and are quantised on their way into
// shared memory.  16 lanes a row, six rows at a time.
template <class E, class Cursor>
__device__ __forceinline__ void quantise_up_units(const FfnShared& s, const FfnArgs& a,
                                                  const PrepareArgs& p, const ItemHead& h,
                                                  const Row* rows, Cursor& unit) {
  constexpr int kAtOnce = kFfnGatherThreads / 16, kRounds = ceil_div(E::kRows, kAtOnce);
  // What 88 registers hold.
  constexpr int kInFlight = E::kSplit == 1 ? 6 : 4,
                kAhead = kRounds >= kInFlight ? 1 : kInFlight / kRounds;
  const int thread = threadIdx.x - 32, lane16 = thread % 16;
  const int which = thread - (kFfnGatherThreads - kScaleThreads);
  const int k_blocks = a.hidden / kScaleGroup, h_blocks = a.intermediate / kScaleGroup;
  const int k_begin = E::up_begin(s, a), k_end = E::up_end(s, a);
  const int groups = E::groups(a, h.slice), h_block = h.slice * E::kGroups;
  const float* up_scale = a.scale13 +
                          (static_cast<long long>(h.expert) * 2 * h_blocks + h_block) * k_blocks +
                          static_cast<long long>(max(which, 0)) * h_blocks * k_blocks;
  const int4* hidden = reinterpret_cast<const int4*>(p.hidden);

  int4 x[kAhead][kRounds];
  const auto fetch = [&](int4(&to)[kRounds], int k) {
    if (k >= k_end) return;
#pragma unroll
    for (int i = 0; i < kRounds;
         ++i) {  // the token from shared memory each time: registers are scarce
      const int row = i * kAtOnce + thread / 16;
      if (row < h.rows)
        to[i] =
            load_cg(hidden + (static_cast<u32>(rows[row].token) * static_cast<u32>(a.hidden / 8) +
                              lane16 + k * 16));
    }
  };
  const auto bring_scale = [&](int k, int g) {
    mbarrier_wait(s.empty(unit.slot), unit.phase);
    if (which < 0) return;
    copy_async_4(s.ring + E::layout.scales_w + (unit.slot * 2 + which) * 4,
                 up_scale + static_cast<long long>(g) * k_blocks + k);
    copy_async_arrive(s.full(unit.slot));
  };
#pragma unroll
  for (int j = 0; j < kAhead; ++j) fetch(x[j], k_begin + j);
  for (int k0 = k_begin; k0 < k_end; k0 += kAhead) {
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int k = k0 + j;
      if (k >= k_end) break;
      bring_scale(k, 0);
#pragma unroll
      for (int i = 0; i < kRounds; ++i) {
        const int row = i * kAtOnce + thread / 16;
        const QuantisedEight q = quantise_eight(x[j][i]);
        if (row < h.rows) {
          store_shared_8(s.ring + E::layout.rows + unit.slot * E::kRowBytes + row * kScaleGroup +
                             ((lane16 / 2) ^ (row % 8)) * 16 + lane16 % 2 * 8,
                         q.codes.x, q.codes.y);
          if (lane16 == 0)
            store_shared_4(s.ring + E::layout.scales_x + (unit.slot * E::kRows + row) * 4,
                           __float_as_uint(q.scale));
        }
      }
      mbarrier_arrive(s.full(unit.slot));
      unit.next();
      fetch(x[j], k + kAhead);
      for (int g = 1; g < groups; ++g, unit.next()) {  // the same rows serve all groups
        bring_scale(k, g);
        mbarrier_arrive(s.full(unit.slot));
      }
    }
  }
}

}  // namespace ramp
