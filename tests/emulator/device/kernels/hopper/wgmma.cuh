// SPDX-License-Identifier: Apache-2.0
// The tensor core of src/kernels/hopper/wgmma.cuh, done by the emulator: exact products, summed in
// FP32 (the real one keeps about 14 bits past the largest).
#pragma once

#include <array>

#include "kernels/hopper/descriptor.cuh"
#include "kernels/hopper/ptx.cuh"

namespace ramp {

inline void wgmma_fence() {}
inline void wgmma_commit() { emulator::multiplies_commit(); }
template <int kPending>
void wgmma_wait() {
  emulator::multiplies_wait(kPending);
}

inline float e4m3_value(u8 code) {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> t{};
    for (int q = 0; q < 256; ++q) t[static_cast<std::size_t>(q)] = from_e4m3(static_cast<u8>(q));
    return t;
  }();
  return values[code];
}

// 32 values of a K-major operand's row, through the descriptor's swizzle.
inline void read_operand(u64 descriptor, int row, float (&to)[32]) {
  if (descriptor >> 62 != 1) emulator::violate("a descriptor without the 128-byte swizzle");
  const u32 start = static_cast<u32>(descriptor & 0x3fff) << 4;
  const u32 eight_rows = static_cast<u32>(descriptor >> 32 & 0x3fff) << 4;
  const u32 at = start + static_cast<u32>(row / 8) * eight_rows + static_cast<u32>(row % 8) * 128;
  for (u32 half = 0; half < 2; ++half) {
    const u32 chunk = at + half * 16;
    const char* from = emulator::shared_pointer(chunk ^ (chunk / 128 % 8 * 16), 16);
    for (u32 i = 0; i < 16; ++i) to[half * 16 + i] = e4m3_value(static_cast<u8>(from[i]));
  }
}

// Rows lane / 4 and lane / 4 + 8 of the warp's 16 times B; weights(i) gives one of them when it is
// needed.
template <int N, class Weights>
void multiply(float (&d)[N / 2], u64 b, int accumulate, const Weights& weights) {
  const int lane = threadIdx.x % 32;
  emulator::multiply_later([&d, b, accumulate, lane, weights] {
    float rows[2][32];
    for (int i = 0; i < 2; ++i) weights(i, rows[i]);
    for (int j = 0; j < N / 8; ++j)
      for (int t = 0; t < 2; ++t) {
        float x[32];
        read_operand(b, 8 * j + 2 * (lane % 4) + t, x);
        for (int i = 0; i < 2; ++i) {
          float& to = d[4 * j + 2 * i + t];
          float sum = accumulate ? to : 0.0f;
          for (int k = 0; k < 32; ++k) sum += rows[i][k] * x[k];
          to = sum;
        }
      }
  });
}

template <int N>
void wgmma(float (&d)[N / 2], u64 a, u64 b, int accumulate) {
  const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
  multiply<N>(d, b, accumulate,
              [a, row](int i, float(&to)[32]) { read_operand(a, row + 8 * i, to); });
}

// PTX ISA, "wgmma", A in registers: a thread has 4 columns of its rows, and of 16 columns further.
template <int N>
void wgmma(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate) {
  const int four = threadIdx.x % 32 / 4 * 4;
  std::array<std::array<u32, 8>, 2> words;
  for (int m = 0; m < 4; ++m) {
    const std::uint64_t* all = emulator::exchange("wgmma's fragments", a[m]);
    for (int q = 0; q < 4; ++q)
      words[static_cast<std::size_t>(m % 2)][static_cast<std::size_t>(m / 2 * 4 + q)] =
          static_cast<u32>(all[four + q]);
  }
  multiply<N>(d, b, accumulate, [words](int i, float(&to)[32]) {
    for (int k = 0; k < 32; ++k)
      to[k] = e4m3_value(static_cast<u8>(
          words[static_cast<std::size_t>(i)][static_cast<std::size_t>(k / 4)] >> (k % 4 * 8)));
  });
}

}  // namespace ramp
