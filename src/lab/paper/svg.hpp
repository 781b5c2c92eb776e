// SPDX-License-Identifier: Apache-2.0
// Draws a plot as SVG: axes with round ticks, linear or logarithmic, a legend a panel, levels as
// dashed lines.  No fonts, scripts or links from elsewhere.
#pragma once

#include <string>
#include <vector>

#include "lab/paper/plot.hpp"

namespace ramp {

std::string svg_of(const std::vector<Plot>& plots);

// Round numbers that cover [low, high], ascending: 1, 2 or 5 times a power of ten apart; powers of
// ten (and 2 and 5 times them where there are few) where `is_log`.
std::vector<double> ticks_of(double low, double high, bool is_log);

}  // namespace ramp
