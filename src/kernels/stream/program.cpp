// SPDX-License-Identifier: Apache-2.0
#include "kernels/stream/program.hpp"

#include "kernels/device_code.hpp"

namespace ramp {
namespace {

constexpr const char* kKernelName = "ramp_stream";
constexpr int kRingBytes = kStreamStages * kStreamPiece;
constexpr int kRegisters = 255;

}  // namespace

gpu::CompileRequest stream_request() {
  return device_request("stream", "#include \"kernels/stream/kernel.cuh\"\n");
}

StreamArgs stream_args(const LocalShape& shape, gpu::CUdeviceptr w13, gpu::CUdeviceptr w2,
                       gpu::CUdeviceptr active, int active_experts) {
  const unsigned long long half =
      static_cast<unsigned long long>(shape.hidden) * shape.intermediate;
  return {reinterpret_cast<const unsigned char*>(w13),
          reinterpret_cast<const unsigned char*>(w2),
          2 * half,
          half,
          reinterpret_cast<const int*>(active),
          active_experts};
}

StreamProgram::StreamProgram(const gpu::Cubin& cubin)
    : module_((require_clean(cubin, "stream", kKernelName, kRegisters), cubin.bytes), "stream"),
      kernel_(module_.kernel(kKernelName)) {
  kernel_.set_max_dynamic_smem(kRingBytes);
}

void StreamProgram::launch(const StreamArgs& args, int blocks, gpu::CUstream stream) const {
  gpu::LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(blocks);
  config.block[0] = kStreamThreads;
  config.smem = kRingBytes;
  config.stream = stream;
  config.programmatic = true;
  kernel_(config, args);
}

}  // namespace ramp
