// SPDX-License-Identifier: Apache-2.0
// `prepare`: everything between the router and the experts.  Selecting blocks are Algorithm 1; the
// other blocks quantise the rows and clear the output meanwhile; neither needs the other.  One
// launch with one selecting block up to kPairsAlone pairs or one selecting cluster up to
// kPairsOfCluster (select.cuh); beyond, two launches with a block a run of pairs (spread.cuh), of
// which rows that come grouped need the second alone.
#pragma once

#include "kernels/prepare/combine.cuh"
#include "kernels/prepare/pieces.cuh"
#include "kernels/prepare/rows.cuh"
#include "kernels/prepare/select.cuh"
#include "kernels/prepare/spread.cuh"

namespace ramp {

// Quantises the rows and clears the output of the same columns, unless it will be written whole.
// `meanwhile` is done while the first row is on its way.
template <class Meanwhile>
__device__ __forceinline__ void quantise_rows(const PrepareArgs& a, int block, int blocks,
                                              const Meanwhile& meanwhile) {
  const int groups = a.hidden_size / kScaleGroup, lane16 = threadIdx.x % 16;
  const int all = a.tokens * groups, step = blocks * (kPrepareThreads / 16);
  int g = block * (kPrepareThreads / 16) + threadIdx.x / 16;
  const auto load = [&](int of) {
    return of < all ? load_cg(reinterpret_cast<const int4*>(
                          a.hidden + static_cast<long long>(of) * kScaleGroup + lane16 * 8))
                    : int4{};
  };
  int4 row = load(g);
  meanwhile();
  for (; g - (threadIdx.x / 16) % 2 < all; g += step) {
    // Both halves of a warp stay until the later is done: the shuffles name them all.
    const int4 next = load(g + step);
    const bool mine = g < all;
    const long long at = static_cast<long long>(g) * kScaleGroup + lane16 * 8;
    const QuantisedEight q = quantise_eight(row);
    if (mine) {
      *reinterpret_cast<uint2*>(a.rows_q + at) = q.codes;
      if (lane16 == 0) a.rows_scale[g] = q.scale;
      if (a.output) *reinterpret_cast<uint4*>(a.output + at) = uint4{0, 0, 0, 0};
    }
    row = next;
  }
}

// The same for large loads, piece by piece: a warp asks for the key of a piece two ahead and, if
// anybody wants the token, for its columns one ahead.  key_of(piece) is a word a lane,
// wanted(piece, key) bits that all lanes know, row_of(piece, key, bit) where a copy of the row
// goes.  The same columns of `output` are cleared, if it is there.
template <class KeyOf, class Wanted, class RowOf, class Meanwhile>
__device__ __forceinline__ void quantise_pieces(const PrepareArgs& a, int block, int blocks,
                                                unsigned short* output, const KeyOf& key_of,
                                                const Wanted& wanted, const RowOf& row_of,
                                                const Meanwhile& meanwhile) {
  const int lane = threadIdx.x % 32;
  const auto load = [&](const RowPiece& p, unsigned copies, int4(&row)[kPieceHalves]) {
    const unsigned short* from = a.hidden + static_cast<long long>(p.token) * a.hidden_size;
#pragma unroll
    for (int h = 0; h < kPieceHalves; ++h)
      row[h] = copies && p.column(h) < a.hidden_size
                   ? load_cg(reinterpret_cast<const int4*>(from + p.column(h)))
                   : int4{};
  };
  RowPiece now(a.hidden_size, block * kPrepareWarps + threadIdx.x / 32, blocks * kPrepareWarps),
      then = now.next();
  int4 row[kPieceHalves];
  int key = key_of(now), next_key = key_of(then);
  unsigned copies = wanted(now, key);
  load(now, copies, row);
  meanwhile();
  while (now.token < a.tokens) {
    const unsigned next_copies = wanted(then, next_key);
    const RowPiece later = then.next();
    const int later_key = key_of(later);
    int4 next[kPieceHalves];
    load(then, next_copies, next);
    if (copies) {
      QuantisedEight q[kPieceHalves];
#pragma unroll
      for (int h = 0; h < kPieceHalves; ++h) q[h] = quantise_eight(row[h]);
      for (unsigned left = copies; left; left &= left - 1) {
        const long long begin =
            static_cast<long long>(row_of(now, key, __ffs(left) - 1)) * a.hidden_size;
#pragma unroll
        for (int h = 0; h < kPieceHalves; ++h) {
          const long long at = begin + now.column(h);
          const bool inside = now.column(h) < a.hidden_size;
          if (inside) *reinterpret_cast<uint2*>(a.rows_q + at) = q[h].codes;
          if (inside && lane % 16 == 0) a.rows_scale[at / kScaleGroup] = q[h].scale;
        }
      }
    }
#pragma unroll
    for (int h = 0; h < kPieceHalves; ++h) {
      const long long at = static_cast<long long>(now.token) * a.hidden_size + now.column(h);
      if (now.column(h) < a.hidden_size && output)
        *reinterpret_cast<uint4*>(output + at) = uint4{0, 0, 0, 0};
      row[h] = next[h];
    }
    copies = next_copies, key = next_key, next_key = later_key;
    now = then, then = later;
  }
}

// Reading a token's ids first costs no latency that anybody waits for: rows of tokens without local
// pairs, a third of all on eight GPUs at top 8, are not read.
template <class Meanwhile>
__device__ __forceinline__ void quantise_local_rows(const PrepareArgs& a, int block, int blocks,
                                                    const Meanwhile& meanwhile) {
  const int lane = threadIdx.x % 32;
  quantise_pieces(
      a, block, blocks, a.output,
      [&](const RowPiece& p) {
        return a.ids && p.token < a.tokens && lane < a.top_k
                   ? load_cg(a.ids + static_cast<long long>(p.token) * a.top_k + lane)
                   : -1;
      },
      [&](const RowPiece& p, int id) {
        PairCounts counted_elsewhere;
        const bool local = !a.ids || local_expert_of(a, id, counted_elsewhere) >= 0;
        return __ballot_sync(~0u, local) && p.token < a.tokens ? 1u : 0u;
      },
      [](const RowPiece& p, int, int) { return p.token; }, meanwhile);
}

// Meanwhile, where the rows wait for the grouping.
__device__ __forceinline__ void clear_output(const PrepareArgs& a, int block, int blocks) {
  const int words = static_cast<int>(static_cast<long long>(a.tokens) * a.hidden_size / 8);
#pragma unroll 1
  for (int i = block * kPrepareThreads + threadIdx.x; i < words; i += blocks * kPrepareThreads)
    reinterpret_cast<uint4*>(a.output)[i] = uint4{0, 0, 0, 0};
}

// A row for each local pair, where the grouping says.
__device__ __forceinline__ void quantise_pairs(const PrepareArgs& a, int block, int blocks) {
  const int lane = threadIdx.x % 32;
  quantise_pieces(
      a, block, blocks, nullptr,
      [&](const RowPiece& p) {
        return p.token < a.tokens && lane < a.top_k
                   ? load_cg(a.position + static_cast<long long>(p.token) * a.top_k + lane)
                   : -1;
      },
      [](const RowPiece&, int row) { return __ballot_sync(~0u, row >= 0); },
      [](const RowPiece&, int row, int pair) { return __shfl_sync(~0u, row, pair); },
      [&] { inspect_tokens(a, block * kPrepareWarps + threadIdx.x / 32, blocks * kPrepareWarps); });
}

// Whether so many blocks have a place for each group of a row: then nobody reads the ids first, to
// save what is at hand anyway.
__device__ __forceinline__ bool quantised_at_once(const PrepareArgs& a, int blocks) {
  return a.tokens * (a.hidden_size / kScaleGroup) <= blocks * (kPrepareThreads / 16);
}

// What the blocks beside the `selecting` ones do, once the router's kernel is complete.
template <bool kLarge>
__device__ __forceinline__ void quantise_and_inspect(const PrepareArgs& a, int selecting,
                                                     int* shared) {
  const int block = blockIdx.x - selecting, blocks = gridDim.x - selecting;
  const auto inspect = [&] {
    inspect_tokens(a, block * kPrepareWarps + threadIdx.x / 32, blocks * kPrepareWarps);
  };
  if (a.row_a_pair) {
    clear_output(a, block, blocks);
  } else if (!a.hidden || a.slots) {
    take_arrived_rows(a, block, blocks, shared);
    inspect();
  } else if (kLarge && !quantised_at_once(a, blocks)) {
    quantise_local_rows(a, block, blocks, inspect);
  } else {
    quantise_rows(a, block, blocks, inspect);
  }
}

}  // namespace ramp

