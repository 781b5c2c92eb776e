// SPDX-License-Identifier: Apache-2.0
// `prepare`: everything between the router and the experts.  Selecting blocks are Algorithm 1; the
// other blocks quantise the rows and clear the output meanwhile; neither needs the other.  One
// launch with one selecting block up to kPairsOfOneBlock pairs (select.cuh); beyond, two launches
// with a block a run of pairs (spread.cuh).
#pragma once

#include "kernels/prepare/combine.cuh"
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
      if (!a.position) *reinterpret_cast<uint4*>(a.output + at) = uint4{0, 0, 0, 0};
    }
    row = next;
  }
}

// What the blocks beside the `selecting` ones do, once the router's kernel is complete.
__device__ __forceinline__ void quantise_and_inspect(const PrepareArgs& a, int selecting) {
  const int block = blockIdx.x - selecting, blocks = gridDim.x - selecting;
  quantise_rows(a, block, blocks, [&] {
    inspect_tokens(a, block * kPrepareWarps + threadIdx.x / 32, blocks * kPrepareWarps);
  });
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
    ramp::quantise_and_inspect(a, 1);
  }
}

// Behind `ffn`, in `ordered` mode.
extern "C" __global__ __launch_bounds__(ramp::kCombineThreads, 3) void ramp_combine(
    const __grid_constant__ ramp::CombineArgs a) {
  ramp::launch_dependents();
  ramp::wait_for_dependencies();
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
  const int runs = ramp::pair_runs(a.ready_counts ? a.tokens : a.tokens * a.top_k);
  ramp::launch_dependents();
  if (static_cast<int>(blockIdx.x) < runs) {
    ramp::group_run(a, blockIdx.x, runs, prepare_shared);
  } else {
    // The count kernel let this one start when the router's was complete; the rows need no more.
    if (a.ready_counts) ramp::wait_for_dependencies();
    ramp::quantise_and_inspect(a, runs);
    ramp::wait_for_dependencies();
  }
}
