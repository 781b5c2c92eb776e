// SPDX-License-Identifier: Apache-2.0
#include "problem/layout.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.hpp"
#include "problem/json_text.hpp"
#include "problem/text_file.hpp"

namespace ramp {
namespace {

constexpr int kMaxGpus = 4096;
constexpr int kBlock = 128;  // a weight scale covers 128 x 128
constexpr std::uintmax_t kMaxPlacementBytes = 64u << 20;

void check_gpu(const Layout& layout, int gpu) {
  if (gpu < 0 || gpu >= layout.gpus)
    throw Error("gpu", fmt::format("{}", gpu),
                fmt::format("0 .. {} of {}", layout.gpus - 1, layout.name()), "pick one of these");
}

// How many experts the contiguous placement gives to `gpu`.
int contiguous_count(int experts, int gpus, int gpu) {
  return experts / gpus + (gpu < experts % gpus);
}

}  // namespace

std::string Layout::name() const {
  std::string text = fmt::format("{}{}", is_expert_parallel() ? "ep" : "tp", gpus);
  return placement_name.empty() ? text : text + "+" + placement_name;
}

Layout parse_layout(std::string_view text) {
  Layout layout;
  const std::string given(text.substr(0, 40));
  auto refuse = [&]() {
    throw Error("--layout", "'" + given + "'", fmt::format("tpN or epN, N = 1 .. {}", kMaxGpus),
                "for example --layout ep8");
  };
  if (text.size() < 3 || text.size() > 6) refuse();
  const char first = static_cast<char>(text[0] | 0x20), second = static_cast<char>(text[1] | 0x20);
  if (second != 'p' || (first != 't' && first != 'e')) refuse();
  layout.kind = first == 't' ? Layout::Kind::kTensor : Layout::Kind::kExpert;
  layout.gpus = 0;
  for (const char c : text.substr(2)) {
    if (c < '0' || c > '9') refuse();
    layout.gpus = layout.gpus * 10 + (c - '0');
  }
  if (layout.gpus < 1 || layout.gpus > kMaxGpus) refuse();
  return layout;
}

std::vector<int> gpu_of_experts(const Layout& layout, int experts, int layer) {
  if (!layout.is_expert_parallel()) return std::vector<int>(experts, 0);
  if (!layout.placement.empty()) {
    const std::size_t map = layout.placement.size() == 1 ? 0 : static_cast<std::size_t>(layer);
    if (layer < 0 || map >= layout.placement.size())
      throw Error("layer", fmt::format("{}", layer),
                  fmt::format("0 .. {} of the placement", layout.placement.size() - 1),
                  "use a placement with one map a layer of the trace, or one for all");
    if (static_cast<int>(layout.placement[map].size()) != experts)
      throw Error("placement", fmt::format("{} experts", layout.placement[map].size()),
                  fmt::format("E = {}", experts), "use a placement of this model");
    return layout.placement[map];
  }
  std::vector<int> gpu_of;
  gpu_of.reserve(experts);
  for (int gpu = 0; gpu < layout.gpus; ++gpu)
    gpu_of.insert(gpu_of.end(), contiguous_count(experts, layout.gpus, gpu), gpu);
  return gpu_of;
}

std::vector<int> local_experts(const Layout& layout, int experts, int gpu, int layer) {
  check_gpu(layout, gpu);
  std::vector<int> mine;
  if (!layout.is_expert_parallel()) {
    mine.resize(experts);
    std::iota(mine.begin(), mine.end(), 0);
    return mine;
  }
  const std::vector<int> gpu_of = gpu_of_experts(layout, experts, layer);
  for (int e = 0; e < experts; ++e)
    if (gpu_of[e] == gpu) mine.push_back(e);
  return mine;
}

std::vector<int> expert_map(const Layout& layout, int experts, int gpu, int layer) {
  std::vector<int> map(experts, -1);
  int local = 0;
  for (const int e : local_experts(layout, experts, gpu, layer)) map[e] = local++;
  return map;
}

LocalShape local_shape(const MoeShape& shape, const Layout& layout, int gpu, int layer) {
  check_gpu(layout, gpu);
  LocalShape local{shape.experts, shape.top_k, shape.hidden, shape.intermediate};
  if (layout.is_expert_parallel()) {
    if (layout.gpus > shape.experts)
      throw Error("--layout", layout.name(), fmt::format("ep1 .. ep{}", shape.experts),
                  "every GPU needs an expert");
    local.experts = static_cast<int>(local_experts(layout, shape.experts, gpu, layer).size());
    return local;
  }
  if (layout.gpus == 1) return local;
  if (shape.intermediate % layout.gpus != 0)
    throw Error("--layout", layout.name(),
                fmt::format("a number of GPUs that divides h = {}", shape.intermediate),
                "use a smaller tpN, or epN, which does not cut experts");
  local.intermediate = shape.intermediate / layout.gpus;
  if (local.intermediate % kBlock != 0)
    throw Error("--layout",
                fmt::format("{}, which cuts h = {} into {}", layout.name(), shape.intermediate,
                            local.intermediate),
                "slices of whole 128-wide scale blocks",
                "use a smaller tpN, or epN: a slice's edge inside a block would need that block's "
                "scale twice");
  return local;
}

void check_layout(const MoeShape& shape, const Layout& layout) {
  const int maps = std::max<int>(1, static_cast<int>(layout.placement.size()));
  for (int map = 0; map < maps; ++map) {
    for (const int gpu : gpu_of_experts(layout, shape.experts, map)) {
      if (gpu < 0 || gpu >= layout.gpus)
        throw Error("placement", fmt::format("GPU {}", gpu),
                    fmt::format("0 .. {}", layout.gpus - 1),
                    "fix the placement, or use a layout with more GPUs");
    }
  }
  // One GPU speaks for all where the shares are equal by construction; a free map may leave a GPU
  // empty, which is allowed: it then gets no tokens.
  local_shape(shape, layout, 0);
}

std::vector<int> balanced_placement(std::span<const double> loads, int gpus) {
  const int experts = static_cast<int>(loads.size());
  if (gpus < 1 || gpus > experts)
    throw Error("gpus", fmt::format("{}", gpus), fmt::format("1 .. E = {}", experts),
                "use fewer GPUs");
  std::vector<int> order(experts);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return loads[a] > loads[b]; });
  std::vector<double> total(gpus, 0.0);
  std::vector<int> free_slots(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) free_slots[gpu] = contiguous_count(experts, gpus, gpu);
  std::vector<int> gpu_of(experts, 0);
  for (const int e : order) {
    int best = -1;
    for (int gpu = 0; gpu < gpus; ++gpu)
      if (free_slots[gpu] > 0 && (best < 0 || total[gpu] < total[best])) best = gpu;
    gpu_of[e] = best;
    total[best] += loads[e];
    --free_slots[best];
  }
  return gpu_of;
}