extern "C" __global__ __launch_bounds__(ramp::kPrepareThreads, 1) void ramp_prepare(
    const __grid_constant__ ramp::PrepareArgs a) {
  extern __shared__ int prepare_shared[];
  ramp::launch_dependents();
  if (blockIdx.x == 0) {
    ramp::select<1>(a, 0, prepare_shared);
  } else {
    ramp::wait_for_dependencies();
    ramp::quantise_and_inspect<false>(a, 1, prepare_shared);
  }
}

// In clusters of kBlocksOfCluster, of which the first selects.
extern "C" __global__ __launch_bounds__(ramp::kPrepareThreads, 1) void ramp_prepare_cluster(
    const __grid_constant__ ramp::PrepareArgs a) {
  extern __shared__ int prepare_shared[];
  ramp::launch_dependents();
  if (blockIdx.x < ramp::kBlocksOfCluster) {
    ramp::select<ramp::kBlocksOfCluster>(a, blockIdx.x, prepare_shared);
  } else {
    ramp::wait_for_dependencies();
    ramp::quantise_and_inspect<true>(a, ramp::kBlocksOfCluster, prepare_shared);
  }
}

// Behind the grouping, where each pair gets a row.
extern "C" __global__ __launch_bounds__(ramp::kPrepareThreads, 1) void ramp_prepare_pairs(
    const __grid_constant__ ramp::PrepareArgs a) {
  ramp::launch_dependents();
  ramp::wait_for_dependencies();
  ramp::quantise_pairs(a, blockIdx.x, gridDim.x);
}

