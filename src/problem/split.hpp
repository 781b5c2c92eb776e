// SPDX-License-Identifier: Apache-2.0
// What is fitted on and what is scored on, kept apart: two groups of a trace's requests, or of its
// recorded passes, without a request in common.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "problem/trace.hpp"

namespace ramp {

// Two groups with no request in both, the same share of every domain; a held-out domain is the
// whole test group.
struct RequestSplit {
  std::vector<int> train, test;
};
RequestSplit split_requests(const RoutingTrace& trace, double test_share, std::uint64_t seed,
                            const std::string& held_out_domain = "");

// The same for a trace of passes: passes that share requests stay together; where all hang
// together, by time, and passes with a request of both times belong to neither.  how: what was
// done, for people.
struct PassSplit {
  std::vector<int> train, test;
  std::string how;
};
PassSplit split_passes(const RoutingTrace& trace, double test_share, std::uint64_t seed,
                       const std::string& held_out_domain = "");

}  // namespace ramp
