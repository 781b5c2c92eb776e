// SPDX-License-Identifier: Apache-2.0
// `ffn`, topology F3: both projections in one persistent launch, one after the other, each with
// items of its own.  An up item is a row tile times 128 columns of h over all of d, activated and
// quantised into device memory; a down item is a row tile times 256 columns of the output over all
// of h, so an output element gets one addition a token-expert pair; or none: in `ordered` mode the
// rows go to slots, which `combine` sums in a fixed order.  For loads of many rows an expert, where
// F1's additions (one a slice of h) would take longer than the products.
//
// A counter a row tile says how many of its up items have written their middle rows; whoever
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

  using Code = PhasedCode<menu_start(kMenu, kEntries)>;
  constexpr int kSplit = Code::kSplit;
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
    mbarrier_init(s.written(), kConsumerWarps);
    for (int i = 0; i < kPhasedClaimSlots; ++i) mbarrier_init(s.claim(i), 1);
    fence_mbarrier_init();
    phased_prefill(s, a, maps, start, 0, kFfnAtOnce);
  }
  if constexpr (kSplit == 1)
    __syncthreads();
  else
    cluster_sync();  // nobody sends to a block whose barriers don't stand yet

  if (threadIdx.x < 128) {
    give_registers<kFfnProducerRegisters>();
    if (threadIdx.x == 0) phased_prefill(s, a, maps, start, kFfnAtOnce, kFfnMaxStages);
    __syncwarp();
    wait_for_dependencies();
    if (threadIdx.x == 32) *s.known() = 1;
    if (a.slots) launch_dependents();  // `combine` relies on `prepare` being complete
    if (threadIdx.x == 0)
      phased_schedule<Code>(s, a, maps, start,
                            phased_claims<kMenu, kEntries>(load_cg(&a.state->choice)));
    else if (threadIdx.x >= 32)
      PhasedGatherer<Code>{s, a, maps}.run();
  } else {
    take_registers<kFfnConsumerRegisters>();
    wait_for_dependencies();
    PhasedConsumer<Code>{s, a}.run();
  }
  if constexpr (kSplit > 1) {  // nor leaves while the other may still arrive here
    __syncwarp();
    cluster_sync();
  }
}

}  // namespace ramp
