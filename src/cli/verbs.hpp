// SPDX-License-Identifier: Apache-2.0
// One function a verb: it adds its subcommand, and what it returns runs when that subcommand was
// given.  A new verb is a file, a line here and a line in main.cpp.
#pragma once

#include <CLI/CLI.hpp>

namespace ramp::cli {
void add_catalog(CLI::App& app);    // catalog
void add_doctor(CLI::App& app);     // doctor
void add_check(CLI::App& app);      // check
void add_bench(CLI::App& app);      // bench layer|ffn|select
void add_trace(CLI::App& app);      // trace import|info|generate|replay|arrivals|calibration
void add_loads(CLI::App& app);      // loads
void add_placement(CLI::App& app);  // placement compare|make
void add_fit(CLI::App& app);        // fit
void add_eval(CLI::App& app);       // eval
void add_advise(CLI::App& app);     // advise
void add_report(CLI::App& app);     // report
void add_paper(CLI::App& app);      // paper
void add_plan(CLI::App& app);       // plan make|show|explain|verify
void add_profile(CLI::App& app);    // profile, profile export|import
void add_tune(CLI::App& app);       // tune
void add_layer(CLI::App& app);      // layer
void add_worker(CLI::App& app);     // worker, hidden: profile and tune start it
}  // namespace ramp::cli
