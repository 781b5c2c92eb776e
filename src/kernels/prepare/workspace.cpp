// SPDX-License-Identifier: Apache-2.0
#include "kernels/prepare/workspace.hpp"

#include "kernels/numeric.h"
#include "kernels/prepare/runs.h"
#include "kernels/prepare/state.h"

namespace ramp {

Workspace workspace_layout(const LocalShape& shape, int tokens, WorkspaceParts parts) {
  const std::size_t experts = shape.experts, hidden = shape.hidden;
  const std::size_t all_tokens = tokens;
  const std::size_t pairs = parts.grouped ? all_tokens : all_tokens * shape.top_k;
  std::size_t end = 0;
  const auto place = [&](std::size_t bytes) {
    const std::size_t at = end;
    end = (at + bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
    return at;
  };
  Workspace w{};
  w.state = place(sizeof(LayerState));
  w.counts = place(experts * sizeof(int));
  w.rows = place((pairs + kHeadRows) * sizeof(Row));
  w.head = place(experts * kHeadRows * sizeof(Row));
  w.tiles = place((pairs + experts) * sizeof(Tile));
  // None where a block or a cluster selects.
  const Selecting selecting = selecting_of(static_cast<int>(pairs), parts.grouped);
  const std::size_t runs = selecting.blocks;
  const std::size_t several = !parts.grouped && selecting.by == SelectBy::kRuns ? 1 : 0;
  w.run_counts = place(several * runs * experts * sizeof(int));
  w.places = place(several * pairs * sizeof(int));
  const std::size_t rows = parts.row_a_pair ? pairs : all_tokens;
  const auto scales = [](std::size_t of_rows, std::size_t columns) {  // in either order
    const int pitch = column_pitch(static_cast<int>(of_rows));
    return static_cast<std::size_t>(pitch) * (columns / kScaleGroup) * sizeof(float);
  };
  if (parts.rows_scale) w.rows_scale = place(scales(rows, hidden));
  if (parts.rows_q) w.rows_q = place(rows * hidden);
  if (parts.middle) {
    const std::size_t h = shape.intermediate;
    w.ready = place((pairs + experts) * sizeof(int));
    w.middle_scale = place(scales(pairs, h));
    w.middle_q = place(pairs * h);
  }
  const bool slots = parts.slots && !parts.grouped;
  if (slots || parts.row_a_pair) w.position = place(pairs * sizeof(int));
  if (slots) w.slots = place(pairs * hidden * 2);
  w.bytes = end;
  return w;
}

}  // namespace ramp
