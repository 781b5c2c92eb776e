// SPDX-License-Identifier: Apache-2.0
#include "choice/select.hpp"

#include "base/error.hpp"

namespace ramp {
namespace {

void choose(Selection& s, std::span<const MenuEntry> menu) {
  if (menu.empty())
    throw Error("menu", "no entry", "1 or more entries", "make a plan with `ramp plan make`");
  for (const MenuEntry& entry : menu)
    s.predicted_us.push_back(predict_us(
        entry.theta, features(entry.grid, s.load.data(), static_cast<int>(s.load.size()))));
  s.entry = cheapest(s.predicted_us.data(), static_cast<int>(menu.size()));
}

void count(std::span<const std::int32_t> ids, int top_k, std::span<const std::int32_t> expert_map,
           Selection& s) {
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::int32_t id = ids[i];
    if (id == -1) {
      ++s.ids.padding;
      continue;
    }
    if (id < 0 || static_cast<size_t>(id) >= expert_map.size()) {
      ++s.ids.invalid;
      continue;
    }
    for (size_t j = i - i % top_k; j < i; ++j)
      if (ids[j] == id) {
        ++s.ids.duplicates;
        break;
      }
    const std::int32_t local = expert_map[id];
    if (local < 0) {
      ++s.ids.foreign;
      continue;
    }
    ++s.load[local];
    ++s.ids.local;
  }
}

}  // namespace

Selection select(std::span<const std::int32_t> ids, int top_k,
                 std::span<const std::int32_t> expert_map, int local_experts,
                 std::span<const MenuEntry> menu) {
  if (top_k < 1 || ids.size() % top_k != 0)
    throw Error("ids", fmt::format("{} ids for top_k {}", ids.size(), top_k),
                "whole rows of top_k ids", "pass the router's [tokens, top_k] ids");
  for (size_t e = 0; e < expert_map.size(); ++e)
    if (expert_map[e] < -1 || expert_map[e] >= local_experts)
      throw Error(fmt::format("expert_map[{}]", e), std::to_string(expert_map[e]),
                  fmt::format("-1 or a local expert below {}", local_experts),
                  "build the map from the layout");
  Selection s;
  s.load.assign(local_experts, 0);
  count(ids, top_k, expert_map, s);
  choose(s, menu);
  return s;
}

Selection select(std::span<const int> load, std::span<const MenuEntry> menu) {
  Selection s;
  s.load.assign(load.begin(), load.end());
  for (int n : load) {
    if (n < 0)
      throw Error("load", std::to_string(n), "counts from 0",
                  "pass the tokens of each local expert");
    s.ids.local += n;
  }
  choose(s, menu);
  return s;
}

}  // namespace ramp
