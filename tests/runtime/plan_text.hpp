// SPDX-License-Identifier: Apache-2.0
// The example plan as text, for tests that see the library through its C interface only.
#pragma once

#include <string>

namespace ramp {
std::string example_plan_text();
std::string example_knobs();
}  // namespace ramp
