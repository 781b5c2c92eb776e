// SPDX-License-Identifier: Apache-2.0
// wgmma m64nNk32 of e4m3 into FP32, operands in shared memory, K-major with the 128-byte swizzle.
//
// A is 64 weight rows, B is N token rows ("swap-AB").  A may also stand in registers: warp w, lane
// l holds a[0] = row 16w + l/4, columns 4(l%4) .. + 3, a[1] the same of row + 8, a[2] and a[3] of
// columns + 16, as load_matrix_x4 brings them.  Of the 64 x N result a thread of warp w (of
// 4), lane l, holds d[4j + {0,1}] = row 16w + l/4, tokens 8j + 2(l%4) + {0,1}, and d[4j + {2,3}]
// the same of row 16w + l/4 + 8.
#pragma once

#include "kernels/hopper/descriptor.cuh"
#include "kernels/hopper/ptx.cuh"

namespace ramp {

__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// At most kPending groups are still running.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// d = a * b (+ d if accumulate).
template <int N>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], u64 a, u64 b, int accumulate);

template <int N>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate);

#define RAMP_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define RAMP_D16(i) RAMP_D4(i), RAMP_D4(i + 4), RAMP_D4(i + 8), RAMP_D4(i + 12)
// N, the N/2 result registers, the numbers of the three inputs after them where A is a descriptor,
// those of the six where it is registers, the result operands.
#define RAMP_WGMMA(N, REGS, A, B, P, A1, A2, A3, BR, PR, ...)                                 \
  template <>                                                                                 \
  __device__ __forceinline__ void wgmma<N>(float(&d)[N / 2], u64 a, u64 b, int accumulate) {  \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #P                                        \
                 ", 0;\n"                                                                     \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" REGS "}, %" #A  \
                 ", %" #B ", p, 1, 1; }"                                                      \
                 : __VA_ARGS__                                                                \
                 : "l"(a), "l"(b), "r"(accumulate));                                          \
  }                                                                                           \
  template <>                                                                                 \
  __device__ __forceinline__ void wgmma<N>(float(&d)[N / 2], const u32(&a)[4], u64 b,         \
                                           int accumulate) {                                  \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #PR                                       \
                 ", 0;\n"                                                                     \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" REGS "}, {%" #A \
                 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #BR ", p, 1, 1; }"                      \
                 : __VA_ARGS__                                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));      \
  }
#define RAMP_R0_3 "%0, %1, %2, %3"
#define RAMP_R4_7 "%4, %5, %6, %7"
#define RAMP_R8_11 "%8, %9, %10, %11"
#define RAMP_R12_15 "%12, %13, %14, %15"
#define RAMP_R16_19 "%16, %17, %18, %19"
#define RAMP_R20_23 "%20, %21, %22, %23"
#define RAMP_R24_27 "%24, %25, %26, %27"
#define RAMP_R28_31 "%28, %29, %30, %31"
#define RAMP_R32_47 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define RAMP_R48_63 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define RAMP_R0_15 RAMP_R0_3 ", " RAMP_R4_7 ", " RAMP_R8_11 ", " RAMP_R12_15

RAMP_WGMMA(8, RAMP_R0_3, 4, 5, 6, 5, 6, 7, 8, 9, RAMP_D4(0))
RAMP_WGMMA(16, RAMP_R0_3 ", " RAMP_R4_7, 8, 9, 10, 9, 10, 11, 12, 13, RAMP_D4(0), RAMP_D4(4))
RAMP_WGMMA(24, RAMP_R0_3 ", " RAMP_R4_7 ", " RAMP_R8_11, 12, 13, 14, 13, 14, 15, 16, 17, RAMP_D4(0),
           RAMP_D4(4), RAMP_D4(8))
RAMP_WGMMA(32, RAMP_R0_15, 16, 17, 18, 17, 18, 19, 20, 21, RAMP_D16(0))
RAMP_WGMMA(40, RAMP_R0_15 ", " RAMP_R16_19, 20, 21, 22, 21, 22, 23, 24, 25, RAMP_D16(0),
           RAMP_D4(16))
RAMP_WGMMA(48, RAMP_R0_15 ", " RAMP_R16_19 ", " RAMP_R20_23, 24, 25, 26, 25, 26, 27, 28, 29,
           RAMP_D16(0), RAMP_D4(16), RAMP_D4(20))
RAMP_WGMMA(64, RAMP_R0_15 ", " RAMP_R16_19 ", " RAMP_R20_23 ", " RAMP_R24_27 ", " RAMP_R28_31, 32,
           33, 34, 33, 34, 35, 36, 37, RAMP_D16(0), RAMP_D16(16))
RAMP_WGMMA(128,
           RAMP_R0_15 ", " RAMP_R16_19 ", " RAMP_R20_23 ", " RAMP_R24_27 ", " RAMP_R28_31
                      ", " RAMP_R32_47 ", " RAMP_R48_63,
           64, 65, 66, 65, 66, 67, 68, 69, RAMP_D16(0), RAMP_D16(16), RAMP_D16(32), RAMP_D16(48))

#undef RAMP_WGMMA
#undef RAMP_D4
#undef RAMP_D16
#undef RAMP_R0_3
#undef RAMP_R4_7
#undef RAMP_R8_11
#undef RAMP_R12_15
#undef RAMP_R16_19
#undef RAMP_R20_23
#undef RAMP_R24_27
#undef RAMP_R28_31
#undef RAMP_R32_47
#undef RAMP_R48_63
#undef RAMP_R0_15

}  // namespace ramp
