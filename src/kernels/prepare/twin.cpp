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
                               const Grid& grid, int owned_experts, int together) {
  const bool phased = grid.phases > 1;
  const int tile_rows = grid.phase[0].rows;
  const auto tile = [&](std::size_t e, int t) {
    const int at = t * tile_rows, rows = std::clamp(counts[e] - at, 0, tile_rows);
    const int shares = phased && counts[e] > tile_rows ? kTileShares : 0;
    return Tile{static_cast<int>(e) | rows << 16 | shares, row_base[e] + at, 0, 0};
  };
  std::vector<Tile> tiles, last;
  const auto push_alone = [&](Tile t) {
    t.group_first = static_cast<int>(tiles.size()), t.group_count = 1;
    tiles.push_back(t);
  };
  if (phased)
    for (std::size_t e = 0; e < counts.size() && static_cast<int>(e) < owned_experts; ++e)
      push_alone(tile(e, 0));
  int all = static_cast<int>(tiles.size());
  const auto owned = [&](std::size_t e) {
    return counts[e] > 0 && static_cast<int>(e) < owned_experts ? 1 : 0;
  };
  for (std::size_t e = 0; e < counts.size(); ++e)
    all += ceil_div(std::max(0, counts[e]), tile_rows) - owned(e);
  const bool any_last = short_tiles_last(grid, all);
  for (std::size_t e = 0; e < counts.size(); ++e) {
    if (counts[e] <= 0) continue;
    const int first = static_cast<int>(tiles.size()), all_of = ceil_div(counts[e], tile_rows);
    const bool alone = (all_of - owned(e) - 1) % together == 0;
    for (int t = owned(e); t < all_of; ++t)
      (any_last && alone && counts[e] - t * tile_rows <= kShortRows ? last : tiles)
          .push_back(tile(e, t));
    for (std::size_t i = static_cast<std::size_t>(first); i < tiles.size(); ++i)
      tiles[i].group_first = first, tiles[i].group_count = static_cast<int>(tiles.size()) - first;
  }
  for (const Tile& t : last) push_alone(t);
  return tiles;
}

std::vector<Tile> listed_tiles(const GroupedRows& grouped, const FfnConfig& config,
                               const LocalShape& shape, int blocks) {
  return listed_tiles(grouped.counts, grouped.row_base,
                      ffn_grid(config, shape.hidden, shape.intermediate, blocks),
                      ffn_owned_experts(config, shape.intermediate, blocks, shape.experts),
                      ffn_tiles_together(config));
}

LayerState prepared_state(int choice, int tiles, int rows) {
  LayerState state{};
  state.choice = choice;
  state.tiles = tiles;
  state.rows = rows;
  return state;
}

}  // namespace ramp
