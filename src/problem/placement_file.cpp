// SPDX-License-Identifier: Apache-2.0
// Placements as JSON.
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "problem/json_text.hpp"
#include "problem/placement.hpp"
#include "problem/text_file.hpp"

namespace ramp {
namespace {

using nlohmann::json;

constexpr std::uintmax_t kMaxPlacementBytes = 64u << 20;
constexpr std::size_t kMaxSlots = 1u << 17;  // of a layer
constexpr const char* kAllowed =
    "[E] GPUs, {\"placement\": [E] or [layers][E]}, or {\"physical_to_logical_map\": [slots] or "
    "[layers][slots]}";

// One map: whole numbers, 0 .. limit - 1.
std::vector<int> map_of(const json& entries, std::size_t index, int limit, const char* what) {
  std::vector<int> map;
  map.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const json& entry = entries[i];
    if (!entry.is_number_integer() || entry.get<double>() < 0 || entry.get<double>() >= limit)
      throw Error(fmt::format("placement[{}], entry {}", index, i), shown(entry),
                  fmt::format("{}, 0 .. {}", what, limit - 1), "fix the file or use more GPUs");
    map.push_back(entry.get<int>());
  }
  return map;
}

}  // namespace

Layout with_placement_json(Layout layout, int experts, std::string_view text,
                           const std::string& name) {
  if (!layout.is_expert_parallel())
    throw Error("--placement", name, "a layout epN", "a tpN layout has every expert on every GPU");
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded())
    throw Error("placement", "text that is no JSON", kAllowed, "check " + name);
  const json* list = &root;
  bool is_replicated = false;
  if (root.is_object()) {
    auto found = root.find("placement");
    if (found == root.end()) {
      found = root.find("physical_to_logical_map");
      is_replicated = true;
    }
    if (found == root.end())
      throw Error("placement", "an object without that key", kAllowed, "check " + name);
    list = &*found;
  }
  if (!list->is_array() || list->empty())
    throw Error("placement", "no list", kAllowed, "check " + name);
  const auto one_map = [&](const json& entries, std::size_t index) {
    if (!entries.is_array())
      throw Error(fmt::format("placement[{}]", index), shown(entries), "a list", "check " + name);
    const bool fits = is_replicated ? entries.size() >= static_cast<std::size_t>(experts) &&
                                          entries.size() <= kMaxSlots
                                    : entries.size() == static_cast<std::size_t>(experts);
    if (!fits)
      throw Error(fmt::format("placement[{}]", index), fmt::format("{} entries", entries.size()),
                  fmt::format("E = {} entries{}", experts, is_replicated ? " and more" : ""),
                  "use a placement of this model");
    return is_replicated ? map_of(entries, index, experts, "an expert")
                         : map_of(entries, index, layout.gpus, "a GPU");
  };
  layout.placement.clear();
  layout.replicas.clear();
  std::vector<std::vector<int>>& maps = is_replicated ? layout.replicas : layout.placement;
  if (list->front().is_array())
    for (std::size_t i = 0; i < list->size(); ++i) maps.push_back(one_map((*list)[i], i));
  else
    maps.push_back(one_map(*list, 0));
  layout.placement_name = name;
  for (std::size_t i = 0; i < layout.replicas.size(); ++i) slots_of(layout, experts, i);
  return layout;
}

Layout with_placement_file(Layout layout, int experts, const std::filesystem::path& path) {
  return with_placement_json(std::move(layout), experts,
                             read_whole_file(path, "--placement", kMaxPlacementBytes),
                             path.stem().string());
}

std::string placement_json(const Layout& layout) {
  json root = {{"layout", fmt::format("ep{}", layout.gpus)}, {"name", layout.placement_name}};
  if (layout.has_replicas())
    root["physical_to_logical_map"] = layout.replicas;
  else
    root["placement"] = layout.placement;
  return root.dump() + "\n";
}

}  // namespace ramp
