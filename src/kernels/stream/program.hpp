// SPDX-License-Identifier: Apache-2.0
// The weight stream's launch: `stream_us` of every record, measured in the run that it is compared
// with.
#pragma once

#include "gpu/compiler.hpp"
#include "gpu/module.hpp"
#include "kernels/stream/config.h"
#include "problem/shape.h"

namespace ramp {

gpu::CompileRequest stream_request();

// active: device address of `active_experts` local experts.
StreamArgs stream_args(const LocalShape& shape, gpu::CUdeviceptr w13, gpu::CUdeviceptr w2,
                       gpu::CUdeviceptr active, int active_experts);

class StreamProgram {
 public:
  explicit StreamProgram(const gpu::Cubin& cubin);
  void launch(const StreamArgs& args, int blocks, gpu::CUstream stream) const;

 private:
  gpu::Module module_;
  gpu::Kernel kernel_;
};

}  // namespace ramp
