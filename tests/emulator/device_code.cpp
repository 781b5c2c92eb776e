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

Launch ffn_launch(const Menu& menu, const FfnArgs& args, const void* w13, const void* w2,
                  int blocks) {
  Launch launch;
  launch.name = "ffn";
  launch.cluster = menu.configs[0].split;
  launch.blocks = blocks / launch.cluster * launch.cluster;
  launch.threads = kFfnThreads;
  launch.shared_bytes = menu_shared_bytes(menu.configs);
  launch.shared = menu.shared;
  launch.body = [&menu, args, w13, w2] { menu.kernel(args, w13, w2); };
  return launch;
}

Launch prepare_launch(const PrepareArgs& args, int sms) {
  Launch launch;
  launch.name = "prepare";
  launch.blocks = prepare_blocks(args.tokens, args.hidden_size, sms);
  launch.threads = kPrepareThreads;
  launch.shared_bytes = prepare_shared_bytes(args.local_experts, args.menu.entries);
  launch.shared = [] { return reinterpret_cast<char*>(prepare_shared); };
  launch.body = [args] { ramp_prepare(args); };
  return launch;
}

}  // namespace ramp::emulator
