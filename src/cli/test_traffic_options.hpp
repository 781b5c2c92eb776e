// SPDX-License-Identifier: Apache-2.0
// What policies are scored on where it is not the same kind of traffic that they are fitted on:
// open loops, or another trace.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "problem/arrivals.hpp"
#include "problem/sample.hpp"
#include "problem/trace_file.hpp"

namespace ramp::cli {

struct TestTrafficOptions {
  std::string rates, arrivals, trace;
  double speed = 1, pass_ms = 20, token_us = 0;
  int max_active = 256;

  // Reads the files and points `sample` at them: this must outlive the sampling.
  void apply(SampleOptions& sample);

  // "open loops of 8,16,32 requests/s, 20 ms a pass"; empty where it is the same kind of traffic.
  std::string label() const;

 private:
  std::optional<ArrivalTrace> arrivals_;
  std::optional<ReadTrace> trace_;
};

void add_test_traffic_options(CLI::App& app, TestTrafficOptions& options);

}  // namespace ramp::cli
