// SPDX-License-Identifier: Apache-2.0
// The traffic that a profiling campaign measures on: layers of forward passes of 1 to 4,096 tokens,
// split over the GPUs of a layout, in three roles that share nothing.  Deterministic by seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "problem/arrivals.hpp"
#include "problem/layout.hpp"
#include "problem/load.hpp"
#include "problem/placement.hpp"
#include "problem/trace.hpp"

namespace ramp {

// kTrain: from the trace, for fitting.  kTest: from the trace, from requests (or sessions, or a
// domain) that no kTrain pass holds.  kUniform: uniform routing at vLLM's 18 batch sizes, for the
// policy that tunes as vLLM does.
enum class Traffic { kTrain, kTest, kUniform };
const char* text_of(Traffic role);

inline constexpr int kVllmBatchSizes[] = {1,  2,   4,   8,   16,   24,   32,   48,   64,
                                          96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096};

struct SampleOptions {
  int train_passes = 400;
  int test_passes = 200;
  int uniform_draws = 1;  // of each of the 18 sizes
  // Requests replayed in a closed loop at once; a share of passes carries a burst of prompts
  // besides, up to max_tokens, evenly on a logarithmic scale.  A trace of recorded passes is
  // sampled evenly over the powers of two of their sizes.
  std::vector<int> concurrency = {1, 4, 16, 64, 128, 256};
  double prefill_share = 0.4;
  double mixed_share =
      0.25;  // of passes that mix the domains; the others hold one domain, all alike often
  int max_tokens = 4096;
  double test_share = 0.5;
  std::string held_out_domain;  // the test group is this domain and nothing else
  std::vector<int> layers;      // rows of the trace; empty: all
  // Re-balance the experts every so many passes, on the passes before (0: the layout's own
  // placement), with replicas of hot experts where it says so.
  int rebalance_every = 0;
  ReplicaOptions replicas;
  // The test group is served by open loops (serving.hpp), as in the paper's Table 3: Poisson at
  // each rate, and one that follows arrivals.  Passes come as they come: small ones more often.
  std::vector<double> test_rates;
  const ArrivalTrace* test_arrivals = nullptr;
  double speed = 1, pass_ms = 20, token_us = 0;
  int max_active = 256;
  // The test group is this trace, of the same network, and all of the other is for training.
  const RoutingTrace* test_trace = nullptr;
  std::uint64_t seed = 1;
};

// One MoE layer of one forward pass.
struct SampledPass {
  int tokens = 0;          // B of the whole pass, padding not counted
  int prefill_tokens = 0;  // of them in prompts
  int layer = -1;          // decoder layer; -1 for uniform routing
  std::string domain;      // "mixed" for several, "uniform"
  std::string loop;        // "closed 64", "open 16/s", "recorded"; a burst has "+ prompts"
  Traffic role = Traffic::kTrain;
  std::vector<ExpertLoad> counts;  // [gpu][local expert]: n_e
};

struct SampledTraffic {
  std::vector<SampledPass> passes;  // no empty ones
  int gpus = 1;
  std::string routing;  // "recorded: ..." or "generated: ..."
  std::string split;    // how train and test were kept apart
};

// Throws Error where trace, shape and layout don't fit, where the trace has neither requests nor
// passes, and for options out of range.
void check_sample(const RoutingTrace& trace, const MoeShape& shape, const Layout& layout,
                  const SampleOptions& options);

// Checks first.
SampledTraffic sample_traffic(const RoutingTrace& trace, const MoeShape& shape,
                              const Layout& layout, const SampleOptions& options = {});

}  // namespace ramp
