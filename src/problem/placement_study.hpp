// SPDX-License-Identifier: Apache-2.0
// The same passes under every placement: the paper's Table 7, with EPLB's replicas beside it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "problem/imbalance.hpp"
#include "problem/layout.hpp"
#include "problem/pass_counts.hpp"
#include "problem/placement.hpp"

namespace ramp {

struct StudyOptions {
  int period = 128;         // passes of a session from one re-balancing to the next
  ReplicaOptions replicas;  // redundant = 0: no rows with replicas
  std::uint64_t seed = 1;   // of the uniform reference
};

struct PlacementResult {
  std::string placement;
  std::vector<BalanceRow> table;  // by size of pass
};

// Rows: uniform (uniformly random routing of as many tokens, contiguous), contiguous, offline
// (balanced on the other domains, each weighing the same), every N (re-balanced on the previous N
// passes of the session), and the last two with replicas.  Every row is of the same passes: those
// with a full period before them.  "offline" is left out where there is one domain only.  Throws
// Error where no session is longer than the period, and for TP.
std::vector<PlacementResult> study_placements(const PassCounts& traffic, const Layout& layout,
                                              const StudyOptions& options = {});

}  // namespace ramp
