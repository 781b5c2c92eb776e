// SPDX-License-Identifier: Apache-2.0
// JSON files with rows: what `ramp bench layer --json` keeps, and side-by-side records of others.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ramp {

// The text; empty where there is no path.
std::string read_records(const std::string& path);

// An object whose "rows", where it has them, are a list of objects; of an empty text, no rows.
// what: its name for errors.
nlohmann::json parse_records(const std::string& text, const std::string& what);

}  // namespace ramp
