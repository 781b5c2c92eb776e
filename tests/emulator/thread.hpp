// SPDX-License-Identifier: Apache-2.0
// What an emulated thread can ask of its machine: the device headers are written on this.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ramp::emulator {

struct Dim3 {
  int x, y, z;
};
struct Place {
  Dim3 thread, block, blocks;
};
const Place& place();

[[noreturn]] void violate(const std::string& what);

// Suspends the thread until `ready` holds; `what` names the wait in a deadlock's report.
void wait_until(std::function<bool()> ready, const char* what, std::uint64_t a = 0,
                std::uint64_t b = 0);

// ---- warps and blocks
// All 32 lanes bring a value and get everybody's.  Lanes that meet in different `kind`s are a
// violation.
const std::uint64_t* exchange(const char* kind, std::uint64_t value);
void named_barrier(int id, int threads);
void block_barrier();
void cluster_barrier();

// ---- shared memory: 32-bit addresses, as the instructions have them
std::uint32_t shared_address(const void* generic);
char* shared_pointer(std::uint32_t address, std::size_t bytes);  // also of the cluster's others
std::uint32_t address_in_rank(std::uint32_t address, std::uint32_t rank);

// ---- mbarriers
void barrier_init(std::uint32_t address, int arrivals);
void barrier_arrive(std::uint32_t address, int expected_bytes);
void barrier_expect(std::uint32_t address, int bytes);
void barrier_wait(std::uint32_t address, std::uint32_t parity);

// ---- what happens later
// An asynchronous copy into shared memory, whose bytes count on a barrier: until it lands the place
// holds NaN.
void land_later(std::uint32_t to, std::uint32_t barrier, std::size_t bytes,
                std::function<void(char*)> copy);
// cp.async of this thread; copies_arrive: a barrier's arrival once they have all landed.
void copy_later(std::uint32_t to, const void* from, std::size_t bytes);
void copies_arrive(std::uint32_t barrier);
// Bulk reductions of this thread from shared memory: `add` gets what was there when it was read.
void reduce_later(std::uint32_t from, std::size_t bytes, std::function<void(const char*)> add);
void reductions_commit();
void reductions_wait(bool written);
// wgmma groups of this thread.
void multiply_later(std::function<void()> multiply);
void multiplies_commit();
void multiplies_wait(int pending);

// ---- programmatic launches
void launch_dependents();
void wait_for_dependencies();

}  // namespace ramp::emulator
