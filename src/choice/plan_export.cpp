// SPDX-License-Identifier: Apache-2.0
#include "choice/plan_export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.hpp"
#include "choice/batch_table.hpp"
#include "choice/select.hpp"

namespace ramp {
namespace {

// As torch names the device, blanks and slashes replaced; vLLM takes all of the H200 family for
// one.
std::string device_file_name(const Plan& plan) {
  if (plan.gpu.name.empty())
    throw Error("plan /gpu/name", "an empty text", "the GPU that the times are of",
                "add `# gpu: NVIDIA H200` to the table and import it again");
  std::string name = plan.gpu.name;
  for (char& c : name)
    if (c == ' ' || c == '/') c = '_';
  const bool is_h200 = ("_" + name + "_").find("_H200_") != std::string::npos;
  return is_h200 ? "NVIDIA_H200" : name;
}

std::string vllm_file(const Plan& plan, const std::string& dtype, const std::string& block_shape) {
  return fmt::format("E={},N={},device_name={}{}{}.json", plan.shape.experts,
                     plan.shape.intermediate, device_file_name(plan),
                     dtype.empty() ? "" : ",dtype=" + dtype,
                     block_shape.empty() ? "" : fmt::format(",block_shape=[{}]", block_shape));
}

// Gate and up count as one dimension there.
std::string alpha_moe_file(const Plan& plan, const std::string&, const std::string&) {
  return fmt::format("moe_jit_{}_{}_{}.json", plan.shape.experts, 2 * plan.shape.intermediate,
                     plan.shape.hidden);
}

std::string deepgemm_file(const Plan& plan, const std::string&, const std::string&) {
  return fmt::format("expected_m_{}_{}_{}.json", plan.shape.experts, plan.shape.intermediate,
                     plan.shape.hidden);
}

}  // namespace

const std::vector<ExportFormat>& export_formats() {
  static const std::vector<ExportFormat> formats = {
      {"vllm",
       "table of vLLM's Triton MoE, for VLLM_TUNED_CONFIG_FOLDER",
       {"BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages"},
       vllm_file},
      {"deepgemm",
       "expected_m of DeepGEMM's masked grouped GEMM, an argument of the call",
       {"expected_m"},
       deepgemm_file},
      {"alpha-moe",
       "Alpha-MoE's table of tile configurations",
       {"block_m", "block_n", "warp_n", "stages"},
       alpha_moe_file},
  };
  return formats;
}

const ExportFormat& export_format(std::string_view name) {
  std::string names;
  for (const ExportFormat& format : export_formats()) {
    if (name == format.name) return format;
    names += (names.empty() ? "" : ", ") + std::string(format.name);
  }
  throw Error("--for", std::string(name), names, "pick the kernel that the times are of");
}

std::vector<SizePick> picks_by_size(const Plan& plan, const MeasuredSpace& traffic, int gpu) {
  const auto shape_text = [](const LocalShape& s) {
    return fmt::format("{} experts, top {}, d {}, h {}", s.experts, s.top_k, s.hidden,
                       s.intermediate);
  };
  if (shape_text(traffic.shape) != shape_text(plan.shape))
    throw Error("traffic", shape_text(traffic.shape),
                shape_text(plan.shape) + " a GPU, as the plan has",
                "give measurements of the plan's layer and layout");
  const bool has_routed =
      std::any_of(traffic.passes.begin(), traffic.passes.end(),
                  [](const MeasuredPass& pass) { return pass.role != Role::kUniform; });
  struct Bucket {
    std::vector<double> log_us;  // an entry, summed over passes
    int passes = 0;
  };
  std::map<int, Bucket> buckets;
  std::map<std::pair<int, int>, std::vector<float>> predicted;  // of a size's menu on a load
  for (const MeasuredPass& pass : traffic.passes) {
    if (has_routed && pass.role == Role::kUniform) continue;
    const int tokens = kVllmBatchSizes[nearest_key(kVllmBatchSizes, pass.tokens)];
    const std::vector<MenuEntry> menu = menu_of(plan_for(plan, tokens));
    std::vector<float> slowest(menu.size(), 0);
    for (int g = 0; g < static_cast<int>(pass.load_of_gpu.size()); ++g) {
      const int load = pass.load_of_gpu[static_cast<size_t>(g)];
      if (load < 0 || (gpu >= 0 && g != gpu)) continue;
      std::vector<float>& us = predicted[{tokens, load}];
      if (us.empty()) us = select(traffic.loads[static_cast<size_t>(load)], menu).predicted_us;
      for (size_t e = 0; e < menu.size(); ++e) slowest[e] = std::max(slowest[e], us[e]);
    }
    if (std::any_of(slowest.begin(), slowest.end(), [](float us) { return us <= 0; })) continue;
    Bucket& bucket = buckets[tokens];
    bucket.log_us.resize(menu.size());
    for (size_t e = 0; e < menu.size(); ++e) bucket.log_us[e] += std::log(slowest[e]);
    ++bucket.passes;
  }
  if (buckets.empty())
    throw Error(gpu < 0 ? "traffic" : fmt::format("traffic of GPU {}", gpu),
                "no pass that brings it a token", "one or more",
                gpu < 0 ? "give measurements with passes" : "leave this GPU out");
  std::vector<SizePick> picks;
  for (const auto& [tokens, bucket] : buckets) {
    const auto best = std::min_element(bucket.log_us.begin(), bucket.log_us.end());
    const auto entry = static_cast<size_t>(best - bucket.log_us.begin());
    picks.push_back({tokens, &plan_for(plan, tokens).menu[entry], bucket.passes,
                     std::exp(*best / bucket.passes)});
  }
  return picks;
}

nlohmann::ordered_json exported_entry(const ExportFormat& format, const PlanEntry& entry) {
  const auto knobs = nlohmann::json::parse(entry.knobs);
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const char* name : format.knobs) {
    const auto it = knobs.find(name);
    if (it == knobs.end() || !it->is_number_integer())
      throw Error(
          fmt::format("{} of {}", name, entry.label), it == knobs.end() ? "nothing" : it->dump(),
          fmt::format("a whole number; {} needs {}", format.name, fmt::join(format.knobs, ", ")),
          "write them into the table's column knobs, or pick another --for");
    out[name] = it->get<long long>();
  }
  return out;
}

nlohmann::ordered_json exported_table(const ExportFormat& format, std::span<const SizePick> picks) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const SizePick& pick : picks)
    out[std::to_string(pick.tokens)] = exported_entry(format, *pick.entry);
  return out;
}

}  // namespace ramp
