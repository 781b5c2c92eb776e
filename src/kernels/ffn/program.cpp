// SPDX-License-Identifier: Apache-2.0
#include "kernels/ffn/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "kernels/device_code.hpp"
#include "kernels/ffn/space.hpp"
#include "kernels/prepare/state.h"

namespace ramp {
namespace {

// "ffn-f1-r8-c256-...", or "ffn-menu6-<occupancy>-<rows>..." where labels would make a long name.
std::string program_name(std::span<const FfnConfig> menu) {
  if (menu.size() == 1) return "ffn-" + ffn_label(menu[0]);
  std::string name = fmt::format("ffn-menu{}-{}", menu.size(), ffn_occupancy(menu[0]));
  for (const FfnConfig& c : menu) name += fmt::format("-{}", c.rows);
  return name;
}

}  // namespace

void require_legal_menu(std::span<const FfnConfig> menu) {
  const char* next = "make the plan again with `ramp tune`";
  if (menu.empty() || menu.size() > kMaxMenu)
    throw Error("menu", fmt::format("{} entries", menu.size()),
                fmt::format("1 to {} entries", kMaxMenu), next);
  for (std::size_t i = 0; i < menu.size(); ++i) {
    if (const char* why = ffn_refusal(menu[i]))
      throw Error(fmt::format("menu/{}", i), ffn_label(menu[i]), why, next);
    if (ffn_occupancy(menu[i]) != ffn_occupancy(menu[0]))
      throw Error(fmt::format("menu/{}", i),
                  fmt::format("{} ({})", ffn_label(menu[i]), ffn_occupancy(menu[i])),
                  fmt::format("{} as menu/0: a block requests weights before it knows the entry",
                              ffn_occupancy(menu[0])),
                  next);
    for (std::size_t j = 0; j < i; ++j)
      if (ffn_label(menu[i]) == ffn_label(menu[j]))
        throw Error(fmt::format("menu/{}", i), ffn_label(menu[i]),
                    fmt::format("entries that differ; menu/{} is the same", j), next);
  }
}

int deepest_prefill(std::span<const FfnConfig> menu, int hidden) {
  const MenuStart start = menu_start(menu.data(), static_cast<int>(menu.size()));
  if (start.any.topology == kF3) return std::min(start.ring, hidden / kScaleGroup);
  const int up = ffn_up_units(start.any, hidden),
            down = ceil_div(hidden, kFfnUnitCols) / start.any.split;  // the block that has fewest
  return std::min(up >= start.early ? start.ring + start.early : start.ring, up + down);
}

int menu_shared_bytes(std::span<const FfnConfig> menu) {
  int bytes = 0;
  for (const FfnConfig& c : menu) bytes = std::max(bytes, ffn_shared_bytes(c));
  return bytes;
}

std::string ffn_source(std::span<const FfnConfig> menu) {
  const bool phased = menu[0].topology == kF3;
  std::string entries;
  for (const FfnConfig& c : menu) entries += fmt::format("    {},\n", ffn_literal(c));
  return fmt::format(
      "#include \"kernels/ffn/{}kernel.cuh\"\n"
      "namespace ramp {{\n"
      "constexpr FfnConfig kMenu[] = {{\n{}}};\n"
      "}}\n"
      "extern \"C\" __global__ __launch_bounds__(ramp::kFfnThreads, 1) void {}(\n"
      "    const __grid_constant__ ramp::FfnArgs args,\n"
      "    const __grid_constant__ ramp::TensorMap w13,\n"
      "    const __grid_constant__ ramp::TensorMap w2{}) {{\n"
      "  ramp::{}ffn<ramp::kMenu, {}>(args, &w13, &w2{});\n"
      "}}\n",
      phased ? "phased/" : "", entries, kFfnKernelName,
      phased ? ",\n    const __grid_constant__ ramp::TensorMap rows,\n"
               "    const __grid_constant__ ramp::TensorMap middle"
             : "",
      phased ? "phased_" : "", menu.size(), phased ? ", &rows, &middle" : "");
}

gpu::CompileRequest ffn_request(std::span<const FfnConfig> menu) {
  require_legal_menu(menu);
  return device_request(program_name(menu), ffn_source(menu));
}

void require_clean_ffn(const gpu::Cubin& cubin, std::span<const FfnConfig> menu) {
  require_legal_menu(menu);
  require_clean(cubin, program_name(menu), kFfnKernelName, kFfnLaunchRegisters);
}

FfnProgram::FfnProgram(const gpu::Cubin& cubin, std::vector<FfnConfig> menu)
    : menu_(std::move(menu)),
      shared_bytes_(menu_shared_bytes(menu_)),
      module_((require_clean_ffn(cubin, menu_), cubin.bytes), program_name(menu_)),
      kernel_(module_.kernel(kFfnKernelName)) {
  registers_ = cubin.find(kFfnKernelName)->registers;
  kernel_.set_max_dynamic_smem(shared_bytes_);
  if (menu_[0].split > 1) clusters_ = kernel_.resident_clusters(launch_of(menu_[0].split, nullptr));
}

gpu::LaunchConfig FfnProgram::launch_of(int blocks, gpu::CUstream stream) const {
  gpu::LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(blocks);
  config.cluster = menu_[0].split > 1 ? menu_[0].split : 0;
  config.block[0] = kFfnThreads;
  config.smem = static_cast<unsigned>(shared_bytes_);
  config.stream = stream;
  config.programmatic = true;
  return config;
}

void FfnProgram::launch(const FfnArgs& args, const FfnWeightMaps& maps, int blocks,
                        gpu::CUstream stream) const {
  const int split = menu_[0].split;
  int clusters = blocks / split;
  // One that there is no room for would come when the others have ended, to find nothing; unless
  // it owns an item.
  if (const int owned = args.owned_experts * ffn_slices(menu_[0], args.intermediate);
      split > 1 && std::max(1, owned) <= clusters_)
    clusters = std::min(clusters, clusters_);
  const gpu::LaunchConfig config = launch_of(clusters * split, stream);
  if (menu_[0].topology == kF3) {
    const FfnRowMaps rows = make_row_maps(args);
    kernel_(config, args, maps.w13, maps.w2, rows.rows, rows.middle);
  } else {
    kernel_(config, args, maps.w13, maps.w2);
  }
}

}  // namespace ramp
