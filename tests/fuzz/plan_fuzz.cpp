// SPDX-License-Identifier: Apache-2.0
// A plan is somebody else's file: whatever the bytes, a typed error or a plan that reads back the
// same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "choice/explain.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const ramp::Plan plan = ramp::parse_plan(text, {.allow_edited = true});
    if (ramp::plan_text(ramp::parse_plan(ramp::plan_text(plan))) != ramp::plan_text(plan))
      std::abort();
    const std::vector<int> load(plan.shape.experts, 3);
    ramp::explain(plan, load);
  } catch (const ramp::Error&) {
  }
  return 0;
}
