// SPDX-License-Identifier: Apache-2.0
// What CUDA C++ has and C++ has not, as far as the kernels use it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "tests/emulator/thread.hpp"

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)
// A block has a host thread of its own, so a variable of the block is one of the thread.
#define __shared__ thread_local

#define threadIdx (::ramp::emulator::place().thread)
#define blockIdx (::ramp::emulator::place().block)
#define gridDim (::ramp::emulator::place().blocks)

struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

inline int min(int a, int b) { return std::min(a, b); }
inline int max(int a, int b) { return std::max(a, b); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __expf(float a) { return std::exp(a); }
inline unsigned __float_as_uint(float a) { return std::bit_cast<unsigned>(a); }
inline int __float_as_int(float a) { return std::bit_cast<int>(a); }
inline float __uint_as_float(unsigned a) { return std::bit_cast<float>(a); }
inline int __popc(unsigned a) { return std::popcount(a); }
inline int __ffs(unsigned a) { return a ? std::countr_zero(a) + 1 : 0; }

inline void __syncthreads() { ramp::emulator::block_barrier(); }
inline void __syncwarp() { ramp::emulator::exchange("__syncwarp", 0); }

template <class T>
T shuffle(const char* kind, T value, int from) {
  static_assert(sizeof(T) == 4);
  const std::uint64_t* all = ramp::emulator::exchange(kind, std::bit_cast<unsigned>(value));
  return std::bit_cast<T>(static_cast<unsigned>(all[from]));
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return shuffle("__shfl_sync", value, lane);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return shuffle("__shfl_xor_sync", value, (threadIdx.x % 32) ^ mask);
}
template <class T>
T __shfl_up_sync(unsigned, T value, int by) {
  const int lane = threadIdx.x % 32;
  return shuffle("__shfl_up_sync", value, lane >= by ? lane - by : lane);
}
inline unsigned __ballot_sync(unsigned, bool value) {
  const std::uint64_t* all = ramp::emulator::exchange("__ballot_sync", value);
  unsigned mask = 0;
  for (int i = 0; i < 32; ++i) mask |= static_cast<unsigned>(all[i]) << i;
  return mask;
}
inline unsigned __match_any_sync(unsigned, int value) {
  const std::uint64_t mine = static_cast<unsigned>(value);
  const std::uint64_t* all = ramp::emulator::exchange("__match_any_sync", mine);
  unsigned mask = 0;
  for (int i = 0; i < 32; ++i) mask |= static_cast<unsigned>(all[i] == mine) << i;
  return mask;
}
inline int __reduce_add_sync(unsigned, int value) {
  const std::uint64_t* all =
      ramp::emulator::exchange("__reduce_add_sync", static_cast<unsigned>(value));
  unsigned sum = 0;
  for (int i = 0; i < 32; ++i) sum += static_cast<unsigned>(all[i]);
  return static_cast<int>(sum);
}

inline unsigned __reduce_min_sync(unsigned, unsigned value) {
  const std::uint64_t* all = ramp::emulator::exchange("__reduce_min_sync", value);
  return static_cast<unsigned>(*std::min_element(all, all + 32));
}

// One emulated thread runs at a time, so plain memory is atomic.
template <class T, class U>
T atomicAdd(T* to, U value) {
  const T before = *to;
  *to = static_cast<T>(before + static_cast<T>(value));
  return before;
}
