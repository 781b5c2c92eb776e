// SPDX-License-Identifier: Apache-2.0
// The instructions of sm_90a that CUDA C++ has no name for, one thin function each.  Nothing here
// knows a kernel. Shared-memory addresses are 32-bit (`smem_u32`); "parity" is the phase bit that
// an mbarrier wait looks for.
#pragma once

namespace ramp {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

__device__ __forceinline__ u32 smem_u32(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

// A value that is the same in the whole warp, told to the compiler: what is computed from it, such
// as matrix descriptors, stays in uniform registers, where wgmma wants them.
__device__ __forceinline__ int uniform(int v) { return __shfl_sync(~0u, v, 0); }

// Nanoseconds, in steps of 32.
__device__ __forceinline__ u64 global_ns() {
  u64 ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

// ---- programmatic dependent launch -------------------------------------------------------------
// Keeps the compiler from putting off what v is computed from.
__device__ __forceinline__ int computed(int v) {
  asm volatile("" : "+r"(v));
  return v;
}

// The next kernel of the stream may start; no fence.
__device__ __forceinline__ void launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
// The kernels before are complete and what they wrote is visible.
__device__ __forceinline__ void wait_for_dependencies() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// ---- registers and named barriers --------------------------------------------------------------
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
__device__ __forceinline__ void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// ---- mbarrier ----------------------------------------------------------------------------------
__device__ __forceinline__ void mbarrier_init(u32 bar, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}
// Makes the inits visible to the copy engine and to other blocks of the cluster.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(u32 bar, int times) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(times) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect(u32 bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
               : "memory");
}
// More bytes, without an arrival.
__device__ __forceinline__ void mbarrier_expect(u32 bar, int bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void mbarrier_wait(u32 bar, u32 parity) {
#ifdef RAMP_WATCHDOG  // a build for bug hunts: a wait that takes seconds says where it stands and
                      // traps
  u32 done = 0;
  for (long long begin = clock64(); !done;) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, "
        "p; }"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
    if (!done && clock64() - begin > 2000000000LL) {
      printf("stuck: block %d thread %d barrier at %u parity %u\n", blockIdx.x, threadIdx.x, bar,
             parity);
      __trap();
    }
  }
  return;
#endif
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n"
      "}" ::"r"(bar),
      "r"(parity)
      : "memory");
}

// ---- copies ------------------------------------------------------------------------------------
// Weights are read once a pass: first out of L2, so that rows, scales and outputs stay.
__device__ __forceinline__ u64 policy_evict_first() {
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// Weights that other blocks are about to read as well.
__device__ __forceinline__ u64 policy_evict_normal() {
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ void tma_load_2d(u32 to, const void* map, u32 bar, int c0, int c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(map), "r"(bar), "r"(c0), "r"(c1)
      : "memory");
}
__device__ __forceinline__ void tma_load_3d(u32 to, const void* map, u32 bar, int c0, int c1,
                                            int c2, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void tma_load_4d(u32 to, const void* map, u32 bar, int c0, int c1,
                                            int c2, int c3, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
      : "memory");
}
// The same into the same places of both blocks of a cluster of two, on both's barriers.
__device__ __forceinline__ void tma_load_3d_both(u32 to, const void* map, u32 bar, int c0, int c1,
                                                 int c2, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6, %7;" ::"r"(to),
      "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "h"(static_cast<u16>(3)), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void tma_load_4d_both(u32 to, const void* map, u32 bar, int c0, int c1,
                                                 int c2, int c3, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %7, %8;" ::"r"(to),
      "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "h"(static_cast<u16>(3)), "l"(policy)
      : "memory");
}
// Addresses and bytes are multiples of 16.
__device__ __forceinline__ void bulk_load(u32 to, const void* from, u32 bar, int bytes) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(bar)
      : "memory");
}
// 16 bytes around L1: routed rows were written by another SM a moment ago.
__device__ __forceinline__ void copy_async_16(u32 to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_async_4(u32 to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
// Arrives when this thread's earlier copy_async are done; counts as one of the barrier's arrivals.
__device__ __forceinline__ void copy_async_arrive(u32 bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void bulk_add_bf16(void* to, u32 from, int bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%0], [%1], %2;" ::"l"(to),
      "r"(from), "r"(bytes)
      : "memory");
}
// Eight bf16 at once, each addition by itself; nothing comes back.
__device__ __forceinline__ void add_bf16_8(void* to, uint4 v) {
  asm volatile("red.relaxed.gpu.global.add.noftz.v4.bf16x2 [%0], {%1, %2, %3, %4};" ::"l"(to),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
__device__ __forceinline__ void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// All committed groups have read their source; the writes may still be on their way.
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ __forceinline__ void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// Ordinary stores to shared memory become visible to the copy engine and the tensor cores.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// What this thread has seen written to global memory becomes visible to the copies it asks for.
__device__ __forceinline__ void fence_proxy_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

__device__ __forceinline__ void store_shared_4(u32 to, u32 v) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(v) : "memory");
}
__device__ __forceinline__ void store_shared_2(u32 to, u16 v) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(to), "h"(v) : "memory");
}
__device__ __forceinline__ void store_shared_1(u32 to, u16 v) {  // the low byte
  asm volatile("{ .reg .b8 b; cvt.u8.u16 b, %1; st.shared.b8 [%0], b; }" ::"r"(to), "h"(v)
               : "memory");
}

