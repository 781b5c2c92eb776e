// SPDX-License-Identifier: Apache-2.0
// The host twin of what `prepare` leaves in device memory (Algorithm 1, its second half): rows
// grouped by expert and the list of row tiles, in the order and with the bits of the device.  The
// choice's twin is choice/select.hpp.  Checks compare against it; the campaign's timer uploads it
// in place of a launch of `prepare`.
#pragma once

#include <span>
#include <vector>

#include "kernels/ffn/config.h"
#include "kernels/prepare/state.h"
#include "problem/shape.h"

namespace ramp {

// Rows of this GPU, grouped by expert; inside an expert in the order of the pairs.
struct GroupedRows {
  std::vector<int> counts;    // [experts] n_e
  std::vector<int> row_base;  // [experts] where the expert's first row stands on the device
  std::vector<Row> rows;      // [rows] one expert behind the other
};

// ids and gates: [tokens, top_k]; no gates means 1.  expert_map[global id] is the local expert or
// -1; ids outside of it, and -1, are skipped.
GroupedRows group_ids(std::span<const int> ids, std::span<const float> gates, int top_k,
                      std::span<const int> expert_map, int local_experts);

// Ready counts: row r is token r.  gates: [rows], or none.  Negative counts are none.
GroupedRows group_counts(std::span<const int> counts, std::span<const float> gates = {});

// Ready counts of rows in slots: expert e's begin at row e * slots.  Counts above `slots` are cut.
// gates: [experts * slots], or none.
GroupedRows group_slots(std::span<const int> counts, int slots, std::span<const float> gates = {});

// [experts, kHeadRows]: the first rows of each expert; what no row fills is {0, 0} here and
// undefined on the device.
std::vector<Row> head_rows(const GroupedRows& grouped);

// The list of tiles (Tile in state.h says which), expert after expert.  together: as in
// PrepareArgs.
std::vector<Tile> listed_tiles(std::span<const int> counts, std::span<const int> row_base,
                               const Grid& grid, int owned_experts, int together);
// The same where `prepare` lists it for this entry of a layer on so many blocks.
std::vector<Tile> listed_tiles(const GroupedRows& grouped, const FfnConfig& config,
                               const LocalShape& shape, int blocks);

// The state after `prepare` chose `choice`, counters aside.
LayerState prepared_state(int choice, int tiles, int rows);

}  // namespace ramp
