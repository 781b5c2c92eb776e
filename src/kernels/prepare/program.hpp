// SPDX-License-Identifier: Apache-2.0
// The `prepare` kernels (Algorithm 1 and the quantiser), from source to launch: one launch up to
// kPairsOfOneBlock pairs, two beyond.  They do not depend on a menu or a shape: both are arguments.
#pragma once

#include <string>
#include <vector>

#include "gpu/compiler.hpp"
#include "gpu/module.hpp"

namespace ramp {

struct PrepareArgs;  // kernels/prepare/state.h

gpu::CompileRequest prepare_request();

// Throws Error when the code is not as fast as written.
void require_clean_prepare(const gpu::Cubin& cubin);

// Blocks of the launch that quantises: `selecting` (pair_runs) that select, the others quantise
// 8,192 elements each or share them.
int prepare_blocks(int tokens, int hidden, int sms, int selecting = 1);

// Loaded into the context that was current when it was made.
class PrepareProgram {
 public:
  explicit PrepareProgram(const gpu::Cubin& cubin);
  void launch(const PrepareArgs& args, int sms, gpu::CUstream stream) const;

 private:
  int threads_ = 0;
  std::vector<int> bytes_of_expert_;  // dynamic shared memory, by the menu's entries less one
  gpu::Module module_;
  gpu::Kernel kernel_;         // all of it, for loads that one block selects from
  gpu::Kernel count_, group_;  // the others
};

}  // namespace ramp
