// SPDX-License-Identifier: Apache-2.0
// Loads as a user gives them to a verb.
#pragma once

#include <string>
#include <vector>

namespace ramp::cli {

// n_e of the local experts, of --load ("8,8,0,30") or of each line of --counts-file; one of the two
// is given.  Empty lines and those that begin with # are passed over.  Throws Error naming the
// place.
std::vector<std::vector<int>> read_loads(const std::string& load, const std::string& counts_file);

}  // namespace ramp::cli
