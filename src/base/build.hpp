// SPDX-License-Identifier: Apache-2.0
// What this program was built from; recorded in plans and measurements.
#pragma once

#include <string>

namespace ramp {
std::string build_commit();   // short hash, "unknown" outside a checkout
std::string build_version();  // "0.1.0"
std::string today();          // UTC date, "2026-11-29"
}  // namespace ramp
