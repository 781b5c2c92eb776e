// SPDX-License-Identifier: Apache-2.0
// A machine that does not exist, for tests of the campaign: an analytic kernel, seeded noise, and
// faults on demand.  Its times say nothing about any GPU; the provenance says "simulated" and a
// store never mixes them with measurements.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lab/timer.hpp"

namespace ramp {

struct SimulatedFaults {
  std::vector<std::string>
      hang;  // LABEL or LABEL@verify, LABEL@prepare; without: while it is timed
  std::vector<std::string> crash;   // the same
  std::vector<std::string> wrong;   // LABEL: disagrees with the reference
  std::vector<std::string> refuse;  // LABEL: does not compile
  std::string crash_once;  // a file: crashes while timing until the file is there, and makes it
  double throttle = 0;     // share of samples that come throttled
};

struct SimulationOptions {
  std::uint64_t seed = 1;
  double noise = 0.004;  // relative standard deviation
  double pace_us = 0;    // real time a sample takes, to test budgets
  double slow = 0;       // ... and so many times what the sample says: large loads take longer
  SimulatedFaults faults;
};

// "seed=3,noise=0.01,hang=f1-r8-c256-s4-static,throttle=0.05,pace=200,slow=1"; repeatable keys add
// up.
SimulationOptions parse_simulation(const std::string& text);

std::unique_ptr<KernelTimer> make_simulated_timer(const SimulationOptions& options);

inline constexpr const char* kSimulatedGpu = "simulated";

}  // namespace ramp
