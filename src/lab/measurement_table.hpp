// SPDX-License-Identifier: Apache-2.0
// Measurements as a plain table (docs/measurements-format.md), so that times of kernels that are
// not ours enter the same fit, menu and comparison, and ours can be looked at with anything.
#pragma once

#include <string>

#include "choice/measured.hpp"

namespace ramp {

// Tab-separated: config, grid, occupancy, load, us, knobs; one line a cell that was measured, and
// the provenance as
// "# key: value" lines above.
std::string table_text(const MeasuredSpace& space);

// Reads such a table, or any with the columns config, grid, load and us (tab- or comma-separated,
// in any order; several lines of one cell add up).  A load is its counts with blanks between; it is
// sorted.
//
// like: whose passes the times are for; loads of the table that it doesn't have are added without a
// pass.  Null: the shape comes from the "#" lines, and every load is one training pass on one GPU.
// Machine and date come from the "#" lines alone, "unknown" where they are missing.  name: for
// errors and the provenance.
MeasuredSpace parse_table(const std::string& text, const std::string& name,
                          const MeasuredSpace* like);

}  // namespace ramp
