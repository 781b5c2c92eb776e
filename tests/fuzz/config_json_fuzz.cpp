// SPDX-License-Identifier: Apache-2.0
// libFuzzer on the JSON of others: config.json, placements, sidecars and JSON lines all see the
// same bytes.
#include <cstdint>
#include <string_view>

#include "base/error.hpp"
#include "problem/layout.hpp"
#include "problem/model_config.hpp"
#include "problem/placement.hpp"
#include "problem/trace_import.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    ramp::check_model(ramp::model_from_config(text));
  } catch (const ramp::Error&) {
  }
  try {
    ramp::with_placement_json(ramp::parse_layout("ep4"), 8, text, "fuzz");
  } catch (const ramp::Error&) {
  }
  try {
    ramp::import_json_lines(text, {});
  } catch (const ramp::Error&) {
  }
  return 0;
}
