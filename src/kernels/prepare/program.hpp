// SPDX-License-Identifier: Apache-2.0
// The `prepare` kernel (Algorithm 1 and the quantiser in one launch), from source to launch.  It
// does not depend on a menu or a shape: both are arguments.
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

// Blocks of the launch: one that selects, the others quantise 8,192 elements each or share them.
int prepare_blocks(int tokens, int hidden, int sms);

// Loaded into the context that was current when it was made.
class PrepareProgram {
 public:
  explicit PrepareProgram(const gpu::Cubin& cubin);
  void launch(const PrepareArgs& args, int sms, gpu::CUstream stream) const;

 private:
  int threads_ = 0;
  std::vector<int> bytes_of_expert_;  // dynamic shared memory, by the menu's entries less one
  gpu::Module module_;
  gpu::Kernel kernel_;
};

}  // namespace ramp
