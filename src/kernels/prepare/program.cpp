// SPDX-License-Identifier: Apache-2.0
#include "kernels/prepare/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "kernels/device_code.hpp"
#include "kernels/prepare/state.h"

namespace ramp {
namespace {

constexpr const char* kKernelName = "ramp_prepare";
constexpr const char* kClusterName = "ramp_prepare_cluster";
constexpr const char* kHeldName = "ramp_prepare_held";
constexpr const char* kCountName = "ramp_prepare_count";
constexpr const char* kGroupName = "ramp_prepare_group";
constexpr const char* kPairsName = "ramp_prepare_pairs";
constexpr const char* kCombineName = "ramp_combine";
constexpr int kElementsOfBlock = 8192;  // 1,024 threads, 8 columns each
constexpr int kRegisters = 64;          // 1,024 threads of an SM's 65,536
constexpr int kCombineRegisters = 80;   // three blocks of 256 threads an SM

// A variable of the module that says what a launch needs: threads a block of `prepare` and of
// `combine`, then, for a menu of 1, 2, ... entries, the bytes of dynamic shared memory that one
// local expert takes.  So the device code is the only place where these numbers stand.
constexpr const char* kLaunchName = "ramp_prepare_launch";

}  // namespace

gpu::CompileRequest prepare_request() {
  std::string source = fmt::format(
      "#include \"kernels/prepare/kernel.cuh\"\n"
      "static_assert(ramp::prepare_shared_bytes({0}, {1}) == {0} * ramp::prepare_shared_bytes(1, "
      "{1}));\n"
      "extern \"C\" __device__ int {2}[] = {{ramp::kPrepareThreads, ramp::kCombineThreads",
      kMaxLocalExperts, kMaxMenu, kLaunchName);
  for (int entries = 1; entries <= kMaxMenu; ++entries)
    source += fmt::format(", ramp::prepare_shared_bytes(1, {})", entries);
  return device_request("prepare", source + "};\n");
}

int prepare_blocks(int tokens, int hidden, int places, Selecting selecting) {
  const long long elements = static_cast<long long>(tokens) * hidden;
  const long long quantise = (elements + kElementsOfBlock - 1) / kElementsOfBlock;
  const int blocks = selecting.blocks + static_cast<int>(std::clamp<long long>(
                                            quantise, 1, std::max(1, places - selecting.blocks)));
  if (selecting.by != SelectBy::kCluster) return blocks;
  const int clusters = std::min(ceil_div(blocks, kBlocksOfCluster), places / kBlocksOfCluster);
  return std::max(2, clusters) * kBlocksOfCluster;
}

int held_blocks(const PrepareArgs& args, int places, Selecting selecting) {
  if (!args.row_a_pair || selecting.by != SelectBy::kCluster) return 0;
  const int blocks = prepare_blocks(args.tokens, args.hidden_size, places, selecting);
  const int holding = blocks - selecting.blocks;
  return held_bytes(args.tokens, args.hidden_size, holding) <= kMostHeldBytes ? holding : 0;
}

int prepare_blocks(const PrepareArgs& args, int places, Selecting selecting) {
  const bool rows = args.hidden || args.scales || args.output;
  if (args.row_a_pair ? !args.output : args.ready_counts && !rows) return selecting.blocks;
  const int expected = args.ready_counts && args.expected_rows > 0
                           ? std::min(args.expected_rows, args.tokens)
                           : args.tokens;
  return prepare_blocks(expected, args.hidden_size, places, selecting);
}

void require_clean_prepare(const gpu::Cubin& cubin) {
  for (const char* kernel :
       {kKernelName, kClusterName, kHeldName, kCountName, kGroupName, kPairsName})
    require_clean(cubin, "prepare", kernel, kRegisters);
  require_clean(cubin, "prepare", kCombineName, kCombineRegisters);
}

int combine_blocks(int tokens, int hidden, int sms) {
  constexpr int kBlocksOfSm = 3, kWarps = 8, kColumns = 512;  // pieces.cuh
  const long long pieces = static_cast<long long>(tokens) * ((hidden + kColumns - 1) / kColumns);
  return static_cast<int>(
      std::clamp<long long>((pieces + kWarps - 1) / kWarps, 1, sms * kBlocksOfSm));
}

PrepareProgram::PrepareProgram(const gpu::Cubin& cubin)
    : module_((require_clean_prepare(cubin), cubin.bytes), "prepare"),
      kernel_(module_.kernel(kKernelName)),
      cluster_(module_.kernel(kClusterName)),
      held_(module_.kernel(kHeldName)),
      count_(module_.kernel(kCountName)),
      group_(module_.kernel(kGroupName)),
      pairs_(module_.kernel(kPairsName)),
      combine_(module_.kernel(kCombineName)) {
  const gpu::Module::Symbol said = module_.symbol(kLaunchName);
  std::array<int, 2 + kMaxMenu> launch{};
  if (said.bytes != sizeof launch)
    throw Error("cubin of prepare", fmt::format("{} bytes of {}", said.bytes, kLaunchName),
                fmt::format("{}", sizeof launch), "remove the cache directory and run again");
  gpu::check(gpu::driver().cuMemcpyDtoH_v2(launch.data(), said.ptr, sizeof launch),
             "reading how to launch prepare");
  threads_ = launch[0];
  combine_threads_ = launch[1];
  bytes_of_expert_.assign(launch.begin() + 2, launch.end());
  const int most = kMaxLocalExperts * bytes_of_expert_.back();
  for (gpu::Kernel* kernel : {&kernel_, &cluster_, &count_, &group_})
    kernel->set_max_dynamic_smem(most);
  held_.set_max_dynamic_smem(std::max(most, kMostHeldBytes));
  gpu::LaunchConfig of_clusters;
  of_clusters.grid[0] = of_clusters.cluster = kBlocksOfCluster;
  of_clusters.block[0] = static_cast<unsigned>(threads_);
  clusters_ = cluster_.resident_clusters(of_clusters);
}

void PrepareProgram::launch(const PrepareArgs& args, int sms, gpu::CUstream stream) const {
  const bool ready = args.ready_counts != nullptr;
  const Selecting selecting = selecting_of(ready ? args.tokens : args.tokens * args.top_k, ready);
  const auto config_of = [&](int blocks) {
    gpu::LaunchConfig config;
    config.grid[0] = static_cast<unsigned>(blocks);
    config.block[0] = static_cast<unsigned>(threads_);
    config.smem =
        static_cast<unsigned>(args.local_experts * bytes_of_expert_[args.menu.entries - 1]);
    config.stream = stream;
    config.programmatic = true;
    return config;
  };
  // One cluster more than there is room for starts when the others end, and takes as long again.
  const int places =
      selecting.by == SelectBy::kCluster ? std::min(sms, clusters_ * kBlocksOfCluster) : sms;
  gpu::LaunchConfig last = config_of(prepare_blocks(args, places, selecting));
  if (const int holding = held_blocks(args, places, selecting); holding > 0) {
    last.grid[0] = static_cast<unsigned>(selecting.blocks + holding);
    last.smem = std::max(last.smem,
                         static_cast<unsigned>(held_bytes(args.tokens, args.hidden_size, holding)));
    last.cluster = kBlocksOfCluster;
    held_(last, args);
    return;
  }
  switch (selecting.by) {
    case SelectBy::kBlock:
      kernel_(last, args);
      break;
    case SelectBy::kCluster:
      last.cluster = kBlocksOfCluster;
      cluster_(last, args);
      break;
    case SelectBy::kRuns:
      if (!ready) count_(config_of(selecting.blocks), args);
      group_(last, args);
  }
  if (args.row_a_pair) {
    gpu::LaunchConfig rows =
        config_of(prepare_blocks(args.tokens, args.hidden_size, sms, {SelectBy::kBlock, 0}));
    rows.smem = 0;
    pairs_(rows, args);
  }
}

void PrepareProgram::launch_combine(const CombineArgs& args, int sms, gpu::CUstream stream) const {
  gpu::LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(combine_blocks(args.tokens, args.hidden, sms));
  config.block[0] = static_cast<unsigned>(combine_threads_);
  config.stream = stream;
  config.programmatic = true;
  combine_(config, args);
}

}  // namespace ramp
