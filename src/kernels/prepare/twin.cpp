// SPDX-License-Identifier: Apache-2.0
#include "kernels/prepare/twin.hpp"

#include <algorithm>
#include <cstddef>

namespace ramp {
namespace {

std::vector<int> bases_of(const std::vector<int>& counts) {
  std::vector<int> base;
  base.reserve(counts.size());
  int rows = 0;
  for (const int n : counts) {
    base.push_back(rows);
    rows += n;
  }
  return base;
}

int local_expert(int id, std::span<const int> expert_map, int local_experts) {
  if (id < 0 || id >= static_cast<int>(expert_map.size())) return -1;
  const int local = expert_map[static_cast<std::size_t>(id)];
  return local < local_experts ? local : -1;
}

}  // namespace

GroupedRows group_ids(std::span<const int> ids, std::span<const float> gates, int top_k,
                      std::span<const int> expert_map, int local_experts) {
  GroupedRows g;
  g.counts.assign(static_cast<std::size_t>(local_experts), 0);
  for (const int id : ids)
    if (const int e = local_expert(id, expert_map, local_experts); e >= 0)
      ++g.counts[static_cast<std::size_t>(e)];
  g.row_base = bases_of(g.counts);
  int rows = 0;
  for (const int n : g.counts) rows += n;
  g.rows.resize(static_cast<std::size_t>(rows));
  std::vector<int> next = g.row_base;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const int e = local_expert(ids[i], expert_map, local_experts);
    if (e < 0) continue;
    const auto row = static_cast<std::size_t>(next[static_cast<std::size_t>(e)]++);
    g.rows[row] = {static_cast<int>(i) / top_k, gates.empty() ? 1.0f : gates[i]};
  }
  return g;
}

GroupedRows group_counts(std::span<const int> counts, std::span<const float> gates) {
  GroupedRows g;
  int rows = 0;
  for (const int n : counts) {
    g.counts.push_back(std::max(0, n));
    rows += g.counts.back();
  }
  g.row_base = bases_of(g.counts);
  for (int r = 0; r < rows; ++r)
    g.rows.push_back({r, gates.empty() ? 1.0f : gates[static_cast<std::size_t>(r)]});
  return g;
}

GroupedRows group_slots(std::span<const int> counts, int slots, std::span<const float> gates) {
  GroupedRows g;
  for (const int given : counts) {
    const int n = std::clamp(given, 0, slots), base = static_cast<int>(g.counts.size()) * slots;
    g.counts.push_back(n);
    g.row_base.push_back(base);
    for (int r = base; r < base + n; ++r)
      g.rows.push_back({r, gates.empty() ? 1.0f : gates[static_cast<std::size_t>(r)]});
  }
  return g;
}

std::vector<Row> head_rows(const GroupedRows& grouped) {
  std::vector<Row> head(grouped.counts.size() * kHeadRows, Row{0, 0.0f});
  std::size_t first = 0;
  for (std::size_t e = 0; e < grouped.counts.size(); ++e) {
    const auto n = static_cast<std::size_t>(grouped.counts[e]);
    std::copy_n(grouped.rows.begin() + static_cast<std::ptrdiff_t>(first),
                std::min<std::size_t>(n, kHeadRows),
                head.begin() + static_cast<std::ptrdiff_t>(e * kHeadRows));
    first += n;
  }
  return head;
}

std::vector<Tile> listed_tiles(std::span<const int> counts, std::span<const int> row_base,
                               int rows_of_tile, int owned_experts, bool phased) {
  const auto shares = [&](std::size_t e) {
    return phased && counts[e] > rows_of_tile ? kTileShares : 0;
  };
  std::vector<Tile> tiles;
  if (phased)
    for (std::size_t e = 0; e < counts.size() && static_cast<int>(e) < owned_experts; ++e) {
      const int rows = std::clamp(counts[e], 0, rows_of_tile);
      tiles.push_back(
          {static_cast<int>(e) | rows << 16 | shares(e), row_base[e], static_cast<int>(e), 1});
    }
  for (std::size_t e = 0; e < counts.size(); ++e) {
    const int n = counts[e];
    if (n <= 0) continue;
    const int owned = static_cast<int>(e) < owned_experts ? 1 : 0;
    const int first = static_cast<int>(tiles.size());
    const int claimed = ceil_div(n, rows_of_tile) - owned;
    for (int t = 0; t < claimed; ++t) {
      const int at = (t + owned) * rows_of_tile;
      const int rows = std::min(rows_of_tile, n - at);
      tiles.push_back(
          {static_cast<int>(e) | rows << 16 | shares(e), row_base[e] + at, first, claimed});
    }
  }
  return tiles;
}

LayerState prepared_state(int choice, int tiles, int rows) {
  LayerState state{};
  state.choice = choice;
  state.tiles = tiles;
  state.rows = rows;
  return state;
}

}  // namespace ramp
