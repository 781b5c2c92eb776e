// SPDX-License-Identifier: Apache-2.0
// Text of anybody's inside SVG and HTML: names of models, routing and configurations come from
// files.
#pragma once

#include <string>
#include <string_view>

namespace ramp {

// For text and for quoted attributes.  Bytes that are no UTF-8 and characters that XML forbids
// become U+FFFD.
std::string escape_markup(std::string_view text);

}  // namespace ramp
