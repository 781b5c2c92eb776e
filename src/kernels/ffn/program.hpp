// SPDX-License-Identifier: Apache-2.0
// The `ffn` kernel of a menu, from its configurations to a launch (Section 3.3): one polymorphic
// kernel holds all entries, and the device picks one when it runs.
//
// Entries of one menu share what a block does before it knows which of them runs (ffn_occupancy):
// the threads, the tile width, the cluster, and a ring deep enough for what was requested ahead.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpu/compiler.hpp"
#include "gpu/module.hpp"
#include "kernels/ffn/config.h"
#include "kernels/ffn/weight_maps.hpp"

namespace ramp {

struct FfnArgs;  // kernels/prepare/state.h

// Throws Error naming the entry and the knob when these configurations can't share a kernel.
void require_legal_menu(std::span<const FfnConfig> menu);

// Weight units that may be requested before the entry is known, in a layer of `hidden` columns: the
// smallest ring's, and those that go through registers; at most all of an item.
int deepest_prefill(std::span<const FfnConfig> menu, int hidden);

// Dynamic shared memory of the launch, in bytes: the hungriest entry's.
int menu_shared_bytes(std::span<const FfnConfig> menu);

// Registers a thread at launch, before the warps trade them.
constexpr int kFfnLaunchRegisters =
    (128 * kFfnProducerRegisters + (kFfnThreads - 128) * kFfnConsumerRegisters) / kFfnThreads;

inline constexpr const char* kFfnKernelName = "ramp_ffn";

// The one translation unit of a menu.
std::string ffn_source(std::span<const FfnConfig> menu);
gpu::CompileRequest ffn_request(std::span<const FfnConfig> menu);

// Throws Error when the code is not as fast as written (see require_clean).
void require_clean_ffn(const gpu::Cubin& cubin, std::span<const FfnConfig> menu);

// Loaded into the context that was current when it was made.
class FfnProgram {
 public:
  // Throws Error when the cubin has defects.
  FfnProgram(const gpu::Cubin& cubin, std::vector<FfnConfig> menu);

  // `blocks` stay for the whole launch, so no more than the GPU holds at once: one an SM (fewer
  // where they don't fill the last cluster).
  void launch(const FfnArgs& args, const FfnWeightMaps& maps, int blocks,
              gpu::CUstream stream) const;

  const std::vector<FfnConfig>& menu() const { return menu_; }
  int registers() const { return registers_; }
  int shared_bytes() const { return shared_bytes_; }

 private:
  gpu::LaunchConfig launch_of(int blocks, gpu::CUstream stream) const;

  std::vector<FfnConfig> menu_;
  int registers_ = 0, shared_bytes_ = 0;
  int clusters_ = 0;  // that the GPU holds at once; 0: the menu has none
  gpu::Module module_;
  gpu::Kernel kernel_;
};

}  // namespace ramp
