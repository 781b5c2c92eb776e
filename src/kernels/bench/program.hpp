// SPDX-License-Identifier: Apache-2.0
// Launches of what stands around the kernels in checks and benches (kernels/bench/kernel.cuh).
#pragma once

#include <cstdint>

#include "gpu/compiler.hpp"
#include "gpu/module.hpp"

namespace ramp {

gpu::CompileRequest bench_request();

// Whether the kernel before the layer that writes the ids helps the layer to start early.
enum class Router { kTriggers, kForeign };

class BenchProgram {
 public:
  explicit BenchProgram(const gpu::Cubin& cubin);

  void write_ids(Router router, gpu::CUdeviceptr to, gpu::CUdeviceptr from, int ids,
                 gpu::CUstream stream) const;
  // Fills; sizes are whole numbers of 8, 1 and 2 elements.
  void random_e4m3(gpu::CUdeviceptr to, std::uint64_t elements, std::uint64_t seed,
                   gpu::CUstream stream) const;
  void random_scales(gpu::CUdeviceptr to, std::uint64_t elements, float middle, std::uint64_t seed,
                     gpu::CUstream stream) const;
  void random_bf16(gpu::CUdeviceptr to, std::uint64_t elements, std::uint64_t seed,
                   gpu::CUstream stream) const;
  // Sets the ints that `words` (device addresses, on the device) lists to 0.
  void rearm(gpu::CUdeviceptr words, int count, gpu::CUstream stream) const;
  // Holds the stream back until *open (page-locked host memory) is not 0, at most limit_us.
  void gate(const int* open, double limit_us, gpu::CUstream stream) const;
  void empty(int blocks, gpu::CUstream stream) const;

 private:
  gpu::Module module_;
  gpu::Kernel write_ids_, write_ids_foreign_, e4m3_, scales_, bf16_, rearm_, gate_, empty_;
};

}  // namespace ramp
