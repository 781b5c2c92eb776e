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
  int4 row[1] = {load(g)};
  meanwhile();
  for (; g - (threadIdx.x / 16) % 2 < all; g += step) {
    // Both halves of a warp stay until the later is done: the shuffles name them all.
    const int4 next = load(g + step);
    const bool mine = g < all;
    const long long at = static_cast<long long>(g) * kScaleGroup + lane16 * 8;
    const Quantised<1> q = quantise(row);
    if (mine) {
      *reinterpret_cast<uint2*>(a.rows_q + at) = q.codes[0];
      if (lane16 == 0) a.rows_scale[g] = q.scale;
      if (a.output) *reinterpret_cast<uint4*>(a.output + at) = uint4{0, 0, 0, 0};
    }
    row[0] = next;
  }
}

// The same for large loads, piece by piece, those of a warp from `now` on up to token `end`: it
// asks for the key of a piece two ahead and, if anybody wants the token, for its columns one ahead.
// key_of(piece) is a word a lane, -1 behind the end, wanted(piece, key) bits that all lanes know;
// put(piece, key, bits, halves) is called where there are any.  The same columns of `output` are
// cleared, if it is there.
template <class KeyOf, class Wanted, class Put, class Meanwhile>
__device__ __forceinline__ void quantise_pieces(const PrepareArgs& a, RowPiece now, int end,
                                                unsigned short* output, const KeyOf& key_of,
                                                const Wanted& wanted, const Put& put,
                                                const Meanwhile& meanwhile) {
  const auto load = [&](const RowPiece& p, unsigned copies, int4(&row)[kPieceChunks]) {
    const unsigned short* from =
        a.hidden + static_cast<long long>(p.token) * a.hidden_size + p.column();
    const bool there = copies && p.inside(a.hidden_size);
#pragma unroll
    for (int c = 0; c < kPieceChunks; ++c)
      row[c] = there ? load_cg(reinterpret_cast<const int4*>(from + c * kChunkStep)) : int4{};
  };
  const auto key_inside = [&](const RowPiece& p) { return p.token < end ? key_of(p) : -1; };
  RowPiece then = now.next();
  int4 row[kPieceChunks];
  int key = key_inside(now), next_key = key_inside(then);
  unsigned copies = wanted(now, key);
  load(now, copies, row);
  meanwhile();
  while (now.token < end) {
    const unsigned next_copies = wanted(then, next_key);
    const RowPiece later = then.next();
    const int later_key = key_inside(later);
    int4 next[kPieceChunks];
    load(then, next_copies, next);
    if (copies) put(now, key, copies, quantise(row));
    unsigned short* clear =
        output && now.inside(a.hidden_size)
            ? output + static_cast<long long>(now.token) * a.hidden_size + now.column()
            : nullptr;
#pragma unroll
    for (int c = 0; c < kPieceChunks; ++c) {
      if (clear) *reinterpret_cast<uint4*>(clear + c * kChunkStep) = uint4{0, 0, 0, 0};
      row[c] = next[c];
    }
    copies = next_copies, key = next_key, next_key = later_key;
    now = then, then = later;
  }
}

// A piece into row `row` of `rows_q`, its scales where they stand row by row or column by column.
template <bool kByColumn>
__device__ __forceinline__ void store_piece(const PrepareArgs& a, const RowPiece& p, int row,
                                            const Quantised<kPieceChunks>& q) {
  if (!p.inside(a.hidden_size)) return;
  unsigned char* to = a.rows_q + static_cast<long long>(row) * a.hidden_size + p.column();
#pragma unroll
  for (int c = 0; c < kPieceChunks; ++c)
    *reinterpret_cast<uint2*>(to + c * kChunkStep) = q.codes[c];
  if (p.has_scale())
    a.rows_scale[kByColumn ? scale_at(a.scale_pitch, row, p.group(), 0)
                           : scale_at(0, row, p.group(), a.hidden_size / kScaleGroup)] = q.scale;
}

// Tokens with local pairs, by their ids: reading these first costs no latency that anybody waits
// for, and a third of all rows, on eight GPUs at top 8, are not read.
struct LocalTokens {
  const PrepareArgs& a;

  __device__ __forceinline__ int key_of(const RowPiece& p) const {
    const int lane = threadIdx.x % 32;
    return a.ids && lane < a.top_k ? load_cg(a.ids + p.token * a.top_k + lane) : -1;
  }
  __device__ __forceinline__ unsigned wanted(const RowPiece& p, int id) const {
    PairCounts counted_elsewhere;
    const bool local = a.ids ? local_expert_of(a, id, counted_elsewhere) >= 0 : p.token < a.tokens;
    return __ballot_sync(~0u, local) ? 1u : 0u;
  }
};

template <class Meanwhile>
__device__ __forceinline__ void quantise_local_rows(const PrepareArgs& a, int block, int blocks,
                                                    const Meanwhile& meanwhile) {
  const LocalTokens local{a};
  quantise_pieces(
      a, RowPiece(a.hidden_size, block * kPrepareWarps + threadIdx.x / 32, blocks * kPrepareWarps),
      a.tokens, a.output, [&](const RowPiece& p) { return local.key_of(p); },
      [&](const RowPiece& p, int id) { return local.wanted(p, id); },
      [&](const RowPiece& p, int, unsigned, const Quantised<kPieceChunks>& q) {
        store_piece<false>(a, p, p.token, q);
      },
      meanwhile);
}

