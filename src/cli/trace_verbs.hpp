// SPDX-License-Identifier: Apache-2.0
// What `ramp trace` is made of: one file a subcommand.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "problem/trace.hpp"

namespace ramp::cli {

void add_trace_import(CLI::App& trace);
void add_trace_info(CLI::App& trace);
void add_trace_generate(CLI::App& trace);
void add_trace_replay(CLI::App& trace);
void add_trace_arrivals(CLI::App& trace);
void add_trace_calibration(CLI::App& trace);

// What a trace is and holds, as `info` and `import` show it.
nlohmann::json describe(const RoutingTrace& trace);
void print_description(const RoutingTrace& trace);

// Indented, and whatever a file said is printable.
std::string dump(const nlohmann::json& value);

}  // namespace ramp::cli
