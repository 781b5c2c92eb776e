// SPDX-License-Identifier: Apache-2.0
// How times are taken (docs/measuring.md): behind a gate that opens when everything is queued, so
// that no launch waits for the host; candidates in turn; clocks read while the GPU works; samples
// of a throttled GPU dropped and taken again.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpu/clocks.hpp"
#include "gpu/device.hpp"
#include "gpu/stream.hpp"
#include "kernels/bench/program.hpp"

namespace ramp {

// Holds a stream back until it is opened.
class Gate {
 public:
  explicit Gate(const BenchProgram& bench) : bench_(bench), open_(64) { open(); }
  void close(gpu::CUstream stream) {
    *open_.as<volatile int>() = 0;
    bench_.gate(open_.as<int>(), kLimitUs, stream);
  }
  void open() { *open_.as<volatile int>() = 1; }

 private:
  static constexpr double kLimitUs = 50'000;  // a host that was stopped doesn't stop the GPU
  const BenchProgram& bench_;
  gpu::PinnedBuffer open_;
};

struct TimedGraph {
  std::string name;
  gpu::Graph graph;
  std::function<void(gpu::CUstream)> before;  // what has to be restored, untimed; may be empty
};

struct GraphTimes {
  std::vector<double> us;      // median of each graph's replays
  std::vector<double> spread;  // (third quartile - first) / median
  int samples = 0;  // of each; 0: every round was throttled, and the times are of such rounds
  int dropped = 0;
  int sm_mhz = 0;        // median
  std::string throttle;  // reasons of the dropped samples
};

// Replays all graphs in turn, `replays` times each, the order moving on by one each round.
GraphTimes time_graphs(const BenchProgram& bench, const gpu::Clocks& clocks,
                       const std::vector<TimedGraph>& graphs, int replays,
                       const gpu::Stream& stream);

}  // namespace ramp
