// SPDX-License-Identifier: Apache-2.0
// `ramp plan export`, a part of the verb `plan`.
#pragma once

#include <CLI/CLI.hpp>

namespace ramp::cli {

void add_plan_export(CLI::App& plan_verb);

}  // namespace ramp::cli
