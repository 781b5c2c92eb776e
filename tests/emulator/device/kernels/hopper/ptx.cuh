// SPDX-License-Identifier: Apache-2.0
// The instructions of src/kernels/hopper/ptx.cuh, done by the emulator.
#pragma once

#include <array>
#include <cmath>
#include <cstring>

#include "gpu/tensor_map.hpp"
#include "kernels/numeric.h"
#include "tests/emulator/device/cuda_language.hpp"

namespace ramp {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

inline u32 smem_u32(const void* p) { return emulator::shared_address(p); }

// Nobody waits for a time here: it flies.
inline u64 global_ns() {
  static thread_local u64 now = 0;
  return now += 1000000;
}

inline int uniform(int v) { return __shfl_sync(~0u, v, 0); }
inline int computed(int v) { return v; }

inline void launch_dependents() { emulator::launch_dependents(); }
inline void wait_for_dependencies() { emulator::wait_for_dependencies(); }

template <int kRegisters>
void give_registers() {}
template <int kRegisters>
void take_registers() {}
inline void named_barrier(int id, int threads) { emulator::named_barrier(id, threads); }

// ---- mbarrier ----------------------------------------------------------------------------------
inline void mbarrier_init(u32 bar, int arrivals) { emulator::barrier_init(bar, arrivals); }
inline void fence_mbarrier_init() {}
inline void mbarrier_arrive(u32 bar) { emulator::barrier_arrive(bar, 0); }
inline void mbarrier_arrive(u32 bar, int times) {
  for (int i = 0; i < times; ++i) emulator::barrier_arrive(bar, 0);
}
inline void mbarrier_arrive_expect(u32 bar, int bytes) { emulator::barrier_arrive(bar, bytes); }
inline void mbarrier_expect(u32 bar, int bytes) { emulator::barrier_expect(bar, bytes); }
inline void mbarrier_wait(u32 bar, u32 parity) { emulator::barrier_wait(bar, parity); }
inline void mbarrier_wait_cluster(u32 bar, u32 parity) { emulator::barrier_wait(bar, parity); }

// ---- copies ------------------------------------------------------------------------------------
inline u64 policy_evict_first() { return 0; }
inline u64 policy_evict_normal() { return 0; }

// A map holds the address of what it was made from (layer.cpp).  Boxes begin on 16 bytes and are
// copied 16 at a time; `swizzle` lets the chunks of 128 bytes change places by the row's number.
inline void tma_load(u32 to, const void* map, u32 bar, const std::array<int, 4>& at) {
  const gpu::TensorMapSpec& spec = **static_cast<const gpu::TensorMapSpec* const*>(map);
  std::array<std::int64_t, 4> box{1, 1, 1, 1}, dims{1, 1, 1, 1}, strides{1, 0, 0, 0};
  for (std::size_t i = 0; i < static_cast<std::size_t>(spec.rank); ++i) {
    box[i] = spec.box[i];
    dims[i] = static_cast<std::int64_t>(spec.dims[i]);
    if (i > 0) strides[i] = static_cast<std::int64_t>(spec.strides_bytes[i - 1]);
  }
  const bool swizzled = spec.swizzle == gpu::Swizzle::k128B;
  if (swizzled && (to % 128 || box[0] != 128)) emulator::violate("a swizzled box not of 128 bytes");
  if (at[0] % 16) emulator::violate("a box that does not begin on 16 bytes");
  const std::size_t bytes = static_cast<std::size_t>(box[0] * box[1] * box[2] * box[3]);
  emulator::land_later(to, bar, bytes, [=, start = spec.address](char* place) {
    u32 offset = 0;
    for (std::int64_t l = 0; l < box[3]; ++l)
      for (std::int64_t k = 0; k < box[2]; ++k)
        for (std::int64_t j = 0; j < box[1]; ++j)
          for (std::int64_t i = 0; i < box[0]; i += 16, offset += 16) {
            const std::int64_t c[4] = {at[0] + i, at[1] + j, at[2] + k, at[3] + l};
            bool inside = true;
            std::int64_t from = 0;
            for (std::size_t n = 0; n < 4; ++n) {
              inside &= c[n] >= 0 && c[n] < dims[n];
              from += c[n] * strides[n];
            }
            char* chunk = place + (swizzled ? offset ^ ((to + offset) / 128 % 8 * 16) : offset);
            if (inside)
              std::memcpy(chunk, reinterpret_cast<const char*>(start) + from, 16);
            else
              std::memset(chunk, 0, 16);
          }
  });
}
inline void tma_load_2d(u32 to, const void* map, u32 bar, int c0, int c1) {
  tma_load(to, map, bar, {c0, c1, 0, 0});
}
inline void tma_load_3d(u32 to, const void* map, u32 bar, int c0, int c1, int c2, u64) {
  tma_load(to, map, bar, {c0, c1, c2, 0});
}
inline void tma_load_4d(u32 to, const void* map, u32 bar, int c0, int c1, int c2, int c3, u64) {
  tma_load(to, map, bar, {c0, c1, c2, c3});
}
inline void tma_load_3d_both(u32 to, const void* map, u32 bar, int c0, int c1, int c2, u64) {
  for (u32 rank : {0u, 1u})
    tma_load(emulator::address_in_rank(to, rank), map, emulator::address_in_rank(bar, rank),
             {c0, c1, c2, 0});
}
inline void tma_load_4d_both(u32 to, const void* map, u32 bar, int c0, int c1, int c2, int c3,
                             u64) {
  for (u32 rank : {0u, 1u})
    tma_load(emulator::address_in_rank(to, rank), map, emulator::address_in_rank(bar, rank),
             {c0, c1, c2, c3});
}

inline void bulk_load(u32 to, const void* from, u32 bar, int bytes) {
  if (bytes % 16 || to % 16 || reinterpret_cast<std::uintptr_t>(from) % 16)
    emulator::violate("a bulk copy that is not on 16 bytes");
  const auto size = static_cast<std::size_t>(bytes);
  emulator::land_later(to, bar, size,
                       [from, size](char* place) { std::memcpy(place, from, size); });
}
inline u32 max_bf16_2(u32 a, u32 b) {
  u32 both = 0;
  for (int at : {0, 16}) {
    const auto x = static_cast<u16>(a >> at), y = static_cast<u16>(b >> at);
    const float v = std::fmax(from_bf16(x), from_bf16(y));
    both |= static_cast<u32>(to_bf16(v)) << at;
  }
  return both;
}
inline void copy_async_16(u32 to, const void* from) { emulator::copy_later(to, from, 16); }
inline void copy_async_4(u32 to, const void* from) { emulator::copy_later(to, from, 4); }
inline void copy_async_arrive(u32 bar) { emulator::copies_arrive(bar); }

inline void bulk_add_bf16(void* to, u32 from, int bytes) {
  if (bytes % 16 || from % 16 || reinterpret_cast<std::uintptr_t>(to) % 16)
    emulator::violate("a bulk reduction that is not on 16 bytes");
  emulator::reduce_later(from, static_cast<std::size_t>(bytes), [to, bytes](const char* read) {
    auto* sums = static_cast<u16*>(to);
    for (int i = 0; i < bytes / 2; ++i) {
      u16 addend;
      std::memcpy(&addend, read + 2 * i, 2);
      sums[i] = to_bf16(from_bf16(sums[i]) + from_bf16(addend));
    }
  });
}
inline void add_bf16_8(void* to, const uint4& v) {
  if (reinterpret_cast<std::uintptr_t>(to) % 16)
    emulator::violate("an addition of eight that is not on 16 bytes");
  u16 addend[8];
  std::memcpy(addend, &v, sizeof addend);
  auto* sums = static_cast<u16*>(to);
  for (int i = 0; i < 8; ++i) sums[i] = to_bf16(from_bf16(sums[i]) + from_bf16(addend[i]));
}
inline void bulk_commit() { emulator::reductions_commit(); }
inline void bulk_wait_read() { emulator::reductions_wait(false); }
inline void bulk_wait() { emulator::reductions_wait(true); }
inline void fence_proxy_async() {}
inline void fence_proxy_async_global() {}

inline void store_shared_4(u32 to, u32 v) { std::memcpy(emulator::shared_pointer(to, 4), &v, 4); }
inline void store_shared_2(u32 to, u16 v) { std::memcpy(emulator::shared_pointer(to, 2), &v, 2); }
inline void store_shared_1(u32 to, u16 v) { std::memcpy(emulator::shared_pointer(to, 1), &v, 1); }

// ---- clusters ----------------------------------------------------------------------------------
inline void cluster_sync() { emulator::cluster_barrier(); }
inline u32 map_to_rank(u32 smem, u32 rank) { return emulator::address_in_rank(smem, rank); }
inline void mbarrier_arrive_cluster(u32 mapped) { emulator::barrier_arrive(mapped, 0); }
inline void store_async_8(u32 to, u32 bar, float a, float b) {
  emulator::land_later(to, bar, 8, [a, b](char* place) {
    const float two[2] = {a, b};
    std::memcpy(place, two, 8);
  });
}
inline void store_async_4(u32 to, u32 bar, u32 v) {
  emulator::land_later(to, bar, 4, [v](char* place) { std::memcpy(place, &v, 4); });
}

// ---- between blocks ----------------------------------------------------------------------------
// Blocks take turns, so memory is the same for all.
inline void add_release(int* to, int n) { *to += n; }
inline void wait_at_least(const int* p, int n) {
  emulator::wait_until([p, n] { return *p >= n; }, "a word in memory", static_cast<u64>(n));
}

// ---- matrix fragments --------------------------------------------------------------------------
// PTX ISA, "stmatrix": matrix m's row r is at the address that lane 8m + r gives; transposed, lane
// l holds elements (2 * (l % 4) + {0, 1}, l / 4) of each.
inline void store_matrix_trans(u32 to, const u32* fragment, int matrices) {
  const int lane = threadIdx.x % 32;
  u32 row_at[32];
  const std::uint64_t* all = emulator::exchange("stmatrix", to);
  for (int i = 0; i < 32; ++i) row_at[i] = static_cast<u32>(all[i]);
  for (int m = 0; m < matrices; ++m)
    for (int i = 0; i < 2; ++i) {
      const int row = lane % 4 * 2 + i, column = lane / 4;
      const u16 half = static_cast<u16>(fragment[m] >> (16 * i));
      std::memcpy(emulator::shared_pointer(row_at[8 * m + row] + static_cast<u32>(column) * 2, 2),
                  &half, 2);
    }
}
inline void store_matrix_x2_trans(u32 to, u32 a, u32 b) {
  const u32 fragment[] = {a, b};
  store_matrix_trans(to, fragment, 2);
}
inline void store_matrix_x4_trans(u32 to, u32 a, u32 b, u32 c, u32 d) {
  const u32 fragment[] = {a, b, c, d};
  store_matrix_trans(to, fragment, 4);
}
inline void store_matrix_x4(u32 to, u32 a, u32 b, u32 c, u32 d) {
  const u32 fragment[] = {a, b, c, d};
  const int lane = threadIdx.x % 32;
  const std::uint64_t* all = emulator::exchange("stmatrix", to);
  u32 row_at[4];
  for (int m = 0; m < 4; ++m) row_at[m] = static_cast<u32>(all[8 * m + lane / 4]);
  for (int m = 0; m < 4; ++m)
    std::memcpy(emulator::shared_pointer(row_at[m] + static_cast<u32>(lane % 4) * 4, 4),
                &fragment[m], 4);
}
// PTX ISA, "ldmatrix": matrix m's row r is at the address that lane 8m + r gives; lane l gets the 4
// bytes l % 4 of row l / 4 of each.
inline void load_matrix_x4(u32 (&to)[4], u32 from) {
  const int lane = threadIdx.x % 32;
  const std::uint64_t* all = emulator::exchange("ldmatrix", from);
  u32 row_at[4];
  for (int m = 0; m < 4; ++m) row_at[m] = static_cast<u32>(all[8 * m + lane / 4]);
  for (int m = 0; m < 4; ++m)
    std::memcpy(&to[m], emulator::shared_pointer(row_at[m] + static_cast<u32>(lane % 4) * 4, 4), 4);
}
inline u32 pack_bf16(float low, float high) {
  return to_bf16(low) | static_cast<u32>(to_bf16(high)) << 16;
}
inline u16 pack_e4m3(float low, float high) {
  return static_cast<u16>(to_e4m3(low) | to_e4m3(high) << 8);
}

inline float exp2_approx(float x) { return std::exp2(x); }
inline float reciprocal_approx(float x) { return 1.0f / x; }
inline float reciprocal(float x) { return 1.0f / x; }

template <class T>
T load_cg(const T* p) {
  return *p;
}

}  // namespace ramp