// Behind `ffn`, in `ordered` mode.
extern "C" __global__ __launch_bounds__(ramp::kCombineThreads, 3) void ramp_combine(
    const __grid_constant__ ramp::CombineArgs a) {
  ramp::launch_dependents();
  ramp::combine(a);
}

// Large loads, first launch: a block a run.
extern "C" __global__ __launch_bounds__(ramp::kPrepareThreads, 1) void ramp_prepare_count(
    const __grid_constant__ ramp::PrepareArgs a) {
  extern __shared__ int prepare_shared[];
  ramp::count_run(a, blockIdx.x, gridDim.x, prepare_shared);
}

// Large loads, second launch; with ready counts the only one.
extern "C" __global__ __launch_bounds__(ramp::kPrepareThreads, 1) void ramp_prepare_group(
    const __grid_constant__ ramp::PrepareArgs a) {
  extern __shared__ int prepare_shared[];
  const int runs =
      ramp::selecting_of(a.ready_counts ? a.tokens : a.tokens * a.top_k, a.ready_counts != nullptr)
          .blocks;
  ramp::launch_dependents();
  if (static_cast<int>(blockIdx.x) < runs) {
    ramp::group_run(a, blockIdx.x, runs, prepare_shared);
  } else {
    // The count kernel let this one start when the router's was complete; the rows need no more.
    if (a.ready_counts) ramp::wait_for_dependencies();
    ramp::quantise_and_inspect<true>(a, runs, prepare_shared);
    ramp::wait_for_dependencies();
  }
}
