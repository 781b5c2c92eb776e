// SPDX-License-Identifier: Apache-2.0
// Draws a plot as SVG: axes with round ticks, linear or logarithmic, a legend a panel, levels as
// dashed lines.  No fonts, scripts or links from elsewhere.
#pragma once

#include <string>
#include <vector>

#include "lab/paper/plot.hpp"

namespace ramp {

std::string svg_of(const std::vector<Plot>& plots);

// One panel as part of a page: without a background, in the page's ink (currentColor), as wide as
// it is let be; with a title and a description for those who don't see it, and one on every point.
// id: unique on the page.
std::string inline_svg(const Panel& panel, const std::string& id, bool is_wide = false);

// In words: what is drawn over what, and from where to where each series goes.
std::string described(const Panel& panel);

// Round numbers that cover [low, high], ascending: 1, 2 or 5 times a power of ten apart; powers of
// ten (and 2 and 5 times them where there are few) where `is_log`.
std::vector<double> ticks_of(double low, double high, bool is_log);

}  // namespace ramp
