// SPDX-License-Identifier: Apache-2.0
// A layer on the emulated GPU: the arguments that runtime/layer.cpp makes for a real one, over host
// memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/ffn/reference.hpp"
#include "kernels/prepare/state.h"
#include "runtime/check_cases.hpp"
#include "tests/emulator/device_code.hpp"

namespace ramp::emulator {

struct LayerSetup {
  CheckSetting setting;
  const HostWeights* weights = nullptr;
  const Menu* menu = nullptr;
  std::vector<Theta> theta;
  int sms = 6;
  bool ordered = false;
  bool row_a_pair = false;              // where rows come by token
  std::optional<DownParts> down_parts;  // these instead, where rows are added
};

struct Pass {
  const CheckCase* work = nullptr;
  int forced = -1;
  int prefill = 0;            // units; cut to what the menu allows
  bool prefill_down = false;  // as many of the down phase's first items, in topology F3
};

struct PassResult {
  std::vector<std::uint16_t> output;  // [tokens, d] bf16
  LayerState state{};
  std::vector<int> counts;
};

// The passes one behind the other in one stream and one workspace, as a replayed graph has them.
// Memory is poisoned before the first.
std::vector<PassResult> run_passes(const LayerSetup& setup, const std::vector<Pass>& passes,
                                   std::uint64_t seed);

// Random weights like those of a trial on the GPU.
HostWeights random_host_weights(const LocalShape& shape, std::uint64_t seed);

}  // namespace ramp::emulator
