// SPDX-License-Identifier: Apache-2.0
#include "problem/layout.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace ramp {
namespace {

constexpr int kMaxGpus = 4096;
constexpr int kBlock = 128;  // a weight scale covers 128 x 128

void check_gpu(const Layout& layout, int gpu) {
  if (gpu < 0 || gpu >= layout.gpus)
    throw Error("gpu", fmt::format("{}", gpu),
                fmt::format("0 .. {} of {}", layout.gpus - 1, layout.name()), "pick one of these");
}

// One map serves every layer; else each row of the trace has its own.
const std::vector<int>& map_of(const std::vector<std::vector<int>>& maps, int layer) {
  const std::size_t map = maps.size() == 1 ? 0 : static_cast<std::size_t>(layer);
  if (layer < 0 || map >= maps.size())
    throw Error("layer", fmt::format("{}", layer),
                fmt::format("0 .. {} of the placement", maps.size() - 1),
                "use a placement with one map a layer of the trace, or one for all");
  return maps[map];
}

}  // namespace

int contiguous_experts(int experts, int gpus, int gpu) {
  return experts / gpus + (gpu < experts % gpus);
}

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
  if (layout.has_replicas())
    throw Error("--placement", layout.name(), "one GPU for each expert",
                "use a placement without replicas here");
  if (!layout.placement.empty()) {
    const std::vector<int>& map = map_of(layout.placement, layer);
    if (static_cast<int>(map.size()) != experts)
      throw Error("placement", fmt::format("{} experts", map.size()),
                  fmt::format("E = {}", experts), "use a placement of this model");
    return map;
  }
  std::vector<int> gpu_of;
  gpu_of.reserve(experts);
  for (int gpu = 0; gpu < layout.gpus; ++gpu)
    gpu_of.insert(gpu_of.end(), contiguous_experts(experts, layout.gpus, gpu), gpu);
  return gpu_of;
}

std::span<const int> slots_of(const Layout& layout, int experts, int layer) {
  const std::vector<int>& slots = map_of(layout.replicas, layer);
  if (slots.empty() || slots.size() % static_cast<std::size_t>(layout.gpus) != 0)
    throw Error("placement", fmt::format("{} physical slots", slots.size()),
                fmt::format("a multiple of {} GPUs", layout.gpus),
                "use a map of this layout, or another --layout");
  if (*std::max_element(slots.begin(), slots.end()) >= experts)
    throw Error("placement",
                fmt::format("expert {}", *std::max_element(slots.begin(), slots.end())),
                fmt::format("0 .. {}", experts - 1), "use a placement of this model");
  return slots;
}

std::vector<int> local_experts(const Layout& layout, int experts, int gpu, int layer) {
  check_gpu(layout, gpu);
  std::vector<int> mine;
  if (!layout.is_expert_parallel()) {
    mine.resize(experts);
    std::iota(mine.begin(), mine.end(), 0);
    return mine;
  }
  if (layout.has_replicas()) {
    const std::span<const int> slots = slots_of(layout, experts, layer);
    const std::size_t each = slots.size() / static_cast<std::size_t>(layout.gpus);
    const auto held = slots.subspan(static_cast<std::size_t>(gpu) * each, each);
    mine.assign(held.begin(), held.end());
    std::sort(mine.begin(), mine.end());
    // Two replicas on one GPU are one expert there: a second copy of its weights gains nothing.
    mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
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

namespace {

int maps_of(const Layout& layout) {
  return static_cast<int>(
      std::max({std::size_t{1}, layout.placement.size(), layout.replicas.size()}));
}

void check_map(const MoeShape& shape, const Layout& layout, int map) {
  if (layout.has_replicas()) {
    std::vector<bool> is_held(shape.experts, false);
    for (const int e : slots_of(layout, shape.experts, map)) is_held[e] = true;
    const auto missing = std::find(is_held.begin(), is_held.end(), false);
    if (missing != is_held.end())
      throw Error("placement", fmt::format("no slot for expert {}", missing - is_held.begin()),
                  fmt::format("every expert 0 .. {} in a slot", shape.experts - 1),
                  "use a map of this model");
    return;
  }
  for (const int gpu : gpu_of_experts(layout, shape.experts, map))
    if (gpu < 0 || gpu >= layout.gpus)
      throw Error("placement", fmt::format("GPU {}", gpu), fmt::format("0 .. {}", layout.gpus - 1),
                  "fix the placement, or use a layout with more GPUs");
}

}  // namespace

void check_layout(const MoeShape& shape, const Layout& layout) {
  for (int map = 0; map < maps_of(layout); ++map) check_map(shape, layout, map);
  // One GPU speaks for all where the shares are equal by construction; a free map may leave a GPU
  // empty, which is allowed: it then gets no tokens.
  local_shape(shape, layout, 0);
}

LocalShape widest_shape(const MoeShape& shape, const Layout& layout) {
  LocalShape widest = local_shape(shape, layout, 0);
  for (int map = 0; map < maps_of(layout); ++map)
    for (int gpu = 0; gpu < layout.gpus; ++gpu)
      widest.experts = std::max(widest.experts, local_shape(shape, layout, gpu, map).experts);
  return widest;
}

}  // namespace ramp
