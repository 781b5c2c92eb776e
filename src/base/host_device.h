// SPDX-License-Identifier: Apache-2.0
// Shared by host and device code (NVRTC has no <cstdint>): the decorations of functions that both
// compile.
#pragma once

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#define RAMP_HD __host__ __device__ __forceinline__
#else
#define RAMP_HD inline
#endif

namespace ramp {

RAMP_HD constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
RAMP_HD constexpr int round_up(int a, int b) { return ceil_div(a, b) * b; }

}  // namespace ramp
