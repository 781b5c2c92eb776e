// SPDX-License-Identifier: Apache-2.0
// n_e of every layer of successive forward passes: traffic without its tokens, which is all that
// placements and imbalance need.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "problem/replay.hpp"
#include "problem/trace.hpp"
#include "problem/trace_generate.hpp"

namespace ramp {

struct PassCounts {
  struct Pass {
    int session = 0;  // passes of one session follow each other on one server
    int domain = -1;  // index into domains, -1: several
    int tokens = 0;
  };
  int experts = 0, top_k = 0, layers = 0;
  std::vector<std::string> domains;
  std::vector<Pass> passes;
  std::vector<std::int32_t> counts;  // [pass][layer][E]

  std::span<const std::int32_t> of(int pass, int layer) const {
    const std::size_t row = static_cast<std::size_t>(pass) * layers + layer;
    return std::span(counts).subspan(row * experts, experts);
  }
};

// The session of each recorded pass, from 0.  A session ends where a pass shares no request with
// the one before.
std::vector<int> sessions_of_passes(const RoutingTrace& trace);

// Recorded passes.
PassCounts recorded_counts(const RoutingTrace& trace);

// Requests replayed: a session for each domain with requests, of so many passes.
PassCounts replayed_counts(const RoutingTrace& trace, const ReplayOptions& options, int passes);

// Generated routing, counted as it is drawn.
PassCounts generated_counts(const GenerateOptions& options);

}  // namespace ramp
