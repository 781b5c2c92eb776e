// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs.hpp"

namespace ramp::cli {
void add_catalog(CLI::App& app) { app.add_subcommand("catalog", "The models and GPUs that ramp knows"); }
}  // namespace ramp::cli
