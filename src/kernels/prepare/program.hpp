// SPDX-License-Identifier: Apache-2.0
// The kernels around `ffn`, from source to launch: `prepare` (Algorithm 1 and the quantiser), one
// launch up to kPairsOfCluster pairs, two beyond, and `combine` of `ordered` mode.  They do not
// depend on a menu or a shape: both are arguments.
#pragma once

#include <string>
#include <vector>

#include "gpu/compiler.hpp"
#include "gpu/module.hpp"
#include "kernels/prepare/runs.h"

namespace ramp {

struct PrepareArgs;  // kernels/prepare/state.h
struct CombineArgs;

gpu::CompileRequest prepare_request();

// Throws Error when the code is not as fast as written.
void require_clean_prepare(const gpu::Cubin& cubin);

// Blocks of the launch that quantises: some that select, the others quantise 8,192 elements each
// or share them; whole clusters where a cluster selects.  At most `places`, which the GPU holds at
// once, or what one quantising block or cluster takes.
int prepare_blocks(int tokens, int hidden, int places, Selecting selecting);
// The same of one call: only those that select, where the others would have nothing to do or come
// in a launch behind.
int prepare_blocks(const PrepareArgs& args, int places, Selecting selecting);
// Blocks beside the selecting cluster that hold the rows until the grouping is made (runs.h); 0
// where they don't.
int held_blocks(const PrepareArgs& args, int places, Selecting selecting);
// Blocks of `combine`: a warp takes 512 columns of a token at a time.
int combine_blocks(int tokens, int hidden, int sms);

// Loaded into the context that was current when it was made.
class PrepareProgram {
 public:
  explicit PrepareProgram(const gpu::Cubin& cubin);
  void launch(const PrepareArgs& args, int sms, gpu::CUstream stream) const;
  void launch_combine(const CombineArgs& args, int sms, gpu::CUstream stream) const;

 private:
  int threads_ = 0, combine_threads_ = 0;
  int clusters_ = 0;                  // that the GPU holds at once
  std::vector<int> bytes_of_expert_;  // dynamic shared memory, by the menu's entries less one
  gpu::Module module_;
  gpu::Kernel kernel_, cluster_;  // all of it, where one block or one cluster selects
  gpu::Kernel held_;              // and where each pair gets a row that fits into shared memory
  gpu::Kernel count_, group_;     // the others
  gpu::Kernel pairs_;             // behind, where each pair gets a row that doesn't
  gpu::Kernel combine_;
};

}  // namespace ramp
