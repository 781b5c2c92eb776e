// SPDX-License-Identifier: Apache-2.0
// A small file of somebody else's, read whole, with its size checked before anything is allocated.
#pragma once

#include <filesystem>
#include <string>

namespace ramp {

// what: the name for errors ("config", "placement").  Throws Error where the file is missing, no
// file, or too large.
std::string read_whole_file(const std::filesystem::path& path, const std::string& what,
                            std::uintmax_t max_bytes);

}  // namespace ramp
