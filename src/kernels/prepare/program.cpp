// SPDX-License-Identifier: Apache-2.0
#include "kernels/prepare/program.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/device_code.hpp"
#include "kernels/prepare/state.h"

namespace ramp {
namespace {

constexpr const char* kKernelName = "ramp_prepare";
constexpr int kElementsOfBlock = 8192;  // 1,024 threads, 8 columns each

// Held against the device code's own where it is compiled: prepare_request() asserts both.  Shared
// memory may be more than is needed.
constexpr int kThreads = 1024;
constexpr int kRegisters = 65536 / kThreads;
constexpr int shared_bytes(int local_experts, int entries) {
  return (kThreads / 32 + 3 + entries) * local_experts * 4;
}

}  // namespace

gpu::CompileRequest prepare_request() {
  std::string source = "#include \"kernels/prepare/kernel.cuh\"\n";
  source +=
      fmt::format("static_assert(ramp::kPrepareThreads == {}, \"the host's block\");\n", kThreads);
  for (const auto& [experts, entries] : {std::pair{1, 1}, {16, 6}, {kMaxLocalExperts, kMaxMenu}})
    source += fmt::format(
        "static_assert(ramp::prepare_shared_bytes({}, {}) <= {}, \"the host's shared memory\");\n",
        experts, entries, shared_bytes(experts, entries));
  return device_request("prepare", std::move(source));
}

int prepare_blocks(int tokens, int hidden, int sms) {
  const long long elements = static_cast<long long>(tokens) * hidden;
  const long long quantise = (elements + kElementsOfBlock - 1) / kElementsOfBlock;
  return 1 + static_cast<int>(std::clamp<long long>(quantise, 1, std::max(1, sms - 1)));
}

PrepareProgram::PrepareProgram(const gpu::Cubin& cubin)
    : module_((require_clean(cubin, "prepare", kKernelName, kRegisters), cubin.bytes), "prepare"),
      kernel_(module_.kernel(kKernelName)) {
  kernel_.set_max_dynamic_smem(shared_bytes(kMaxLocalExperts, kMaxMenu));
}

void PrepareProgram::launch(const PrepareArgs& args, int sms, gpu::CUstream stream) const {
  gpu::LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(prepare_blocks(args.tokens, args.hidden_size, sms));
  config.block[0] = kThreads;
  config.smem = static_cast<unsigned>(shared_bytes(args.local_experts, args.menu.entries));
  config.stream = stream;
  config.programmatic = true;
  kernel_(config, args);
}

}  // namespace ramp
