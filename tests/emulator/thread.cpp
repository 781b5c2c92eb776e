// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/thread.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/emulator/state.hpp"

namespace ramp::emulator {
namespace {

// Arrives at a meeting of `all` threads and returns when they are there.
void meet(Meeting& meeting, int all, const char* what, std::uint64_t id) {
  const std::uint64_t generation = meeting.generation;
  if (++meeting.arrived == all) {
    meeting.arrived = 0;
    ++meeting.generation;
    return;
  }
  wait_until([&meeting, generation] { return meeting.generation != generation; }, what, id);
}

Block& block_of(std::uint32_t address) {
  const std::uint32_t rank = address >> kRankShift;
  return rank == 0 ? *current->block : *current->block->cluster->blocks.at(rank - 1);
}

std::uint32_t without_rank(std::uint32_t address) { return address & ((1u << kRankShift) - 1); }

Barrier& barrier_at(Block& block, std::uint32_t address) {
  const auto found = block.barriers.find(without_rank(address));
  if (found == block.barriers.end())
    violate("no mbarrier stands at " + std::to_string(without_rank(address)) + " of " +
            block.name());
  return found->second;
}

void arrive(Block& block, std::uint32_t address, int expected_bytes) {
  Barrier& barrier = barrier_at(block, address);
  if (barrier.pending == 0)
    violate("more arrivals than the " + std::to_string(barrier.arrivals) + " of mbarrier " +
            std::to_string(without_rank(address)));
  barrier.bytes += expected_bytes;
  --barrier.pending;
  barrier.settle();
}

void complete(Block& block, std::uint32_t address, int bytes) {
  if (block.ended()) violate("bytes arrive at " + block.name() + ", which has ended");
  Barrier& barrier = barrier_at(block, address);
  barrier.bytes -= bytes;
  barrier.settle();
}

void send_on_its_way(Running& owner, std::function<void()> action) {
  ++owner.in_flight;
  machine->operations.push_back({&owner, std::move(action)});
}

void later(std::function<void()> action) {
  send_on_its_way(*current->block->running, std::move(action));
}

}  // namespace

void Barrier::settle() {
  if (pending > 0 || bytes != 0) return;
  pending = arrivals;
  ++phase;
}

const Place& place() { return current->place; }

void violate(const std::string& what) {
  std::string where;
  if (current)
    where = current->block->name() + " thread " + std::to_string(current->place.thread.x) + ": ";
  throw Violation(where + what);
}

void wait_until(std::function<bool()> ready, const char* what, std::uint64_t a, std::uint64_t b) {
  Fiber& fiber = *current;
  const bool hurry = fiber.block->random() % 8 != 0;  // else somebody else runs first
  if (hurry && ready()) return;
  fiber.ready = std::move(ready);
  fiber.waits_for = what;
  fiber.wait_a = a;
  fiber.wait_b = b;
  fiber.suspend();
}

// ---- warps and blocks --------------------------------------------------------------------------

const std::uint64_t* exchange(const char* kind, std::uint64_t value) {
  Block& block = *current->block;
  const int thread = current->place.thread.x;
  Warp& warp = block.warps[static_cast<std::size_t>(thread) / 32];
  const int lanes = std::min(32, static_cast<int>(block.fibers.size()) - thread / 32 * 32);
  if (warp.arrived == 0) warp.kind = kind;
  if (std::strcmp(warp.kind, kind) != 0)
    violate(std::string("lanes of a warp meet in ") + warp.kind + " and in " + kind);
  warp.in[static_cast<std::size_t>(thread) % 32] = value;
  if (warp.arrived + 1 == lanes) warp.out = warp.in;
  meet(warp, lanes, kind, 0);
  return warp.out.data();  // stays until all lanes have come to the next meeting
}

void named_barrier(int id, int threads) {
  meet(current->block->named.at(static_cast<std::size_t>(id)), threads, "named barrier",
       static_cast<std::uint64_t>(id));
}

void block_barrier() {
  meet(current->block->named[0], static_cast<int>(current->block->fibers.size()), "__syncthreads",
       0);
}

void cluster_barrier() {
  Cluster& cluster = *current->block->cluster;
  meet(cluster, static_cast<int>(cluster.blocks.size()) * current->block->running->launch->threads,
       "cluster barrier", 0);
}

// ---- shared memory -----------------------------------------------------------------------------

std::uint32_t shared_address(const void* generic) {
  const std::ptrdiff_t offset = static_cast<const char*>(generic) - current->block->shared;
  if (offset < 0 || offset > current->block->running->launch->shared_bytes)
    violate("a pointer that is not into dynamic shared memory");
  return kSharedStart + static_cast<std::uint32_t>(offset);
}

char* shared_pointer(std::uint32_t address, std::size_t bytes) {
  Block& block = block_of(address);
  const std::uint32_t at = without_rank(address);
  const std::size_t size = static_cast<std::size_t>(block.running->launch->shared_bytes);
  if (at < kSharedStart || at - kSharedStart + bytes > size)
    violate("shared address " + std::to_string(at) + " + " + std::to_string(bytes) + " of " +
            std::to_string(size) + " bytes");
  return block.shared + (at - kSharedStart);
}

std::uint32_t address_in_rank(std::uint32_t address, std::uint32_t rank) {
  return without_rank(address) | (rank + 1) << kRankShift;
}

// ---- mbarriers ---------------------------------------------------------------------------------

void barrier_init(std::uint32_t address, int arrivals) {
  shared_pointer(address, 8);
  if (address % 8) violate("an mbarrier at " + std::to_string(address) + ", not on 8 bytes");
  if (!current->block->barriers.emplace(address, Barrier{arrivals, arrivals, 0, 0}).second)
    violate("an mbarrier on top of another at " + std::to_string(address));
}

void barrier_arrive(std::uint32_t address, int expected_bytes) {
  arrive(block_of(address), address, expected_bytes);
}

void barrier_expect(std::uint32_t address, int bytes) {
  barrier_at(block_of(address), address).bytes += bytes;
}

void barrier_wait(std::uint32_t address, std::uint32_t parity) {
  const Barrier& barrier = barrier_at(block_of(address), address);
  wait_until([&barrier, parity] { return (barrier.phase & 1) != parity; }, "mbarrier, parity",
             address, parity);
}

// ---- what happens later ------------------------------------------------------------------------

void land_later(std::uint32_t to, std::uint32_t barrier, std::size_t bytes,
                std::function<void(char*)> copy) {
  Block& target = block_of(to);
  Block& told = block_of(barrier);
  char* place = shared_pointer(to, bytes);
  std::memset(place, kPoison, bytes);
  later([&target, &told, place, barrier, bytes, copy = std::move(copy)] {
    if (target.ended()) violate("a copy lands in " + target.name() + ", which has ended");
    copy(place);
    complete(told, barrier, static_cast<int>(bytes));
  });
}

void copy_later(std::uint32_t to, const void* from, std::size_t bytes) {
  if (to % bytes || reinterpret_cast<std::uintptr_t>(from) % bytes)
    violate("cp.async of " + std::to_string(bytes) + " bytes that is not aligned");
  char* place = shared_pointer(to, bytes);
  std::memset(place, kPoison, bytes);
  current->open_copies.push_back({place, static_cast<const char*>(from), bytes});
}

void copies_arrive(std::uint32_t barrier) {
  Fiber& fiber = *current;
  fiber.copy_groups.push_back({std::exchange(fiber.open_copies, {}), barrier});
  later([&fiber] {  // a thread's groups land in order
    const CopyGroup group = std::move(fiber.copy_groups.front());
    fiber.copy_groups.pop_front();
    if (fiber.block->ended())
      violate("a copy lands in " + fiber.block->name() + ", which has ended");
    for (const CopyGroup::Piece& p : group.pieces) std::memcpy(p.to, p.from, p.bytes);
    arrive(*fiber.block, group.barrier, 0);
  });
}

void reduce_later(std::uint32_t from, std::size_t bytes, std::function<void(const char*)> add) {
  const char* place = shared_pointer(from, bytes);
  const std::shared_ptr<ReduceGroup> group = current->open_reductions;
  ++group->unread;
  ++group->unwritten;
  Block& block = *current->block;
  later([&block, group, place, bytes, add = std::move(add)] {
    if (block.ended()) violate("a reduction reads " + block.name() + ", which has ended");
    std::string read(place, bytes);
    --group->unread;
    send_on_its_way(*block.running, [group, read = std::move(read), add] {
      add(read.data());
      --group->unwritten;
    });
  });
}

void reductions_commit() {
  Fiber& fiber = *current;
  fiber.reductions.push_back(std::exchange(fiber.open_reductions, std::make_shared<ReduceGroup>()));
}

void reductions_wait(bool written) {
  Fiber& fiber = *current;
  wait_until(
      [&fiber, written] {
        return std::all_of(fiber.reductions.begin(), fiber.reductions.end(), [&](const auto& g) {
          return g->unread == 0 && (!written || g->unwritten == 0);
        });
      },
      written ? "bulk reductions written" : "bulk reductions read");
  if (written) fiber.reductions.clear();
}

void multiply_later(std::function<void()> multiply) {
  current->open_multiplies.push_back(std::move(multiply));
}

void multiplies_commit() {
  Fiber& fiber = *current;
  fiber.multiplies.push_back(std::exchange(fiber.open_multiplies, {}));
  if (fiber.block->random() % 2) multiplies_wait(0);  // as early as can be, or as late
}

void multiplies_wait(int pending) {
  Fiber& fiber = *current;
  while (static_cast<int>(fiber.multiplies.size()) > pending) {
    for (const auto& multiply : fiber.multiplies.front()) multiply();
    fiber.multiplies.pop_front();
  }
}

// ---- programmatic launches ---------------------------------------------------------------------

void launch_dependents() { current->block->released = true; }

void wait_for_dependencies() {
  const Running* before = current->block->running->before;
  if (before) wait_until([before] { return before->complete(); }, "the launch before");
}

}  // namespace ramp::emulator
