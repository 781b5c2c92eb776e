// SPDX-License-Identifier: Apache-2.0
// A replay on a server that re-balances its experts every so many passes, on what the passes of the
// block before have routed (the paper's "every 128").  Private to the sampler.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "problem/layout.hpp"
#include "problem/placement.hpp"
#include "problem/replay.hpp"

namespace ramp {

// One map for `layer`, from the routing of these passes.
Layout placed_on(Layout layout, const RoutingTrace& trace,
                 std::span<const std::vector<std::int64_t>> passes, int layer,
                 const ReplicaOptions& replicas);

class PlacedReplay {
 public:
  // every: passes of a block; 0: the layout stays as it is.  The first block is over when the
  // constructor returns.
  PlacedReplay(const RoutingTrace& trace, std::span<const int> requests,
               const ReplayOptions& options, const Layout& layout, int every,
               const ReplicaOptions& replicas);

  ForwardPass next();
  ForwardPass next_with_burst(int tokens);
  void skip(int passes);

  // Where the experts of this layer lie while the pass that came last runs.
  Layout layout_of(int layer) const;

 private:
  void begin_pass();

  const RoutingTrace& trace_;
  Replay replay_;
  const Layout& layout_;
  int every_;
  ReplicaOptions replicas_;
  // Tokens of the passes of the block before, and of this one so far.
  std::vector<std::vector<std::int64_t>> before_, block_;
};

}  // namespace ramp
