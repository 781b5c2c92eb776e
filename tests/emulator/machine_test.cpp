// SPDX-License-Identifier: Apache-2.0
// The emulator finds what it is there to find: every kind of mistake, made on purpose.
#include "tests/emulator/machine.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/hopper/wgmma.cuh"

namespace ramp::emulator {
namespace {

alignas(1024) thread_local char memory[232448];

Launch launch_of(const char* name, int threads, std::function<void()> body) {
  Launch launch;
  launch.name = name;
  launch.threads = threads;
  launch.shared_bytes = 4096;
  launch.shared = [] { return memory; };
  launch.body = std::move(body);
  return launch;
}

// The violation's text, or "" when every one of the seeds passed.
std::string violation_of(const std::vector<Launch>& launches, int seeds = 1) {
  try {
    for (int seed = 1; seed <= seeds; ++seed) run(launches, static_cast<std::uint64_t>(seed));
  } catch (const Violation& v) {
    return v.what();
  }
  return "";
}

TEST(Machine, NamesWhoWaitsForWhatWhenNobodyCanRun) {
  const std::string text = violation_of({launch_of("stuck", 64, [] {
    const u32 bar = smem_u32(memory);
    if (threadIdx.x == 0) mbarrier_init(bar, 65);  // one arrival too many
    __syncthreads();
    mbarrier_arrive(bar);
    mbarrier_wait(bar, 0);
  })});
  EXPECT_NE(text.find("deadlock"), std::string::npos) << text;
  EXPECT_NE(text.find("stuck block 0 warp 1: mbarrier"), std::string::npos) << text;
}

TEST(Machine, RefusesOneArrivalTooMany) {
  const std::string text = violation_of({launch_of("eager", 1, [] {
    const u32 bar = smem_u32(memory);
    mbarrier_init(bar, 1);
    mbarrier_arrive_expect(bar, 16);  // the phase stays open: its bytes never come
    mbarrier_arrive(bar);
  })});
  EXPECT_NE(text.find("more arrivals"), std::string::npos) << text;
}

TEST(Machine, RefusesLanesThatMeetInDifferentPlaces) {
  const std::string text = violation_of({launch_of("apart", 32, [] {
    if (threadIdx.x % 2)
      __syncwarp();
    else
      __shfl_sync(~0u, 1, 0);
  })});
  EXPECT_NE(text.find("lanes of a warp meet"), std::string::npos) << text;
}

TEST(Machine, SeesWritesBehindTheSharedMemoryThatWasAskedFor) {
  EXPECT_NE(violation_of({launch_of("long", 1, [] { memory[4096] = 1; })}).find("byte 4096"),
            std::string::npos);
  EXPECT_NE(violation_of({launch_of("far", 1, [] { store_shared_4(smem_u32(memory) + 4096, 1); })})
                .find("shared address"),
            std::string::npos);
}

// A copy of 16 floats, read with or without the wait.
float first_read(bool wait, std::uint64_t seed) {
  alignas(16) float from[16];
  std::fill(std::begin(from), std::end(from), 1.0f);
  float seen = 0;
  run({launch_of("copy", 1,
                 [&] {
                   const u32 bar = smem_u32(memory), to = smem_u32(memory + 1024);
                   mbarrier_init(bar, 1);
                   copy_async_16(to, from);
                   copy_async_arrive(bar);
                   if (wait) mbarrier_wait(bar, 0);
                   seen = *reinterpret_cast<float*>(memory + 1024);
                   if (!wait) mbarrier_wait(bar, 0);
                 })},
      seed);
  return seen;
}

TEST(Machine, WhatHasNotLandedIsNaN) {
  EXPECT_EQ(first_read(true, 1), 1.0f);
  EXPECT_TRUE(std::isnan(first_read(false, 1)));
}

TEST(Machine, AThreadMayNotEndBeforeItsCopies) {
  EXPECT_NE(violation_of({launch_of("leaves", 1,
                                    [] {
                                      static const int from[4] = {};
                                      copy_async_16(smem_u32(memory + 1024), from);
                                    })})
                .find("nobody waits for"),
            std::string::npos);
}

TEST(Machine, SendingToABlockThatHasEndedIsSeenBySomeSeed) {
  Launch launch = launch_of("parting", 1, [] {
    const u32 bar = smem_u32(memory), to = smem_u32(memory + 1024);
    mbarrier_init(bar, 1);
    cluster_sync();
    if (blockIdx.x == 0) store_async_4(map_to_rank(to, 1), map_to_rank(bar, 1), 7);
    // Block 1 should wait for the four bytes here.
  });
  launch.blocks = launch.cluster = 2;
  EXPECT_NE(violation_of({launch}, 50).find("has ended"), std::string::npos);
}

TEST(Machine, ALaunchThatDoesNotWaitRunsBesideTheOneBefore) {
  int value = 0;
  bool early = false;
  const Launch writer = launch_of("writer", 32, [&] {
    launch_dependents();
    for (int i = 0; i < 20; ++i) __syncwarp();
    value = 1;
  });
  const auto reader = [&](bool waits) {
    return launch_of("reader", 1, [&early, &value, waits] {
      if (waits) wait_for_dependencies();
      early |= value == 0;
      value = 0;
    });
  };
  for (std::uint64_t seed = 1; seed <= 20; ++seed) run({writer, reader(true)}, seed);
  EXPECT_FALSE(early);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) run({writer, reader(false)}, seed);
  EXPECT_TRUE(early);
}

TEST(Machine, ATensorCoreTimesThroughTheSwizzleGivesTheProduct) {
  // 64 x 32 weights and 8 x 32 rows with values that e4m3 has; row r of a matrix is 128 bytes.
  float want[64][8] = {}, got[64][8];
  const auto weight = [](int r, int k) { return static_cast<float>((r * 7 + k * 3) % 9 - 4); };
  const auto row = [](int t, int k) { return static_cast<float>((t * 5 + k) % 7 - 3); };
  for (int r = 0; r < 64; ++r)
    for (int t = 0; t < 8; ++t)
      for (int k = 0; k < 32; ++k) want[r][t] += weight(r, k) * row(t, k);
  Launch launch = launch_of("multiply", 128, [&] {
    char* base = memory + 1024;
    const u32 a = smem_u32(base), b = a + 8192;
    const auto put = [&](int at, int r, int k, float value) {
      const int byte = r * 128 + k;
      base[at + (byte ^ (byte / 128 % 8 * 16))] = static_cast<char>(to_e4m3(value));
    };
    for (int i = threadIdx.x; i < 64 * 32; i += 128) put(0, i / 32, i % 32, weight(i / 32, i % 32));
    for (int i = threadIdx.x; i < 8 * 32; i += 128) put(8192, i / 32, i % 32, row(i / 32, i % 32));
    __syncthreads();
    float d[4];
    wgmma<8>(d, matrix_descriptor(a), matrix_descriptor(b), 0);
    wgmma_commit();
    wgmma_wait<0>();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 0; i < 4; ++i) got[warp * 16 + lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = d[i];
  });
  launch.shared_bytes = 16384;
  run({launch}, 3);
  for (int r = 0; r < 64; ++r)
    for (int t = 0; t < 8; ++t) EXPECT_EQ(got[r][t], want[r][t]) << r << ", " << t;
}

}  // namespace
}  // namespace ramp::emulator
