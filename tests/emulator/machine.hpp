// SPDX-License-Identifier: Apache-2.0
// A Hopper GPU in slow motion, for tests: kernels written for sm_90a run here as ordinary C++, a
// fiber a thread, with the tensor cores, the copy engine, barriers, clusters and programmatic
// launches behaving as the PTX manual says and no better.
//
// Whatever the hardware may reorder is reordered at random from a seed: which warp runs, when a
// copy lands, when a wgmma reads its operands.  Places that a copy will fill hold NaN until it
// lands, so that a read before its barrier shows.  Nobody able to run and nothing on its way is a
// deadlock, and ends the run with a list of who waits for what.
//
// What it does not see: a missing fence between the proxies, bank conflicts, registers, time.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace ramp::emulator {

// What a kernel did that no kernel may do, or a deadlock.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Launch {
  std::string name;
  int blocks = 1;
  int threads = 32;
  int cluster = 1;
  int shared_bytes = 0;  // dynamic; what the kernel touches beyond is a violation
  // The block's dynamic shared memory, asked for on the block's own host thread: kernels declare it
  // as a thread_local of theirs.
  std::function<char*()> shared;
  std::function<void()> body;  // the kernel, for one thread
  bool programmatic = true;    // may start when all blocks of the one before let it
};

// Runs the launches as a stream does.  Throws Violation.
void run(const std::vector<Launch>& launches, std::uint64_t seed);

}  // namespace ramp::emulator