// ---- clusters ----------------------------------------------------------------------------------
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
// The same place in the shared memory of the cluster's block `rank`.
__device__ __forceinline__ u32 map_to_rank(u32 smem, u32 rank) {
  u32 mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(smem), "r"(rank));
  return mapped;
}
// An arrival at a barrier of any block of the cluster.  It says that this block has read a place of
// its own, which then may be written by the copy engine; ordinary stores it does not order: release
// at the cluster's scope is a fence of the whole GPU's memory, a microsecond each time.
__device__ __forceinline__ void mbarrier_arrive_cluster(u32 mapped) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(mapped) : "memory");
}
// Stores into another block's shared memory; the bytes count on that block's barrier.
__device__ __forceinline__ void store_async_8(u32 to, u32 bar, float a, float b) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::
          "r"(to),
      "f"(a), "f"(b), "r"(bar)
      : "memory");
}
__device__ __forceinline__ void store_async_4(u32 to, u32 bar, u32 v) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
      "r"(v), "r"(bar)
      : "memory");
}
__device__ __forceinline__ void mbarrier_wait_cluster(u32 bar, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n"
      "}" ::"r"(bar),
      "r"(parity)
      : "memory");
}

// ---- between blocks ----------------------------------------------------------------------------
// What this thread wrote, or saw written at a barrier of its block, is visible to whoever sees the
// sum.
__device__ __forceinline__ void add_release(int* to, int n) {
  asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(to), "r"(n) : "memory");
}
__device__ __forceinline__ void wait_at_least(const int* p, int n) {
  int v;
  do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  while (v < n);
}

// ---- matrix fragments --------------------------------------------------------------------------
// Two 8x8 matrices of b16, stored transposed; lane i of 0..15 gives the address of row i%8 of
// matrix i/8.
__device__ __forceinline__ void store_matrix_x2_trans(u32 to, u32 a, u32 b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(a),
               "r"(b)
               : "memory");
}
__device__ __forceinline__ void store_matrix_x4_trans(u32 to, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
// Four 8x8 matrices of b16: lane i gives the address of row i%8 of matrix i/8, and of each matrix
// brings the two elements 2(i%4) of row i/4.
__device__ __forceinline__ void store_matrix_x4(u32 to, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a),
               "r"(b), "r"(c), "r"(d)
               : "memory");
}
// Four 8x8 matrices of b16: lane i gives the address of row i%8 of matrix i/8, and gets of each
// matrix the two elements 2(i%4) of row i/4.
__device__ __forceinline__ void load_matrix_x4(u32 (&to)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}
// {low, high} as bf16, round to nearest even.
__device__ __forceinline__ u32 pack_bf16(float low, float high) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
// The larger of each of two bf16; a NaN only where both are.
__device__ __forceinline__ u32 max_bf16_2(u32 a, u32 b) {
  u32 v;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}
// {low, high} as e4m3, round to nearest even, saturating; NaN stays NaN.
__device__ __forceinline__ u16 pack_e4m3(float low, float high) {
  u16 packed;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
  return packed;
}

// ---- approximate functions ---------------------------------------------------------------------
// Two to the x and 1 / x, to about 22 bits; results too small for a normal number are 0.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// 1 / x to the last bit where x and the result are normal; __frcp_rn branches for those that
// aren't.
__device__ __forceinline__ float reciprocal(float x) {
  const float about = reciprocal_approx(x);
  return fmaf(-fmaf(x, about, -1.0f), about, about);
}

// ---- loads that skip L1 ------------------------------------------------------------------------
__device__ __forceinline__ int load_cg(const int* p) {
  int v;
  asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ float load_cg(const float* p) {
  float v;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ int2 load_cg(const int2* p) {
  int2 v;
  asm volatile("ld.global.cg.v2.s32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ int4 load_cg(const int4* p) {
  int4 v;
  asm volatile("ld.global.cg.v4.s32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}

}  // namespace ramp
