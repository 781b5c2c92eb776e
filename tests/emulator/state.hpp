// SPDX-License-Identifier: Apache-2.0
// The machine's insides: launches, blocks, fibers and the operations on their way.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <semaphore>
#include <thread>

#include "tests/emulator/machine.hpp"
#include "tests/emulator/thread.hpp"

namespace ramp::emulator {

constexpr std::uint32_t kSharedStart = 1024;  // where dynamic shared memory begins for a kernel
constexpr int kRankShift = 24;                // addresses of another block of the cluster: rank + 1
constexpr unsigned char kPoison = 0xff;       // NaN in every format used here

struct Block;
struct Running;

// Counts arrivals of a known number and starts over.
struct Meeting {
  int arrived = 0;
  std::uint64_t generation = 0;
};

struct Warp : Meeting {
  const char* kind = nullptr;
  std::array<std::uint64_t, 32> in{}, out{};
};

// PTX ISA, "mbarrier": a phase ends when all arrivals and all announced bytes are there.
struct Barrier {
  int arrivals = 0, pending = 0;
  long long bytes = 0;  // announced and not there yet; may be negative for a while
  std::uint32_t phase = 0;
  void settle();
};

struct ReduceGroup {
  int unread = 0, unwritten = 0;
};

struct CopyGroup {
  struct Piece {
    char* to;
    const char* from;
    std::size_t bytes;
  };
  std::vector<Piece> pieces;
  std::uint32_t barrier = 0;
};

struct Fiber {
  ucontext_t start{};  // for the first turn; then jumps, which make no system call
  jmp_buf here{};
  bool entered = false;
  Block* block = nullptr;
  Place place{};
  bool done = false;
  std::function<bool()> ready;  // none: can run
  const char* waits_for = "";
  std::uint64_t wait_a = 0, wait_b = 0;

  std::vector<CopyGroup::Piece> open_copies;
  std::deque<CopyGroup> copy_groups;
  std::shared_ptr<ReduceGroup> open_reductions = std::make_shared<ReduceGroup>();
  std::vector<std::shared_ptr<ReduceGroup>> reductions;
  std::vector<std::function<void()>> open_multiplies;
  std::deque<std::vector<std::function<void()>>> multiplies;

  void resume();   // by the block: until the thread waits or ends
  void suspend();  // by the thread
};

struct Cluster : Meeting {
  std::vector<Block*> blocks;
};

struct Block {
  Running* running = nullptr;
  Cluster* cluster = nullptr;
  int index = 0, rank = 0;
  int delay = 0;  // turns before it starts: blocks of a launch don't start together
  char* shared = nullptr;
  int live = 0;
  bool started = false, released = false;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::map<std::uint32_t, Barrier> barriers;
  std::array<Meeting, 16> named;
  jmp_buf scheduler{};
  char* stacks = nullptr;
  std::mt19937_64 random;
  bool progressed = false, stop = false;
  std::binary_semaphore go{0}, back{0};
  std::thread host;

  bool ended() const { return started && live == 0; }
  void serve();  // the host thread's life
  void take_turn();
  std::string name() const;
};

struct Running {
  const Launch* launch = nullptr;
  Running* before = nullptr;
  bool started = false;
  int in_flight = 0;
  std::vector<std::unique_ptr<Cluster>> clusters;
  std::vector<std::unique_ptr<Block>> blocks;
  bool released() const;
  bool complete() const;
};

struct Machine {
  struct Operation {
    Running* owner;
    std::function<void()> action;
  };
  std::mt19937_64 random;
  std::vector<std::unique_ptr<Running>> launches;
  std::vector<Operation> operations;
  std::string failure;

  void start(Running& running);
  bool advance();  // one round; false when nothing could move
  void report_deadlock() const;
  void stop();
};

extern Machine* machine;             // the one that runs
extern thread_local Fiber* current;  // the emulated thread that runs on this host thread

}  // namespace ramp::emulator
