// SPDX-License-Identifier: Apache-2.0
// `ramp check --soak`: thousands of replays of captured layers over random loads, each output
// compared.  What it looks for are faults that come once in thousands: counters that are not set
// back, weights asked for ahead and not dropped, a hand-over that is lost under one load in
// thousands.  So one graph and one workspace serve load after load, and nothing is poisoned in
// between but the output.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gpu/cubin_cache.hpp"
#include "runtime/check.hpp"
#include "runtime/plan_options.hpp"

namespace ramp {

inline constexpr int kSoakReplays = 10000;

// What is captured: menus by size over one GPU's share.  In `ordered` mode each replay must have
// the bits of an eager call that another entry runs.
struct SoakLayer {
  std::string name;  // "default menu"
  CheckSetting setting;
  std::vector<SizedOptions> sizes;  // small passes first
};

// The default menu, and the menu of both heights of F3 in `ordered` mode.
std::vector<SoakLayer> default_soak(const gpu::DeviceInfo& device, const CheckSetting& setting);
// A plan's menus in its mode.
SoakLayer plan_soak(const Plan& plan, const gpu::DeviceInfo& device);
// Where nothing else is asked for: experts here and elsewhere, cheap enough for the reference.
CheckSetting soak_setting();
// Of the caller's shape: as many experts elsewhere as here.
CheckSetting soak_setting(const LocalShape& shape);

struct SoakOptions {
  int replays = kSoakReplays;  // of each layer
  std::uint64_t seed = 1;
};

// Reports a record for each size and kind of load when a layer is through, and one for each replay
// that is wrong at once (the first ones of them), which names seed, number and load.  `progress`
// names the replay before it is launched: whoever catches Hung or a fault knows it.
void run_soak(const gpu::Context& context, gpu::CubinCache& cache,
              const std::vector<SoakLayer>& layers, const SoakOptions& options,
              const CheckEvents& events);

}  // namespace ramp
