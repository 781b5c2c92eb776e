// SPDX-License-Identifier: Apache-2.0
#include "problem/placed_replay.hpp"

#include <utility>

namespace ramp {

Layout placed_on(Layout layout, const RoutingTrace& trace,
                 std::span<const std::vector<std::int64_t>> passes, int layer,
                 const ReplicaOptions& replicas) {
  std::vector<double> loads(trace.info.experts, 0.0);
  for (const std::vector<std::int64_t>& tokens : passes)
    for (const std::int64_t token : tokens)
      for (const std::int16_t id : trace.row(token, layer))
        if (id >= 0) ++loads[id];
  if (replicas.redundant > 0)
    layout.replicas = {replicated_placement(loads, layout.gpus, replicas)};
  else
    layout.placement = {balanced_placement(loads, layout.gpus)};
  return layout;
}

PlacedReplay::PlacedReplay(const RoutingTrace& trace, std::span<const int> requests,
                           const ReplayOptions& options, const Layout& layout, int every,
                           const ReplicaOptions& replicas)
    : trace_(trace),
      replay_(trace, requests, options),
      layout_(layout),
      every_(every),
      replicas_(replicas) {
  skip(every);
}

void PlacedReplay::begin_pass() {
  if (every_ == 0 || static_cast<int>(block_.size()) < every_) return;
  before_ = std::exchange(block_, {});
}

ForwardPass PlacedReplay::next() {
  begin_pass();
  ForwardPass pass = replay_.next();
  if (every_ > 0) block_.push_back(pass.tokens);
  return pass;
}

ForwardPass PlacedReplay::next_with_burst(int tokens) {
  begin_pass();
  return replay_.next_with_burst(tokens);
}

void PlacedReplay::skip(int passes) {
  for (int i = 0; i < passes; ++i) next();
}

Layout PlacedReplay::layout_of(int layer) const {
  return every_ == 0 ? layout_ : placed_on(layout_, trace_, before_, layer, replicas_);
}

}  // namespace ramp
