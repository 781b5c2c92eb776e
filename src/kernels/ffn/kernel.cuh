// SPDX-License-Identifier: Apache-2.0
// `ffn`, topology F1: both projections of a GPU's experts in one persistent launch (Section A.8).
//
// * Warp 0 requests the first weights before the routing is known; then, for every item, it
//   publishes the item and keeps the ring of 32 KB weight units full: up, down and the next item
//   without a pause.
// * Warps 1 to 3 gather the item's quantised rows beside each up unit, and the weight scales beside
//   every unit.
// * Warps 4 to 11 are two consumer warpgroups: multiply, promote into FP32, SwiGLU, quantise,
//   multiply by the down weights, add into the output.  Before the routing is known they take the
//   first units into registers, so that more can be on their way than the ring holds.
//
// An up unit is 128 gate rows and the 128 up rows of the same h, 128 columns of d: a warpgroup
// holds gate and up of the same 64 columns in the same registers.  A down unit is 256 output
// columns of one 128-slice of h; the warpgroups take them in turn: neither waits for the other, and
// an output row is 512 bytes.
//
// With `split`, the blocks of a cluster share an item: each multiplies its part of the 128 columns
// of h by more of d at a time, sends what it activated to the others, quantises the whole rows, and
// computes its part of the output columns.
//
// Barriers: full[s] counts 96 gather threads and the copy engine (behind the ring's, those of the
// early units' rows: the threads alone); empty[s] one lane of each consumer warp; early_full[u] the
// copy engine; early_empty[u] one lane of each consumer warp; item_full[i] the scheduler;
// rows_full[i] one lane of each gather warp; item_empty[i] one lane of each gather and consumer
// warp; exchange_full[i] the bytes that the cluster's blocks send each other.
#pragma once

#include "kernels/ffn/consumer.cuh"
#include "kernels/ffn/producer.cuh"

namespace ramp {

// Runs f on entry `choice` of kMenu.
template <auto& kMenu, int kEntries, class F>
__device__ __forceinline__ void with_entry(int choice, const F& f) {
  with_index<kEntries>(choice, [&]<int kIndex>() {
    f.template operator()<FfnEntry<kMenu[kIndex], menu_start(kMenu, kEntries)>>();
  });
}
template <auto& kMenu, int kEntries>
__device__ __forceinline__ FfnNumbers numbers_of(int choice) {
  FfnNumbers numbers;
  with_entry<kMenu, kEntries>(choice, [&]<class E>() { numbers = E::numbers(); });
  return numbers;
}

// Those of the weights come first: the first copies wait for nothing else.
__device__ __forceinline__ void init_weight_barriers(const FfnShared& s) {
  for (int i = 0; i < kFfnMaxStages; ++i) mbarrier_init(s.full(i), kFfnGatherThreads + 1);
  for (int u = 0; u < kFfnMaxEarly; ++u) mbarrier_init(s.early_full(u), 1);
  fence_mbarrier_init();
}
__device__ __forceinline__ void init_other_barriers(const FfnShared& s) {
  for (int i = 0; i < kFfnMaxStages; ++i) mbarrier_init(s.empty(i), kConsumerWarps);
  for (int u = 0; u < kFfnMaxEarly; ++u) {
    mbarrier_init(s.full(kFfnMaxStages + u), kFfnGatherThreads);
    mbarrier_init(s.early_empty(u), kConsumerWarps);
  }
  for (int i = 0; i < kFfnItemSlots; ++i) {
    mbarrier_init(s.item_full(i), 1);
    mbarrier_init(s.item_empty(i), kFfnGatherThreads / 32 + kConsumerWarps);
    mbarrier_init(s.rows_full(i), kFfnGatherThreads / 32);
  }
  for (int i = 0; i < kFfnExchanges; ++i) mbarrier_init(s.exchange_full(i), 1);
  for (int i = 0; i < kFfnClaimSlots; ++i) mbarrier_init(s.claim(i), 1);
  fence_mbarrier_init();
  if (s.owner) mbarrier_arrive(s.item_full(0));  // the owned item is known to all; nobody publishes
}

template <auto& kMenu, int kEntries>
__device__ __forceinline__ void ffn(const FfnArgs& a, const TensorMap* w13, const TensorMap* w2) {
  extern __shared__ char dynamic_shared[];
  launch_dependents();

  // What entries of a menu have in common, hence what any of them says before one is chosen.
  using Units = FfnUnits<menu_start(kMenu, kEntries)>;
  const FfnMaps maps{w13, w2};

  // Barriers first, so that the ring has one place whichever entry runs.
  FfnShared s(dynamic_shared, Units::kSplit);
  const int slices = Units::slices(a), block = blockIdx.x / Units::kSplit;
  s.owner = block < a.owned_experts * slices;
  s.own = ItemHead{block / slices, block % slices, 0, 0};
  s.early = s.owner ? Units::early_units(a) : 0;

  // A unit that follows an early one into its slot waits for the consumers, who wait for this.
  const int at_once = s.early > 0 ? min(s.early, kFfnAtOnce) : kFfnAtOnce;
  if (threadIdx.x == 0) {
    *s.known() = 0;
    init_weight_barriers(s);
    if (s.owner) prefill<Units>(s, a, maps, 0, at_once, policy_evict_first());
    init_other_barriers(s);
  }
  if constexpr (Units::kSplit == 1)
    __syncthreads();
  else
    cluster_sync();  // nobody sends to a block whose barriers don't stand yet

  // One latency after the wait: the choice, and what any entry asks of the owned item.
  const auto own_rows = [&] { return s.owner ? load_cg(a.counts + s.own.expert) : 0; };
  if (threadIdx.x < 128) {
    give_registers<kFfnProducerRegisters>();
    if (threadIdx.x < 32) {
      if (threadIdx.x == 0 && s.owner)
        prefill<Units>(s, a, maps, at_once, kFfnMaxStages + kFfnMaxEarly, policy_evict_first());
      __syncwarp();
      wait_for_dependencies();
      const int choice = load_cg(&a.state->choice), rows = own_rows();
      schedule<Units>(s, a, maps, numbers_of<kMenu, kEntries>(choice), rows, policy_evict_first());
    } else {
      wait_for_dependencies();
      if (threadIdx.x == 32) *s.known() = 1;
      const int choice = load_cg(&a.state->choice), rows = own_rows();
      const int of_head = s.own.expert * kHeadRows + static_cast<int>(threadIdx.x - 32) % kHeadRows;
      const int2 row =
          s.owner ? load_cg(reinterpret_cast<const int2*>(a.head + of_head)) : int2{0, 0};
      gather<Units>(s, a, numbers_of<kMenu, kEntries>(choice), rows, row);
    }
  } else {
    take_registers<kFfnConsumerRegisters>();
    EarlyWeights<Units::kEarly> early;
    if (s.early > 0) early.template take<Units::kSplit>(s);
    wait_for_dependencies();
    const int choice = load_cg(&a.state->choice), rows = own_rows();
    consume<Units>(s, a, numbers_of<kMenu, kEntries>(choice), early, rows,
                   [choice](const auto& f) { with_entry<kMenu, kEntries>(choice, f); });
  }
}

}  // namespace ramp
