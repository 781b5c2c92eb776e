// SPDX-License-Identifier: Apache-2.0
// `ramp trace`: routing and arrivals in, looked at, made, and turned into forward passes.
#include "cli/trace_verbs.hpp"
#include "cli/verbs.hpp"

namespace ramp::cli {

void add_trace(CLI::App& app) {
  CLI::App* verb =
      app.add_subcommand("trace", "Routing and arrival traces: import, look at, generate, replay");
  verb->require_subcommand(1);
  add_trace_import(*verb);
  add_trace_info(*verb);
  add_trace_generate(*verb);
  add_trace_replay(*verb);
  add_trace_arrivals(*verb);
  add_trace_calibration(*verb);
}

}  // namespace ramp::cli
