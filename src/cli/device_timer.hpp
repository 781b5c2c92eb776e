// SPDX-License-Identifier: Apache-2.0
// Where the lab's seam meets the machine: the timer that `ramp worker` owns.
#pragma once

#include <memory>
#include <string>

#include "lab/timer.hpp"

namespace ramp::cli {

// The expert kernel on a GPU of this machine.  Throws Error where there is none that can run it.
std::unique_ptr<KernelTimer> open_device_timer(int device);

// "gpu", "gpu:1" or "simulated:..." (tests of the campaign; lab/simulated_timer.hpp has the
// options).
struct TimerSpec {
  bool is_simulated = false;
  int device = 0;
  std::string simulation;
};
TimerSpec parse_timer(const std::string& text);
std::unique_ptr<KernelTimer> open_timer(const std::string& text);

}  // namespace ramp::cli
