// SPDX-License-Identifier: Apache-2.0
// The device memory between `prepare` and `ffn`: one block of the caller's, cut by one function
// that sizes and places, so that the two can't disagree.
#pragma once

#include <cstddef>

#include "problem/shape.h"

namespace ramp {

constexpr std::size_t kWorkspaceAlignment = 256;

// Offsets in bytes, each a multiple of kWorkspaceAlignment.
struct Workspace {
  std::size_t state;         // LayerState; first, so that its place depends on nothing
  std::size_t counts;        // int [experts]
  std::size_t rows;          // Row [pairs + kHeadRows]: a tile's rows are asked for whole
  std::size_t head;          // Row [experts, kHeadRows]
  std::size_t tiles;         // Tile [pairs + experts]: every pair may be a tile of its own
  std::size_t run_counts;    // int [runs, experts], of large loads (runs.h)
  std::size_t places;        // int [pairs], of large loads
  std::size_t rows_scale;    // float [tokens, hidden / 128], or column by column (state.h)
  std::size_t rows_q;        // e4m3 [tokens, hidden]
  std::size_t ready;         // int [pairs + experts]; these three only with middle rows
  std::size_t middle_scale;  // float [h / 128, column_pitch(pairs)]
  std::size_t middle_q;      // e4m3 [pairs, h]
  std::size_t position;      // int [pairs]; with slots, or a row a pair
  std::size_t slots;         // bf16 [pairs, hidden]; only with slots
  std::size_t bytes;         // of all
};

struct WorkspaceParts {
  bool middle = false;  // rows between the projections stand in memory (topology F3)
  bool slots = false;   // so do those behind the second one (`ordered` mode)
  // Of a call whose rows come otherwise than as bf16 in the tokens' order:
  bool grouped = false;    // by expert: a pair each, whose result has a place of its own
  bool rows_q = true;      // to be quantised
  bool rows_scale = true;  // these too, or their scales to be ordered
  // Of one whose rows come by token: rows_q and rows_scale have a row for each pair instead.
  bool row_a_pair = false;
};

// pairs = tokens * top_k; all of them may belong to this GPU.  No part that is left out makes
// anything larger.
Workspace workspace_layout(const LocalShape& shape, int tokens, WorkspaceParts parts);

}  // namespace ramp
