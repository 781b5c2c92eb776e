// SPDX-License-Identifier: Apache-2.0
// Routing for models without a public trace, calibrated to the imbalance that the paper reports
// (its Tables 6 to 8). Always labelled as generated, with its calibration and seed.
//
// The router's logit of an expert is a sum of normal vectors: its popularity in the layer, in the
// domain, a drift from pass to pass, the request's own taste; plus Gumbel noise a token, and a
// token takes its k largest (docs/traces.md has the formula, and how the numbers were fitted).
// Traffic is continuous batching in sessions: one domain, a fixed number of active requests,
// prompts that ride in the pass that admits them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "problem/catalog.hpp"
#include "problem/trace.hpp"

namespace ramp {

// Standard deviations of the logit's parts, and the shape of the popularities.
struct Calibration {
  std::string model;      // catalog name
  double popularity = 0;  // s_g, never changes
  double domain = 0;      // s_d, one vector a domain
  double drift = 0;       // s_p, AR(1) over passes
  double request = 0;     // s_r, one vector a request
  // Neighbours inside blocks of E/8 experts: above 0 they go together, below 0 against each other.
  double block = 0;
  double tail = 0;           // fattens the upper tail of popularity and domain
  double drift_passes = 64;  // time constant of the drift
};

std::span<const Calibration> calibrations();
// DeepSeek-R1 has DeepSeek-V3's.  Throws Error, with the list, for a model without one.
const Calibration& find_calibration(const std::string& model);

struct GenerateOptions {
  Model model;
  Calibration calibration;
  std::vector<std::string> domains = {"chat", "math", "code", "knowledge"};
  // A session for each domain, concurrency and repeat; its own requests, the layer's and domain's
  // popularity shared.
  std::vector<int> concurrency = {1, 4, 16, 64, 160, 256};
  int repeats = 2;
  int passes = 20;           // recorded of each session
  int stride = 4;            // passes of the server between two recorded ones
  double burst_share = 0.3;  // of recorded passes that carry prompts up to max_tokens tokens
  int max_tokens = 4096;
  int layers = 0;        // the first so many MoE layers; 0: all
  bool uniform = false;  // every expert alike: the reference
  std::uint64_t seed = 1;
};

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
