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
struct PrepareArgs;

// Whether `prepare` runs before, or the launch is the whole layer (whole.h).
enum class FfnForm { kAfterPrepare, kWhole };

// Throws Error naming the entry and the knob when these configurations can't share a kernel.
void require_legal_menu(std::span<const FfnConfig> menu, FfnForm form = FfnForm::kAfterPrepare);

// Whether every entry can be in a menu that runs the whole layer.
bool has_whole_form(std::span<const FfnConfig> menu);

// Weight units that may be requested before the entry is known: the smallest ring.
int menu_prefill(std::span<const FfnConfig> menu);

// Dynamic shared memory of the launch, in bytes: the hungriest entry's.
int menu_shared_bytes(std::span<const FfnConfig> menu, FfnForm form = FfnForm::kAfterPrepare);

// Registers a thread at launch, before the warps trade them.
constexpr int kFfnLaunchRegisters =
    (128 * kFfnProducerRegisters + (kFfnThreads - 128) * kFfnConsumerRegisters) / kFfnThreads;

inline constexpr const char* kFfnKernelName = "ramp_ffn";

// The one translation unit of a menu.
std::string ffn_source(std::span<const FfnConfig> menu, FfnForm form = FfnForm::kAfterPrepare);
gpu::CompileRequest ffn_request(std::span<const FfnConfig> menu,
                                FfnForm form = FfnForm::kAfterPrepare);

// Throws Error when the code is not as fast as written (see require_clean).
void require_clean_ffn(const gpu::Cubin& cubin, std::span<const FfnConfig> menu,
                       FfnForm form = FfnForm::kAfterPrepare);

// Loaded into the context that was current when it was made.
class FfnProgram {
 public:
  // Throws Error when the cubin has defects.
  FfnProgram(const gpu::Cubin& cubin, std::vector<FfnConfig> menu,
             FfnForm form = FfnForm::kAfterPrepare);

  // `blocks` stay for the whole launch, so no more than the GPU holds at once: one an SM (fewer
  // where they don't fill the last cluster).  call: what `prepare` would get; only of a program
  // that is the whole layer.
  void launch(const FfnArgs& args, const FfnWeightMaps& maps, int blocks, gpu::CUstream stream,
              const PrepareArgs* call = nullptr) const;

  const std::vector<FfnConfig>& menu() const { return menu_; }
  int registers() const { return registers_; }
  int shared_bytes() const { return shared_bytes_; }

 private:
  std::vector<FfnConfig> menu_;
  FfnForm form_;
  int registers_ = 0, shared_bytes_ = 0;
  gpu::Module module_;
  gpu::Kernel kernel_;
};

}  // namespace ramp
