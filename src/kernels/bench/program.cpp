// SPDX-License-Identifier: Apache-2.0
#include "kernels/bench/program.hpp"

#include <algorithm>

#include "kernels/device_code.hpp"

namespace ramp {
namespace {

constexpr unsigned kThreads = 256;

gpu::LaunchConfig launch_of(std::uint64_t threads, gpu::CUstream stream) {
  gpu::LaunchConfig config;
  const std::uint64_t blocks = (threads + kThreads - 1) / kThreads;
  config.grid[0] = static_cast<unsigned>(std::clamp<std::uint64_t>(blocks, 1, 16384));
  config.block[0] = kThreads;
  config.stream = stream;
  return config;
}

}  // namespace

gpu::CompileRequest bench_request() {
  return device_request("bench", "#include \"kernels/bench/kernel.cuh\"\n");
}

BenchProgram::BenchProgram(const gpu::Cubin& cubin)
    : module_(cubin.bytes, "bench"),
      write_ids_(module_.kernel("ramp_write_ids")),
      write_ids_foreign_(module_.kernel("ramp_write_ids_foreign")),
      e4m3_(module_.kernel("ramp_random_e4m3")),
      scales_(module_.kernel("ramp_random_scales")),
      bf16_(module_.kernel("ramp_random_bf16")),
      rearm_(module_.kernel("ramp_rearm")),
      gate_(module_.kernel("ramp_gate")),
      empty_(module_.kernel("ramp_empty")) {}

void BenchProgram::write_ids(Router router, gpu::CUdeviceptr to, gpu::CUdeviceptr from, int ids,
                             gpu::CUstream stream) const {
  // One block for the decode sizes: a router's epilogue is as short.
  gpu::LaunchConfig config = launch_of(static_cast<std::uint64_t>(ids) / 8, stream);
  config.programmatic = router == Router::kTriggers;
  (router == Router::kTriggers ? write_ids_ : write_ids_foreign_)(config, to, from, ids);
}

void BenchProgram::random_e4m3(gpu::CUdeviceptr to, std::uint64_t elements, std::uint64_t seed,
                               gpu::CUstream stream) const {
  const unsigned long long words = elements / 8, key = seed;
  e4m3_(launch_of(words, stream), to, words, key);
}

void BenchProgram::random_scales(gpu::CUdeviceptr to, std::uint64_t elements, float middle,
                                 std::uint64_t seed, gpu::CUstream stream) const {
  const unsigned long long values = elements, key = seed;
  scales_(launch_of(values, stream), to, values, middle, key);
}

void BenchProgram::random_bf16(gpu::CUdeviceptr to, std::uint64_t elements, std::uint64_t seed,
                               gpu::CUstream stream) const {
  const unsigned long long words = elements / 2, key = seed;
  bf16_(launch_of(words, stream), to, words, key);
}

void BenchProgram::rearm(gpu::CUdeviceptr words, int count, gpu::CUstream stream) const {
  gpu::LaunchConfig config = launch_of(1, stream);
  rearm_(config, words, count);
}

void BenchProgram::gate(const int* open, double limit_us, gpu::CUstream stream) const {
  gpu::LaunchConfig config;
  config.stream = stream;
  const unsigned long long limit_ns = static_cast<unsigned long long>(limit_us * 1000);
  gate_(config, open, limit_ns);
}

void BenchProgram::empty(int blocks, gpu::CUstream stream) const {
  gpu::LaunchConfig config = launch_of(1, stream);
  config.grid[0] = static_cast<unsigned>(blocks);
  config.programmatic = true;
  empty_(config);
}

}  // namespace ramp
