// SPDX-License-Identifier: Apache-2.0
// Writes a page as one HTML file that needs nothing else: no scripts, fonts, images or links from
// elsewhere.  It reads in light and in dark, narrow and printed; tables have headers, plots have
// titles and descriptions.  Every text is escaped, since most come from files.
#pragma once

#include <string>

#include "lab/page/page.hpp"

namespace ramp {

std::string html_of(const Page& page);

}  // namespace ramp
