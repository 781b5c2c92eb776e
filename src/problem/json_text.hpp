// SPDX-License-Identifier: Apache-2.0
// How a JSON value of somebody else's file appears in an error text.  Only .cpp files include this.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ramp {

// Never prints what is inside lists and objects: printing recurses, and the file decides how deep.
inline std::string shown(const nlohmann::json& value) {
  if (value.is_structured()) return std::string("a ") + (value.is_array() ? "list" : "JSON object");
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).substr(0, 40);
}

}  // namespace ramp
