// SPDX-License-Identifier: Apache-2.0
// Rows as an all-to-all delivers them: e4m3 with their scales, in slots of which a part is filled,
// or both.  What is left to do beside the choice: quantise bf16 rows, bring scales that stand in
// another order (column by column, for somebody's tensor map) into that of the rows, clear the
// output of the same rows.  Of slots only those that are filled are looked at and written: there
// may be thirty times as many.
#pragma once

#include "kernels/hopper/ptx.cuh"
#include "kernels/prepare/pieces.cuh"
#include "kernels/prepare/rows.cuh"
#include "kernels/prepare/select.cuh"

namespace ramp {

// Ready counts of more rows than their slots or than there are tokens are cut, so that no row lies
// outside.  n is the count of the lane's expert, `before` the sum of the experts in front, kept by
// the caller.
__device__ __forceinline__ int cut_ready_count(const PrepareArgs& a, int n, int& before, int lane) {
  n = max(0, n);
  if (a.slots) return min(n, a.slots);
  n = min(n, a.tokens);
  const int upto = inclusive_scan(n, lane);
  n = max(0, min(n, a.tokens - (before + upto - n)));
  before += __shfl_sync(~0u, upto, 31);
  before = min(before, a.tokens);
  return n;
}

// Where the rows of expert e begin; compact: the sum of the counts before it.
__device__ __forceinline__ int row_base(const PrepareArgs& a, int e, int compact) {
  return a.slots ? e * a.slots : compact;
}

// By a whole warp: how many counts were cut, counted so that somebody can look.
__device__ __forceinline__ void count_cut(const PrepareArgs& a, int cut, int lane) {
  cut = __reduce_add_sync(~0u, cut);
  if (lane == 0 && cut) atomicAdd(&a.state->invalid, static_cast<unsigned>(cut));
}

// Rows that stand grouped already: row r is token r, if it is there.
__device__ __forceinline__ void place_ready_rows(const PrepareArgs& a, int block, int runs,
                                                 int rows, const int* count, const int* base) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const auto row = [&](int r) { return Row{r, a.gates ? load_cg(a.gates + r) : 1.0f}; };
  const int end = a.slots ? a.tokens : rows;
  for (int r = block * kPrepareThreads + threadIdx.x; r < end; r += runs * kPrepareThreads)
    if (!a.slots || r % a.slots < count[r / a.slots]) store_row(a.rows + r, row(r));
  for (int e = block * kPrepareWarps + warp; e < a.local_experts; e += runs * kPrepareWarps)
    for (int r = lane; r < min(count[e], kHeadRows); r += 32)
      store_row(a.head + e * kHeadRows + r, row(base[e] + r));
}

// The filled slots counted through: ends[e] is their number up to expert e and with it.
__device__ __forceinline__ int count_filled_slots(const PrepareArgs& a, int* ends) {
  const int tid = threadIdx.x, lane = tid % 32;
  for (int e = tid; e < a.local_experts; e += kPrepareThreads)
    ends[e] = load_cg(a.ready_counts + e);
  __syncthreads();
  if (tid < 32) {
    int before = 0, unused = 0;
    for (int e0 = 0; e0 < a.local_experts; e0 += 32) {
      const int e = e0 + lane;
      const int n = cut_ready_count(a, e < a.local_experts ? ends[e] : 0, unused, lane);
      const int upto = inclusive_scan(n, lane);
      if (e < a.local_experts) ends[e] = before + upto;
      before += __shfl_sync(~0u, upto, 31);
    }
  }
  __syncthreads();
  return ends[a.local_experts - 1];
}

// By the blocks that don't select; shared: an integer a local expert.  A function of its own, so
// that the kernels of the usual way are no longer for it: instructions are fetched anew each
// launch.
static __device__ __noinline__ void take_arrived_rows(const PrepareArgs& a, int block, int blocks,
                                                      int* shared) {
  const int lane = threadIdx.x % 32, groups = a.hidden_size / kScaleGroup;
  constexpr int kPieceGroups = kPieceColumns / kScaleGroup;
  int rows = 0;  // that are there
  if (a.hidden || a.scales || a.output) rows = a.slots ? count_filled_slots(a, shared) : a.tokens;

  struct Place {
    int expert, row;
  };
  int expert = 0;  // of the last that was asked for: a warp's rows ascend
  const auto place_of = [&](const RowPiece& p) {
    if (!a.slots || p.token >= rows) return Place{0, p.token};
#pragma unroll 1
    while (p.token >= shared[expert]) ++expert;
    return Place{expert, expert * a.slots + p.token - (expert > 0 ? shared[expert - 1] : 0)};
  };
  const auto load = [&](const RowPiece& p, const Place& place, int4(&row)[kPieceChunks]) {
    const unsigned short* from =
        a.hidden + static_cast<long long>(place.row) * a.hidden_size + p.column();
    const bool there = a.hidden && p.token < rows && p.inside(a.hidden_size);
#pragma unroll
    for (int c = 0; c < kPieceChunks; ++c)
      row[c] = there ? load_cg(reinterpret_cast<const int4*>(from + c * kChunkStep)) : int4{};
  };
  // Lane g has the scale of the piece's group g.
  const auto has_scale = [&](const RowPiece& p) {
    return a.scales && p.token < rows && lane < kPieceGroups &&
           p.piece * kPieceGroups + lane < groups;
  };
  const auto load_scale = [&](const RowPiece& p, const Place& place) {
    const ScaleStrides& by = a.scale_strides;
    return has_scale(p) ? load_cg(a.scales + place.expert * by.expert +
                                  (place.row - place.expert * a.slots) * by.row +
                                  (p.piece * kPieceGroups + lane) * by.group)
                        : 0.0f;
  };

  const auto group_at = [&](int row, int group) {
    return scale_at(a.scale_pitch, row, group, groups);
  };

  RowPiece now(a.hidden_size, block * kPrepareWarps + threadIdx.x / 32, blocks * kPrepareWarps);
  Place place = place_of(now);
  int4 row[kPieceChunks];
  load(now, place, row);
  float scale = load_scale(now, place);
#pragma unroll 1
  while (now.token < rows) {
    const RowPiece then = now.next();
    const Place next_place = place_of(then);
    int4 next[kPieceChunks];
    load(then, next_place, next);
    const float next_scale = load_scale(then, next_place);
    const long long begin = static_cast<long long>(place.row) * a.hidden_size + now.column();
    const bool inside = now.inside(a.hidden_size);
    if (a.hidden) {  // the same in the whole warp
      const Quantised<kPieceChunks> q = quantise(row);
#pragma unroll
      for (int c = 0; c < kPieceChunks; ++c)
        if (inside) *reinterpret_cast<uint2*>(a.rows_q + begin + c * kChunkStep) = q.codes[c];
      if (inside && now.has_scale()) a.rows_scale[group_at(place.row, now.group())] = q.scale;
    }
#pragma unroll
    for (int c = 0; c < kPieceChunks; ++c) {
      if (inside && a.output)
        *reinterpret_cast<uint4*>(a.output + begin + c * kChunkStep) = uint4{0, 0, 0, 0};
      row[c] = next[c];
    }
    if (has_scale(now)) a.rows_scale[group_at(place.row, now.piece * kPieceGroups + lane)] = scale;
    scale = next_scale;
    now = then, place = next_place;
  }
}

}  // namespace ramp
