// SPDX-License-Identifier: Apache-2.0
// Routing for models without a public trace, calibrated to the imbalance that the paper reports
// (its Tables 6 to 8). Always labelled as generated, with its calibration and seed.
//
// The router's logit of an expert is a sum of normal vectors: its popularity in the layer, in the
// domain, a drift from pass to pass, the request's own taste; plus Gumbel noise a token, and a
// token takes its k largest (docs/traces.md has the formula, and how the numbers were fitted).
// Traffic is continuous batching in sessions of one domain each: a fixed number of active requests,
// or an open loop.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "problem/arrivals.hpp"
#include "problem/calibration.hpp"
#include "problem/catalog.hpp"
#include "problem/trace.hpp"

namespace ramp {

struct GenerateOptions {
  Model model;
  Calibration calibration;
  std::vector<std::string> domains = {"chat", "math", "code", "knowledge"};
  // A session for each domain, concurrency and repeat; its own requests, the layer's and domain's
  // popularity shared.
  std::vector<int> concurrency = {1, 4, 16, 64, 160, 256};
  // Open-loop sessions beside them (serving.hpp says what these are): one a rate, requests of the
  // domain's lengths; one that follows the arrivals, with theirs.
  std::vector<double> rates;
  const ArrivalTrace* arrivals = nullptr;
  double speed = 1, pass_ms = 20, token_us = 0;
  int max_active = 256;
  int repeats = 2;
  int passes = 20;           // recorded of each session
  int stride = 4;            // passes of the server between two recorded ones
  double burst_share = 0.3;  // of recorded passes that carry prompts up to max_tokens tokens
  int max_tokens = 4096;
  int layers = 0;        // the first so many MoE layers; 0: all
  bool uniform = false;  // every expert alike: the reference
  // The same seed, domains and layers are the same network; other loops are other requests to it.
  std::uint64_t seed = 1;
};

// The traffic that a calibration is held against the paper's Tables 6 to 8 with: the four domains
// in closed loops, every kTableStride-th of the server's passes recorded.
GenerateOptions table_traffic(const Model& model, const Calibration& calibration);
inline constexpr int kTableStride = 4;

// Tokens of one request in a pass.
struct GeneratedRun {
  std::uint64_t request;
  int domain;  // index into GenerateOptions::domains
  int tokens;
  int prompt;
};

struct GeneratedPass {
  std::span<const GeneratedRun> runs;
  std::span<const std::int16_t> ids;  // [token][layer][k], ascending inside a row
  int done, total;                    // passes, for progress
};

TraceInfo generated_info(const GenerateOptions& options);
void generate_passes(const GenerateOptions& options,
                     const std::function<void(const GeneratedPass&)>& sink);
RoutingTrace generate_trace(const GenerateOptions& options);

}  // namespace ramp
