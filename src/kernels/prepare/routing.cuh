// SPDX-License-Identifier: Apache-2.0
// What both ways to choose share: whose a pair is, and what an entry would cost (Eq. 1 and Eq. 3).
#pragma once

#include "kernels/hopper/ptx.cuh"
#include "kernels/prepare/state.h"

namespace ramp {

struct PairCounts {
  int foreign = 0, padded = 0, invalid = 0;
};

// The local expert of an id, or -1.
__device__ __forceinline__ int local_expert_of(const PrepareArgs& a, int id, PairCounts& skipped) {
  if (id == -1) return ++skipped.padded, -1;
  if (id < 0 || id >= a.experts) return ++skipped.invalid, -1;
  const int local = a.expert_map ? a.expert_map[id] : id - a.first_expert;
  if (a.expert_map && local >= a.local_experts) return ++skipped.invalid, -1;
  if (local < 0 || local >= a.local_experts) return ++skipped.foreign, -1;
  return local;
}

// The same of pair i.
__device__ __forceinline__ int local_expert(const PrepareArgs& a, int i, int pairs,
                                            PairCounts& skipped) {
  return i < pairs ? local_expert_of(a, load_cg(a.ids + i), skipped) : -1;
}

__device__ __forceinline__ int inclusive_scan(int v, int lane) {
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const int other = __shfl_up_sync(~0u, v, d);
    if (lane >= d) v += other;
  }
  return v;
}

// Predicted us of an entry, by one warp.  count_of(e) is n_e (0 beyond the last expert); each(e,
// n_e, row tiles of the first phase) is called by all lanes for 32 experts at a time.
template <class CountOf, class Each>
__device__ __forceinline__ float evaluate_entry(const MenuEntry& entry, int experts, int lane,
                                                const CountOf& count_of, const Each& each) {
  int row_tile_sum[Grid::kMaxPhases] = {}, active = 0;
  for (int e0 = 0; e0 < experts; e0 += 32) {
    const int e = e0 + lane, n = count_of(e);
    active += n > 0;
    const int first_phase = row_tiles(n, entry.grid.phase[0]);
    row_tile_sum[0] += first_phase;
    if (entry.grid.phases > 1) row_tile_sum[1] += row_tiles(n, entry.grid.phase[1]);
    each(e, n, first_phase);
  }
  active = __reduce_add_sync(~0u, active);
#pragma unroll
  for (int p = 0; p < Grid::kMaxPhases; ++p)
    row_tile_sum[p] = __reduce_add_sync(~0u, row_tile_sum[p]);
  return predict_us(entry.theta, features(entry.grid, row_tile_sum, active));
}

// What cheapest() says (choice/cost_model.h), by a whole warp.
__device__ __forceinline__ int cheapest_of(const float* us, int entries, int lane) {
  const unsigned bits = lane < entries ? __float_as_uint(us[lane]) : 0x7fffffffu;
  const unsigned ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return __ffs(__ballot_sync(~0u, ordered == __reduce_min_sync(~0u, ordered))) - 1;
}

// Ids that come twice in one token and router weights that are NaN: defined, and counted so that
// somebody can look.  A warp as many whole tokens as it has lanes for: this is warp `warp` of
// `warps`.
__device__ __forceinline__ void inspect_tokens(const PrepareArgs& a, int warp, int warps) {
  if (!a.ids) return;
  const int lane = threadIdx.x % 32, together = 32 / a.top_k;
  const int first_lane = lane / a.top_k * a.top_k;  // of the lane's token
  const unsigned token_before = ((1u << lane) - 1) & ~((1u << first_lane) - 1);
  const int pairs = a.tokens * a.top_k, step = together * a.top_k;
  for (int from = warp * step; from < pairs; from += warps * step) {
    const int i = from + lane;
    const bool in = lane < step && i < pairs;
    const int id = in ? load_cg(a.ids + i) : -2 - lane;
    const float gate = in && a.gates ? load_cg(a.gates + i) : 0.0f;
    const unsigned same = __match_any_sync(~0u, id);  // by all lanes, so not inside a condition
    const bool again = id >= 0 && (same & token_before);
    const unsigned duplicates = __ballot_sync(~0u, again), nans = __ballot_sync(~0u, gate != gate);
    if (lane == 0 && duplicates) atomicAdd(&a.state->duplicate, __popc(duplicates));
    if (lane == 0 && nans) atomicAdd(&a.state->nan_gate, __popc(nans));
  }
}

}  // namespace ramp
