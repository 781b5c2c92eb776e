// SPDX-License-Identifier: Apache-2.0
// `ffn`, topology F1: both projections of a GPU's experts in one persistent launch (Section A.8).
//
// * Warp 0 requests the first weights before the routing is known; then, for every item, it
//   publishes the item and keeps the ring of 32 KB weight units full: up, down and the next item
//   without a pause.
// * Warps 1 to 3 gather the item's quantised rows beside each up unit, and the weight scales beside
//   every unit.
// * Warps 4 to 11 are two consumer warpgroups: multiply, promote into FP32, SwiGLU, quantise,
//   multiply by the down weights, add into the output.
//
// A unit is 256 weight rows of 128 columns: for up 128 gate rows and the 128 up rows of the same h,
// so that a warpgroup holds gate and up of the same 64 columns in the same registers; for down 256
// output columns of one 128-slice of h. In the down phase the warpgroups take units in turn:
// neither waits for the other, and an output row is 512 bytes.
//
// With `split`, the blocks of a cluster share an item: each multiplies its part of d in the up
// projection, the sums meet so that each block activates a part of the rows, and the quantised rows
// go to all, each of which then computes its part of the output columns.
//
// Barriers: full[s] counts 96 gather threads and the copy engine; empty[s] one lane of each
// consumer warp; item_full[i] the scheduler; rows_full[i] one lane of each gather warp;
// item_empty[i] one lane of each gather and consumer warp; sums_full and middle_full count the
// bytes that the cluster's blocks send each other.
#pragma once

#include "kernels/ffn/consumer.cuh"
#include "kernels/ffn/producer.cuh"

namespace ramp {

// Runs f on entry `choice` of kMenu.  A choice out of range (a corrupted word) runs the first.
template <auto& kMenu, int kEntries, bool kWhole, int kIndex = 0, class F>
__device__ __forceinline__ void with_entry(int choice, const F& f) {
  if constexpr (kIndex + 1 < kEntries) {
    if (choice != kIndex && choice > 0)
      return with_entry<kMenu, kEntries, kWhole, kIndex + 1>(choice, f);
    f.template operator()<FfnEntry<kMenu[kIndex], kWhole>>();
  } else {
    f.template operator()<FfnEntry<kMenu[kIndex], kWhole>>();
  }
}

// kWhole: the launch is the whole layer, and p its call; else `prepare` ran before and p is null.
template <auto& kMenu, int kEntries, bool kWhole>
__device__ __forceinline__ void ffn(const FfnArgs& a, const TensorMap* w13, const TensorMap* w2,
                                    const PrepareArgs* p) {
  extern __shared__ char dynamic_shared[];
  launch_dependents();

  // Barriers and routing first, so that the ring has one place whichever entry runs.
  FfnShared s;
  s.barriers = (smem_u32(dynamic_shared) + 15) & ~15u;
  s.routing = reinterpret_cast<FfnRouting*>(
      dynamic_shared + (s.barriers + kFfnBarrierBytes - smem_u32(dynamic_shared)));
  s.ring = (s.barriers + kFfnBarrierBytes + (kWhole ? kFfnRoutingBytes : 0) + 1023) & ~1023u;
  s.base = dynamic_shared + (s.ring - smem_u32(dynamic_shared));
  using First = FfnEntry<kMenu[0], kWhole>;  // entries of a menu share tile width and split, so the
                                             // first units are the same
  constexpr int kSplit = First::kSplit;
  s.rank = blockIdx.x % kSplit;

  if (threadIdx.x == 0) {
    for (int i = 0; i < kFfnMaxStages; ++i) {
      mbarrier_init(s.full(i), kFfnGatherThreads + 1 + (kWhole ? kScaleThreads : 0));
      mbarrier_init(s.empty(i), kConsumerWarps);
    }
    for (int i = 0; i < kFfnItemSlots; ++i) {
      mbarrier_init(s.item_full(i), 1);
      mbarrier_init(s.item_empty(i), kFfnGatherThreads / 32 + kConsumerWarps);
      mbarrier_init(s.rows_full(i), kFfnGatherThreads / 32);
    }
    mbarrier_init(s.sums_full(), 1);
    mbarrier_init(s.middle_full(), 1);
    for (int i = 0; i < kFfnClaimSlots; ++i) mbarrier_init(s.claim(i), 1);
    fence_mbarrier_init();
    const int slices = ffn_slices(First::config, a.intermediate), block = blockIdx.x / kSplit;
    if (block < a.owned_experts * slices)
      prefill<First>(s, a, w13, block / slices, block % slices, policy_evict_first());
  }
  if constexpr (kWhole) {
    for (int e = threadIdx.x; e < kWholeExperts; e += kFfnThreads) s.routing->count[e] = 0;
    if (threadIdx.x < 3) s.routing->skipped[threadIdx.x] = 0;
  }
  if constexpr (kSplit == 1)
    __syncthreads();
  else
    cluster_sync();  // nobody sends to a block whose barriers don't stand yet

  if (threadIdx.x < 128) {
    give_registers<kFfnProducerRegisters>();
    wait_for_dependencies();
    int choice;
    if constexpr (kWhole) {
      route(*s.routing, *p);
      named_barrier_arrive(kRouted, kFfnThreads);
      choice = choice_of(*s.routing, *p);
      if (blockIdx.x == 0 && threadIdx.x / 32 == 3) report(*s.routing, *p, choice);
    } else {
      choice = load_cg(&a.state->choice);
    }
    if (threadIdx.x < 32) {
      with_entry<kMenu, kEntries, kWhole>(
          choice, [&]<class E>() { schedule<E>(s, a, w13, w2, policy_evict_first(), p); });
    } else {
      with_entry<kMenu, kEntries, kWhole>(choice, [&]<class E>() { gather<E>(s, a, p); });
    }
  } else {
    take_registers<kFfnConsumerRegisters>();
    wait_for_dependencies();
    int choice;
    if constexpr (kWhole) {
      clear_output(*p);
      inspect_tokens(*p, blockIdx.x * kConsumerWarps + threadIdx.x / 32 - 4,
                     gridDim.x * kConsumerWarps);
      named_barrier(kRouted, kFfnThreads);
      choice = choice_of(*s.routing, *p);
    } else {
      choice = load_cg(&a.state->choice);
    }
    with_entry<kMenu, kEntries, kWhole>(choice, [&]<class E>() { Consumer<E>{s, a}.run(); });
  }
  if constexpr (kWhole) leave(*a.state);
}

}  // namespace ramp
