// SPDX-License-Identifier: Apache-2.0
// The program.  This room sees every other, so here the parts are plugged together; no verb knows
// another.
#include <fmt/core.h>

#include <cstdio>
#include <exception>

#include "base/build.hpp"
#include "base/error.hpp"
#include "cli/verbs.hpp"

int main(int argc, char** argv) {
  CLI::App app{
      "ramp: choose and run the fastest MoE expert kernel for the routing that each GPU really "
      "received."};
  app.set_version_flag("--version", ramp::build_version() + " (" + ramp::build_commit() + ")");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 refused or failed (the text says why), 2 the command line was wrong.");
  ramp::cli::add_catalog(app);
  ramp::cli::add_doctor(app);
  ramp::cli::add_check(app);
  ramp::cli::add_bench(app);
  ramp::cli::add_trace(app);
  ramp::cli::add_loads(app);
  ramp::cli::add_placement(app);
  ramp::cli::add_fit(app);
  ramp::cli::add_eval(app);
  ramp::cli::add_advise(app);
  ramp::cli::add_report(app);
  ramp::cli::add_paper(app);
  ramp::cli::add_plan(app);
  ramp::cli::add_profile(app);
  ramp::cli::add_tune(app);
  ramp::cli::add_layer(app);
  ramp::cli::add_worker(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  } catch (const ramp::Error& e) {
    fmt::print(stderr, "ramp: {}\n", e.what());
    return 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "ramp: unexpected: {}\n", e.what());
    return 1;
  }
  return 0;
}