Layout with_placement_json(Layout layout, int experts, std::string_view text,
                           const std::string& name) {
  using nlohmann::json;
  if (!layout.is_expert_parallel())
    throw Error("--placement", name, "a layout epN", "a tpN layout has every expert on every GPU");
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const char* allowed = "[E] GPUs, or {\"placement\": [E] or [layers][E]}";
  if (root.is_discarded())
    throw Error("placement", "text that is no JSON", allowed, "check " + name);
  const json* list = &root;
  if (root.is_object()) {
    const auto found = root.find("placement");
    if (found == root.end())
      throw Error("placement", "an object without that key", allowed, "check " + name);
    list = &*found;
  }
  if (!list->is_array() || list->empty())
    throw Error("placement", "no list", allowed, "check " + name);
  auto one_map = [&](const json& entries, std::size_t index) {
    if (!entries.is_array() || entries.size() != static_cast<std::size_t>(experts))
      throw Error(fmt::format("placement[{}]", index),
                  entries.is_array() ? fmt::format("{} entries", entries.size()) : "no list",
                  fmt::format("E = {} entries", experts), "use a placement of this model");
    std::vector<int> map;
    map.reserve(entries.size());
    for (std::size_t e = 0; e < entries.size(); ++e) {
      const json& gpu = entries[e];
      if (!gpu.is_number_integer() || gpu.get<double>() < 0 || gpu.get<double>() >= layout.gpus)
        throw Error(fmt::format("placement[{}], expert {}", index, e), shown(gpu),
                    fmt::format("a GPU, 0 .. {}", layout.gpus - 1),
                    "fix the file or use more GPUs");
      map.push_back(gpu.get<int>());
    }
    return map;
  };
  layout.placement.clear();
  if (list->front().is_array()) {
    for (std::size_t i = 0; i < list->size(); ++i)
      layout.placement.push_back(one_map((*list)[i], i));
  } else {
    layout.placement.push_back(one_map(*list, 0));
  }
  layout.placement_name = name;
  return layout;
}

Layout with_placement_file(Layout layout, int experts, const std::filesystem::path& path) {
  return with_placement_json(std::move(layout), experts,
                             read_whole_file(path, "--placement", kMaxPlacementBytes),
                             path.stem().string());
}

}  // namespace ramp
