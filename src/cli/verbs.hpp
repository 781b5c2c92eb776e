// SPDX-License-Identifier: Apache-2.0
// One function a verb: it adds its subcommand, and what it returns runs when that subcommand was given.  A new verb is
// a file, a line here and a line in main.cpp.
#pragma once

#include <CLI/CLI.hpp>

namespace ramp::cli {
void add_catalog(CLI::App& app);  // catalog
void add_doctor(CLI::App& app);   // doctor
void add_trace(CLI::App& app);    // trace import|info|generate|replay
void add_loads(CLI::App& app);    // loads
}  // namespace ramp::cli
