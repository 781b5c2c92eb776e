// SPDX-License-Identifier: Apache-2.0
#include "cli/test_traffic_options.hpp"

#include <fmt/core.h>

#include "cli/model_options.hpp"

namespace ramp::cli {

void TestTrafficOptions::apply(SampleOptions& sample) {
  sample.speed = speed;
  sample.pass_ms = pass_ms;
  sample.token_us = token_us;
  sample.max_active = max_active;
  if (!rates.empty()) sample.test_rates = parse_rates("--test-rate", rates);
  if (!arrivals.empty()) sample.test_arrivals = &arrivals_.emplace(read_arrivals(arrivals));
  if (trace.empty()) return;
  trace_ = read_trace(trace);
  if (!trace_->health.whole()) fmt::print(stderr, "note: {}: {}\n", trace, trace_->health.text());
  sample.test_trace = &trace_->trace;
}

std::string TestTrafficOptions::label() const {
  std::string loops;
  if (!rates.empty()) loops = fmt::format("{} requests/s", rates);
  if (arrivals_)
    loops += fmt::format("{}{} at {}x", loops.empty() ? "" : " and ", arrivals_->name, speed);
  return loops.empty() ? "" : fmt::format("open loops of {}, {} ms a pass", loops, pass_ms);
}

void add_test_traffic_options(CLI::App& app, TestTrafficOptions& o) {
  app.add_option("--test-rate", o.rates,
                 "score on open loops: requests a second (Poisson), as 8,16,32");
  app.add_option("--test-arrivals", o.arrivals, "score on an open loop by an arrival trace");
  app.add_option("--test-trace", o.trace,
                 "fit on all of the trace, score on this one of the same network");
  app.add_option("--speed", o.speed, "the arrival trace's clock runs so much faster")
      ->capture_default_str();
  app.add_option("--pass-ms", o.pass_ms, "open loop: time of a pass")->capture_default_str();
  app.add_option("--token-us", o.token_us, "open loop: time that each of its tokens adds")
      ->capture_default_str();
  app.add_option("--max-active", o.max_active, "open loop: requests that run at once; 0: all")
      ->capture_default_str();
}

}  // namespace ramp::cli
