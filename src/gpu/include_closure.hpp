// SPDX-License-Identifier: Apache-2.0
// Which of a request's headers its source can reach.  Requests carry every embedded source; only
// those that matter reach the compiler and the cache key, so that an edit of one kernel family
// leaves the others' cubins valid.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gpu/compiler.hpp"

namespace ramp::gpu {

// The headers that #include lines lead to, from the source on, sorted by name.  Conditions are not
// evaluated, so it may be more than the compiler reads but never less; a computed #include (of a
// macro) keeps them all.
std::vector<std::pair<std::string, std::string>> reachable_headers(const CompileRequest& request);

}  // namespace ramp::gpu