// Meanwhile, where the rows wait for the grouping.
__device__ __forceinline__ void clear_output(const PrepareArgs& a, int block, int blocks) {
  const int words = static_cast<int>(static_cast<long long>(a.tokens) * a.hidden_size / 8);
#pragma unroll 1
  for (int i = block * kPrepareThreads + threadIdx.x; i < words; i += blocks * kPrepareThreads)
    reinterpret_cast<uint4*>(a.output)[i] = uint4{0, 0, 0, 0};
}

// The rows of a token's pairs, a lane each, -1 where they are another GPU's.
__device__ __forceinline__ int rows_of_token(const PrepareArgs& a, int token) {
  const int lane = threadIdx.x % 32;
  return lane < a.top_k ? load_cg(a.position + token * a.top_k + lane) : -1;
}
__device__ __forceinline__ void store_piece_a_pair(const PrepareArgs& a, const RowPiece& p, int row,
                                                   unsigned pairs,
                                                   const Quantised<kPieceChunks>& q) {
  for (; pairs; pairs &= pairs - 1)
    store_piece<true>(a, p, __shfl_sync(~0u, row, __ffs(pairs) - 1), q);
}

// A row for each local pair, where the grouping says.
__device__ __forceinline__ void quantise_pairs(const PrepareArgs& a, int block, int blocks) {
  const int warp = block * kPrepareWarps + threadIdx.x / 32, warps = blocks * kPrepareWarps;
  quantise_pieces(
      a, RowPiece(a.hidden_size, warp, warps), a.tokens, nullptr,
      [&](const RowPiece& p) { return rows_of_token(a, p.token); },
      [](const RowPiece&, int row) { return __ballot_sync(~0u, row >= 0); },
      [&](const RowPiece& p, int row, unsigned pairs, const Quantised<kPieceChunks>& q) {
        store_piece_a_pair(a, p, row, pairs, q);
      },
      [&] { inspect_tokens(a, warp, warps); });
}

// The same where the rows, quantised, fit into the blocks' shared memory: they wait there for the
// grouping, which is made meanwhile, instead of for another launch.  Who waits is told by the
// selecting blocks, which are the first of the launch, so they run already.
__device__ __forceinline__ void quantise_held_pairs(const PrepareArgs& a, int block, int blocks,
                                                    int* shared) {
  const int tokens = held_tokens(a.tokens, blocks), first = block * tokens,
            end = min(a.tokens, first + tokens);
  const RowPiece start(a.hidden_size, threadIdx.x / 32, kPrepareWarps, first);
  // A lane reads what it wrote itself, but for the scale of its group.
  unsigned char* codes = reinterpret_cast<unsigned char*>(shared);
  float* scales = reinterpret_cast<float*>(codes + static_cast<long long>(tokens) * a.hidden_size);
  const auto held_at = [&](const RowPiece& p) {
    return (p.token - first) * a.hidden_size + p.column();
  };
  const LocalTokens local{a};
  quantise_pieces(
      a, start, end, a.output, [&](const RowPiece& p) { return local.key_of(p); },
      [&](const RowPiece& p, int id) { return local.wanted(p, id); },
      [&](const RowPiece& p, int, unsigned, const Quantised<kPieceChunks>& q) {
        if (!p.inside(a.hidden_size)) return;
#pragma unroll
        for (int c = 0; c < kPieceChunks; ++c)
          *reinterpret_cast<uint2*>(codes + held_at(p) + c * kChunkStep) = q.codes[c];
        if (p.has_scale()) scales[held_at(p) / kScaleGroup] = q.scale;
      },
      [&] { inspect_tokens(a, block * kPrepareWarps + threadIdx.x / 32, blocks * kPrepareWarps); });

  if (threadIdx.x == 0) {
    wait_at_least(&a.state->grouped, kBlocksOfCluster);
    // The last leaves the counters as they were.
    if (atomicAdd(&a.state->waited, 1) == blocks - 1) a.state->grouped = a.state->waited = 0;
  }
  __syncthreads();
  int row = start.token < end ? rows_of_token(a, start.token) : -1;
  for (RowPiece now = start; now.token < end;) {
    const RowPiece then = now.next();
    const int next_row = then.token < end ? rows_of_token(a, then.token) : -1;
    if (const unsigned pairs = __ballot_sync(~0u, row >= 0)) {
      Quantised<kPieceChunks> q = {};
      if (now.inside(a.hidden_size)) {
#pragma unroll
        for (int c = 0; c < kPieceChunks; ++c)
          q.codes[c] = *reinterpret_cast<const uint2*>(codes + held_at(now) + c * kChunkStep);
        q.scale = scales[held_at(now) / kScaleGroup];
      }
      store_piece_a_pair(a, now, row, pairs, q);
    }
    now = then, row = next_row;
  }
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
  } else if (!a.hidden || a.slots || a.scale_pitch) {
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

// The same where each pair gets a row and the rows fit into the blocks' shared memory.
extern "C" __global__ __launch_bounds__(ramp::kPrepareThreads, 1) void ramp_prepare_held(
    const __grid_constant__ ramp::PrepareArgs a) {
  extern __shared__ int prepare_shared[];
  constexpr int kSelecting = ramp::kBlocksOfCluster;
  ramp::launch_dependents();
  if (blockIdx.x < kSelecting) {
    ramp::select<kSelecting, true>(a, blockIdx.x, prepare_shared);
  } else {
    ramp::wait_for_dependencies();
    ramp::quantise_held_pairs(a, blockIdx.x - kSelecting, gridDim.x - kSelecting, prepare_shared);
  }
}

// Behind the grouping, where each pair gets a row and they don't.
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
