// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/records.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "problem/text_file.hpp"

namespace ramp {

using nlohmann::json;

std::string read_records(const std::string& path) {
  constexpr std::size_t kMaxBytes = 64u << 20;
  return path.empty() ? "" : read_whole_file(path, "records", kMaxBytes);
}

json parse_records(const std::string& text, const std::string& what) {
  json document = text.empty() ? json::object() : json::parse(text, nullptr, false);
  if (document.is_object() && !document.contains("rows")) document["rows"] = json::array();
  const bool is_whole = document.is_object() && document["rows"].is_array() &&
                        std::all_of(document["rows"].begin(), document["rows"].end(),
                                    [](const json& row) { return row.is_object(); });
  if (!is_whole)
    throw Error(what, "something else", "JSON with a list \"rows\" of objects",
                "a file of `ramp bench layer --json`, or of the side-by-side harness");
  return document;
}

}  // namespace ramp
