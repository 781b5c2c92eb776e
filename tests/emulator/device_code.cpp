// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device_code.hpp"

#include <map>
#include <stdexcept>

#include "kernels/ffn/program.hpp"
#include "kernels/ffn/space.hpp"
#include "kernels/prepare/program.hpp"

// The kernel's own file, whole: it is compiled here as C++.
#include "kernels/prepare/kernel.cuh"

// Dynamic shared memory, under the names that the kernels give it.
alignas(1024) thread_local int prepare_shared[ramp::kSharedMemoryLimit / 4];
namespace ramp {
alignas(1024) thread_local char dynamic_shared[kSharedMemoryLimit];
}

namespace ramp::emulator {
namespace {

std::map<std::string, Menu>& menus() {
  static std::map<std::string, Menu> all;
  return all;
}

}  // namespace

bool add_menu(Menu menu) {
  std::string labels;
  for (const FfnConfig& c : menu.configs) labels += (labels.empty() ? "" : "+") + ffn_label(c);
  return menus().emplace(labels, std::move(menu)).second;
}

const Menu& find_menu(const std::string& labels) { return menus().at(labels); }

std::vector<std::string> menu_labels() {
  std::vector<std::string> labels;
  for (const auto& [label, menu] : menus()) labels.push_back(label);
  return labels;
}

Launch ffn_launch(const Menu& menu, const FfnArgs& args, const Maps& maps, int blocks) {
  Launch launch;
  launch.name = "ffn";
  launch.cluster = menu.configs[0].split;
  launch.blocks = blocks / launch.cluster * launch.cluster;
  launch.threads = kFfnThreads;
  launch.shared_bytes = menu_shared_bytes(menu.configs);
  launch.shared = menu.shared;
  launch.body = [&menu, args, maps] { menu.kernel(args, maps); };
  return launch;
}

std::vector<Launch> prepare_launches(const PrepareArgs& args, int sms) {
  const auto launch_of = [&](const char* name, int blocks, void (*kernel)(PrepareArgs)) {
    Launch launch;
    launch.name = name;
    launch.blocks = blocks;
    launch.threads = kPrepareThreads;
    launch.shared_bytes = prepare_shared_bytes(args.local_experts, args.menu.entries);
    launch.shared = [] { return reinterpret_cast<char*>(prepare_shared); };
    launch.body = [args, kernel] { kernel(args); };
    return launch;
  };
  const bool ready = args.ready_counts != nullptr;
  const Selecting selecting = selecting_of(ready ? args.tokens : args.tokens * args.top_k, ready);
  const int blocks = prepare_blocks(args, sms, selecting);
  std::vector<Launch> launches;
  if (const int holding = held_blocks(args, sms, selecting); holding > 0) {
    launches.push_back(launch_of("held", selecting.blocks + holding, ramp_prepare_held));
    launches.back().cluster = kBlocksOfCluster;
    const auto bytes = held_bytes(args.tokens, args.hidden_size, holding);
    launches.back().shared_bytes = std::max(launches.back().shared_bytes, static_cast<int>(bytes));
    return launches;
  }
  switch (selecting.by) {
    case SelectBy::kBlock:
      launches.push_back(launch_of("prepare", blocks, ramp_prepare));
      break;
    case SelectBy::kCluster:
      launches.push_back(launch_of("cluster", blocks, ramp_prepare_cluster));
      launches.back().cluster = kBlocksOfCluster;
      break;
    case SelectBy::kRuns:
      if (!ready) launches.push_back(launch_of("count", selecting.blocks, ramp_prepare_count));
      launches.push_back(launch_of("group", blocks, ramp_prepare_group));
  }
  if (args.row_a_pair) launches.push_back(launch_of("pairs", 2, ramp_prepare_pairs));
  return launches;
}

Launch combine_launch(const CombineArgs& args, int sms) {
  Launch launch;
  launch.name = "combine";
  launch.blocks = combine_blocks(args.tokens, args.hidden, sms);
  launch.threads = kCombineThreads;
  launch.body = [args] { ramp_combine(args); };
  return launch;
}

}  // namespace ramp::emulator
