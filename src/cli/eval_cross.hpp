// SPDX-License-Identifier: Apache-2.0
// `ramp eval --cross FILE ...`: every layer as if it had not been measured.
#pragma once

#include <string>
#include <vector>

#include "choice/evaluate.hpp"

namespace ramp::cli {

void eval_cross(const std::vector<std::string>& files, const EvaluateOptions& options,
                bool as_json);

}  // namespace ramp::cli
