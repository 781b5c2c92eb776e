// SPDX-License-Identifier: Apache-2.0
// --placement, --replicas and --nodes, the same in every verb that lays experts on GPUs.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "problem/catalog.hpp"
#include "problem/layout.hpp"
#include "problem/placement.hpp"
#include "problem/sample.hpp"
#include "problem/trace.hpp"

namespace ramp::cli {

struct PlacementOptions {
  std::string placement;  // contiguous, balanced, every-N, or a file
  int replicas = 0, nodes = 1;

  // Where a model routes to groups of experts, nodes keep them together.
  ReplicaOptions replica_options(const std::string& model) const;
  // The layout with its placement; what only traffic can say (every-N) goes into `sample`.
  Layout place(Layout layout, const RoutingTrace& trace, SampleOptions& sample) const;
};

void add_placement_options(CLI::App& app, PlacementOptions& options);

}  // namespace ramp::cli
