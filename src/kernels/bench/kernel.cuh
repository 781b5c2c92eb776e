// SPDX-License-Identifier: Apache-2.0
// What stands around the kernels when they are checked and timed: a stand-in for the router, random
// weights and rows, a gate that holds a stream back until everything behind it is queued.
#pragma once

#include "kernels/hopper/ptx.cuh"

namespace ramp {

// A hash of 64 bits (the finaliser of splitmix64).
__device__ __forceinline__ u64 mix_bits(u64 x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Nearly normal, |value| below 3.46: the sum of four bytes of a hash, mean 0, variance 1.
__device__ __forceinline__ float normal_of(u32 bits) {
  const int sum = (bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24);
  return (sum - 510) * (1.0f / 147.8f);
}

__device__ __forceinline__ void copy_ids(int* to, const int* from, int ids) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < ids; i += gridDim.x * blockDim.x)
    to[i] = from[i];
}

}  // namespace ramp

// The router as a serving engine that knows of programmatic launch would write it.
extern "C" __global__ void ramp_write_ids(int* to, const int* from, int ids) {
  ramp::launch_dependents();
  ramp::wait_for_dependencies();
  ramp::copy_ids(to, from, ids);
}

// The router as a foreign kernel: launched without the attribute, never triggers.
extern "C" __global__ void ramp_write_ids_foreign(int* to, const int* from, int ids) {
  ramp::copy_ids(to, from, ids);
}

// e4m3 weights: normal with standard deviation 112, so that a block of 128 x 128 reaches about
// 3.46 sigma = 388 of 448, as quantised weights do.  `words` of 8 bytes.
extern "C" __global__ void ramp_random_e4m3(unsigned long long* to, unsigned long long words,
                                            unsigned long long seed) {
  using namespace ramp;
  const u64 step = static_cast<u64>(gridDim.x) * blockDim.x;
  for (u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += step) {
    u64 word = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const u64 bits = mix_bits(seed * 0x9e3779b97f4a7c15ull + i * 4 + j);
      const u64 two = pack_e4m3(112.0f * normal_of(static_cast<u32>(bits)),
                                112.0f * normal_of(static_cast<u32>(bits >> 32)));
      word |= two << (16 * j);
    }
    to[i] = word;
  }
}

// Scales between half and one and a half of `middle`.
extern "C" __global__ void ramp_random_scales(float* to, unsigned long long values, float middle,
                                              unsigned long long seed) {
  using namespace ramp;
  const u64 step = static_cast<u64>(gridDim.x) * blockDim.x;
  for (u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; i < values; i += step)
    to[i] = middle * (0.5f + (mix_bits(seed * 0x9e3779b97f4a7c15ull + i) >> 40) * 0x1p-24f);
}

// bf16 rows, standard normal; `words` of two values.
extern "C" __global__ void ramp_random_bf16(unsigned* to, unsigned long long words,
                                            unsigned long long seed) {
  using namespace ramp;
  const u64 step = static_cast<u64>(gridDim.x) * blockDim.x;
  for (u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += step) {
    const u64 bits = mix_bits(seed * 0x9e3779b97f4a7c15ull + i);
    to[i] = pack_bf16(normal_of(static_cast<u32>(bits)), normal_of(static_cast<u32>(bits >> 32)));
  }
}

// Sets words[i] of a list of addresses to 0: claim counters before a graph of layers on ready
// lists.
extern "C" __global__ void ramp_rearm(int* const* words, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) *words[i] = 0;
}

// Returns when the host has set *open, or after `limit_ns`: a stuck gate must not stick the GPU.
extern "C" __global__ void ramp_gate(const volatile int* open, unsigned long long limit_ns) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (*open == 0 && now - begin < limit_ns);
}

// Nothing: what a launch costs.
extern "C" __global__ void ramp_empty() {
  ramp::launch_dependents();
  ramp::wait_for_dependencies();
}
