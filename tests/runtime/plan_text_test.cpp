// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/plan_text.hpp"

#include <gtest/gtest.h>

#include "tests/runtime/plan_example.hpp"

namespace ramp {

std::string example_plan_text() { return plan_text(example_plan()); }
std::string example_knobs() { return example_plan().menu[0].knobs; }

TEST(ExamplePlan, IsWholeAndLegal) {
  EXPECT_NO_THROW(check_plan(example_plan()));
  EXPECT_NO_THROW(parse_plan(example_plan_text()));
}

}  // namespace ramp
