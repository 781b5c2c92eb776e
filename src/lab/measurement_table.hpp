// SPDX-License-Identifier: Apache-2.0
// Measurements as a plain table (docs/measurements-format.md), so that times of kernels that are
// not ours enter the same fit, menu and comparison, and ours can be looked at with anything.
#pragma once

#include <string>

#include "choice/measured.hpp"

namespace ramp {

// Tab-separated: config, grid, occupancy, load, us, knobs; one line a cell that was measured, and
// the provenance as
// "# key: value" lines above.  Passes are not in it: `like` brings them back.
std::string table_text(const MeasuredSpace& space);

// Reads such a table, or any with the columns config, grid, load and us (tab- or comma-separated,
// in any order; several lines of one cell add up).  A load is its counts with blanks between; it is
// sorted.
//
// Which passes the loads belong to say the columns tokens, role, pass, gpu and domain; a load
// without them is one training pass on one GPU.  Or like: whose passes the times are for; loads of
// the table that it doesn't have are added without a pass.  The shape comes from the "#" lines, or
// from like; machine and date from the "#" lines alone, "unknown" where they are missing; so do the
// kernel's name and what it runs by itself ("# shipped 128: CONFIG").  name: for errors and the
// provenance.
MeasuredSpace parse_table(const std::string& text, const std::string& name,
                          const MeasuredSpace* like);

}  // namespace ramp
