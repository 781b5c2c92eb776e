// SPDX-License-Identifier: Apache-2.0
// A file is there whole or not at all.
#pragma once

#include <string>
#include <string_view>

namespace ramp {

// Writes a temporary file beside `path`, fsyncs it and renames it over `path`.  Throws Error with
// the reason of the system; the old file is then untouched and no temporary file stays.
void write_whole_file(const std::string& path, std::string_view content);

}  // namespace ramp
