// SPDX-License-Identifier: Apache-2.0
// `ffn`, topology F3: both projections in one persistent launch, one after the other, each with
// items of its own.  An up item is a row tile times 128 columns of h over all of d, activated and
// quantised into device memory; a down item is a row tile times 256 columns of the output over all
// of h, so an output element gets one addition a token-expert pair; or none: in `ordered` mode the
// rows go to slots, which `combine` sums in a fixed order.  For loads of many rows an expert, where
// F1's additions (one a slice of h) would take longer than the products.
//
// A counter a row tile says how many warpgroups have written their part of its middle rows; whoever
// gathers rows of a down item waits for all of them.  Items are claimed in order, all up items
// before all down items, so what is waited for is being worked on: nobody waits in a circle.
// Weights wait for nothing: a down item's are on their way while its rows are still computed, and
// the first are asked for before the routing is known, for the item that the block will have if
// every expert turns out to have one row tile.
//
// With `split` two blocks make a cluster and take two row tiles of an expert at a time: each brings
// half of every weight unit into both.  What bounds full tiles is what L2 gives, not the tensor
// cores: 48 KB a unit and block otherwise, 32 so.  Their rings move together: a place is empty when
// the consumers of both blocks have left it.
#pragma once

#include "kernels/ffn/phased/consumer.cuh"
#include "kernels/ffn/phased/producer.cuh"

namespace ramp {

// The first entry of the menu with the same code as entry i.
template <auto& kMenu>
constexpr int phased_code(int i) {
  for (int first = 0; first < i; ++first)
    if (kMenu[first].rows == kMenu[i].rows && kMenu[first].stages == kMenu[i].stages) return first;
  return i;
}

// Runs f on the code of entry `choice` of kMenu.
template <auto& kMenu, int kEntries, class F>
__device__ __forceinline__ void with_phased_entry(int choice, const F& f) {
  int code = 0;
  with_index<kEntries>(choice, [&]<int kIndex>() { code = phased_code<kMenu>(kIndex); });
  with_index<kEntries>(code, [&]<int kIndex>() {
    if constexpr (phased_code<kMenu>(kIndex) == kIndex)
      f.template operator()<PhasedEntry<kMenu[kIndex]>>();
  });
}
template <auto& kMenu, int kEntries>
__device__ __forceinline__ PhasedClaims phased_claims(int choice) {
  PhasedClaims claims;
  with_index<kEntries>(choice, [&]<int kIndex>() {
    claims.dynamic = kMenu[kIndex].dynamic, claims.grouped = kMenu[kIndex].grouped;
  });
  return claims;
}

template <auto& kMenu, int kEntries>
__device__ __forceinline__ void phased_ffn(const FfnArgs& a, const TensorMap* w13,
                                           const TensorMap* w2, const TensorMap* rows,
                                           const TensorMap* middle) {
  extern __shared__ char dynamic_shared[];
  if (!a.slots) launch_dependents();
  const PhasedMaps maps{w13, w2, rows, middle};

  constexpr int kSplit = kMenu[0].split;
  PhasedShared s(dynamic_shared, kSplit);
  const PhasedStart start = phased_start(a);
  if (threadIdx.x == 0) {
    *s.known() = 0;
    for (int i = 0; i < kFfnMaxStages; ++i) {
      mbarrier_init(s.full(i), kFfnGatherThreads + 1);
      mbarrier_init(s.empty(i), kConsumerWarps * kSplit);
    }
    for (int i = 0; i < kFfnItemSlots; ++i) {
      mbarrier_init(s.item_full(i), 1);
      mbarrier_init(s.item_empty(i), kFfnGatherThreads / 32 + kConsumerWarps);
      mbarrier_init(s.rows_full(i), kFfnGatherThreads / 32);
    }
    for (int i = 0; i < kPhasedClaimSlots; ++i) mbarrier_init(s.claim(i), 1);
    fence_mbarrier_init();
    phased_prefill(s, a, maps, start, 0, kFfnAtOnce);
  }
  if constexpr (kSplit == 1)
    __syncthreads();
  else
    cluster_sync();  // nobody sends to a block whose barriers don't stand yet

  if (threadIdx.x < 128) {
    give_registers<kPhasedProducerRegisters>();
    if (threadIdx.x == 0) phased_prefill(s, a, maps, start, kFfnAtOnce, kFfnMaxStages);
    __syncwarp();
    wait_for_dependencies();
    if (threadIdx.x == 32) *s.known() = 1;
    if (a.slots) launch_dependents();  // `combine` relies on `prepare` being complete
    const int choice = load_cg(&a.state->choice);
    with_phased_entry<kMenu, kEntries>(choice, [&]<class E>() {
      if (threadIdx.x == 0)
        phased_schedule<E>(s, a, maps, start, phased_claims<kMenu, kEntries>(choice));
      else if (threadIdx.x >= 32)
        phased_gather<E>(s, a, maps);
    });
  } else {
    take_registers<kPhasedConsumerRegisters>();
    wait_for_dependencies();
    const int choice = load_cg(&a.state->choice);
    with_phased_entry<kMenu, kEntries>(choice, [&]<class E>() { PhasedConsumer<E>{s, a}.run(); });
  }
  if constexpr (kSplit > 1) {  // nor leaves while the other may still arrive here
    __syncwarp();
    cluster_sync();
  }
}

}  // namespace ramp
