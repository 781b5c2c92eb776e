// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/machine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/emulator/state.hpp"

namespace ramp::emulator {

Machine* machine = nullptr;
thread_local Fiber* current = nullptr;

namespace {

constexpr std::size_t kStackBytes = 128 * 1024;
constexpr int kSharedCapacity = 232448;       // of a block on sm_90
constexpr long long kMostRounds = 2'000'000;  // far beyond what any test takes

// The first function of a fiber.  Violations end the run; the other fibers are simply left.
void enter() {
  Fiber& fiber = *current;
  try {
    fiber.block->running->launch->body();
    if (!fiber.open_copies.empty()) violate("a thread ends with copies that nobody waits for");
  } catch (const Violation& v) {
    if (machine->failure.empty()) machine->failure = v.what();
  }
  fiber.done = true;
  --fiber.block->live;
  fiber.suspend();
}

}  // namespace

void Fiber::resume() {
  ready = nullptr;
  current = this;
  if (_setjmp(block->scheduler) == 0) {
    if (entered) _longjmp(here, 1);
    entered = true;
    setcontext(&start);
  }
  current = nullptr;
}

void Fiber::suspend() {
  if (_setjmp(here) == 0) _longjmp(block->scheduler, 1);
}

std::string Block::name() const {
  return running->launch->name + " block " + std::to_string(index);
}

void Block::serve() {
  go.acquire();
  if (!stop) {
    const Launch& launch = *running->launch;
    shared = launch.shared ? launch.shared() : nullptr;
    if (shared) std::memset(shared, kPoison, kSharedCapacity);
    const std::size_t bytes = kStackBytes * static_cast<std::size_t>(launch.threads);
    stacks = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    fibers.resize(static_cast<std::size_t>(launch.threads));
    warps.resize(static_cast<std::size_t>(launch.threads + 31) / 32);
    live = launch.threads;
    for (int t = 0; t < launch.threads; ++t) {
      Fiber& fiber = fibers[static_cast<std::size_t>(t)];
      fiber.block = this;
      fiber.place = {{t, 0, 0}, {index, 0, 0}, {launch.blocks, 1, 1}};
      getcontext(&fiber.start);
      fiber.start.uc_stack.ss_sp = stacks + kStackBytes * static_cast<std::size_t>(t);
      fiber.start.uc_stack.ss_size = kStackBytes;
      fiber.start.uc_link = nullptr;
      makecontext(&fiber.start, enter, 0);
    }
    started = true;
    while (!stop) {
      take_turn();
      back.release();
      go.acquire();
    }
    munmap(stacks, bytes);
  }
  back.release();
}

// Lets every warp that the dice allow run until each of its lanes waits.
void Block::take_turn() {
  progressed = false;
  std::vector<int> order(warps.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (int w : order) {
    const bool held_back = random() % 4 == 0;
    const int end = std::min<int>((w + 1) * 32, static_cast<int>(fibers.size()));
    for (int t = w * 32; t < end; ++t) {
      Fiber& fiber = fibers[static_cast<std::size_t>(t)];
      if (fiber.done || (fiber.ready && !fiber.ready())) continue;
      progressed = true;
      if (held_back) break;
      fiber.resume();
      if (!machine->failure.empty()) return;
    }
  }
  if (live == 0 && shared)
    for (int i = running->launch->shared_bytes; i < kSharedCapacity; ++i)
      if (static_cast<unsigned char>(shared[i]) != kPoison) {
        machine->failure = name() + " wrote byte " + std::to_string(i) + " of " +
                           std::to_string(running->launch->shared_bytes) +
                           " bytes of dynamic shared memory";
        return;
      }
}

bool Running::released() const {
  return started && std::all_of(blocks.begin(), blocks.end(),
                                [](const auto& b) { return b->released || b->ended(); });
}

bool Running::complete() const {
  return started && in_flight == 0 &&
         std::all_of(blocks.begin(), blocks.end(), [](const auto& b) { return b->ended(); });
}

void Machine::start(Running& running) {
  running.started = true;
  const Launch& launch = *running.launch;
  for (int b = 0; b < launch.blocks; ++b) {
    if (b % launch.cluster == 0) running.clusters.push_back(std::make_unique<Cluster>());
    Cluster& cluster = *running.clusters.back();
    auto block = std::make_unique<Block>();
    block->running = &running;
    block->cluster = &cluster;
    block->index = b;
    block->rank = b % launch.cluster;
    block->random.seed(random());
    block->delay = block->rank ? cluster.blocks[0]->delay : static_cast<int>(random() % 20);
    cluster.blocks.push_back(block.get());
    block->host = std::thread(&Block::serve, block.get());
    running.blocks.push_back(std::move(block));
  }
}

bool Machine::advance() {
  bool moved = false;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    Running& r = *launches[i];
    if (r.started) continue;
    const bool may =
        !r.before || (r.launch->programmatic ? r.before->released() : r.before->complete());
    if (may) start(r), moved = true;
    break;
  }
  std::vector<Block*> turn;
  for (const auto& running : launches)
    for (const auto& block : running->blocks)
      if (!block->ended()) turn.push_back(block.get());
  std::shuffle(turn.begin(), turn.end(), random);
  for (Block* block : turn) {
    if (block->delay > 0) {
      --block->delay;
      moved = true;
      continue;
    }
    block->go.release();
    block->back.acquire();
    moved |= block->progressed;
    if (!failure.empty()) throw Violation(failure);
  }
  // Most of what is on its way stays there for a while; when nobody can run, something lands.
  const std::size_t landing =
      operations.empty()
          ? 0
          : std::max<std::size_t>(moved ? 0 : 1, random() % 3 * operations.size() / 4);
  for (std::size_t i = 0; i < landing && !operations.empty(); ++i) {
    const std::size_t pick = random() % operations.size();
    std::swap(operations[pick], operations.back());
    const Operation operation = std::move(operations.back());
    operations.pop_back();
    operation.action();
    --operation.owner->in_flight;
    moved = true;
  }
  return moved;
}

void Machine::report_deadlock() const {
  std::map<std::string, int> waiting;
  for (const auto& running : launches)
    for (const auto& block : running->blocks)
      for (const Fiber& fiber : block->fibers)
        if (!fiber.done)
          ++waiting[block->name() + " warp " + std::to_string(fiber.place.thread.x / 32) + ": " +
                    fiber.waits_for + " " + std::to_string(fiber.wait_a) + ", " +
                    std::to_string(fiber.wait_b)];
  std::string text = "deadlock";
  for (const auto& [what, threads] : waiting)
    text += "\n  " + what + " (" + std::to_string(threads) + " threads)";
  throw Violation(text);
}

void Machine::stop() {
  for (const auto& running : launches)
    for (const auto& block : running->blocks) {
      block->stop = true;
      block->go.release();
      block->host.join();
    }
}

void run(const std::vector<Launch>& launches, std::uint64_t seed) {
  Machine m;
  machine = &m;
  m.random.seed(seed);
  Running* before = nullptr;
  for (const Launch& launch : launches) {
    auto running = std::make_unique<Running>();
    running->launch = &launch;
    running->before = before;
    before = running.get();
    m.launches.push_back(std::move(running));
  }
  try {
    for (long long round = 0; !std::all_of(m.launches.begin(), m.launches.end(),
                                           [](const auto& r) { return r->complete(); });
         ++round)
      if (!m.advance() || round == kMostRounds) m.report_deadlock();
  } catch (...) {
    m.stop();
    machine = nullptr;
    throw;
  }
  m.stop();
  machine = nullptr;
}

}  // namespace ramp::emulator
