// SPDX-License-Identifier: Apache-2.0
// What the tables of Table 4 share: a policy that looks up a table keyed on the token count and on
// some measures of the spread.
#pragma once

#include <memory>
#include <vector>

#include "choice/gpu_table.hpp"
#include "choice/policy.hpp"

namespace ramp {

std::unique_ptr<Policy> spread_policy(std::vector<SpreadAxis> axes);

}  // namespace ramp
