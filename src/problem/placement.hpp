// SPDX-License-Identifier: Apache-2.0
// Which GPU holds which expert, computed from expected loads: balanced (the paper's "offline" and
// "every 128", Table 7) or with replicas of hot experts (EPLB's, which DeepSeek-V3 serves with).
// Also placements as files.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "problem/layout.hpp"
#include "problem/trace.hpp"

namespace ramp {

// [layers][E]: the load that a placement expects, in any unit.
using ExpectedLoads = std::vector<std::vector<double>>;

// A trace's own shares of the experts; every domain weighs the same, and a held-out one is left
// out.
ExpectedLoads expected_loads(const RoutingTrace& trace, const std::string& held_out_domain = "");

// Balanced: the heaviest expert first, onto the least loaded GPU that still has a free slot, so
// that the numbers of experts stay those of the contiguous placement.  loads: [E].  Returns the GPU
// of each expert, [E].
std::vector<int> balanced_placement(std::span<const double> loads, int gpus);

struct ReplicaOptions {
  int redundant = 0;  // slots beside one for each expert; E + redundant is a multiple of the GPUs
  // Nodes of equally many GPUs.  Where they divide the groups of experts (group-limited routing),
  // a group's experts stay inside a node.
  int nodes = 1;
  int groups = 1;
};

// EPLB by its public description (deepseek-ai/EPLB, README): each redundant slot goes to the
// expert with the most load per replica; then the replicas are packed, heaviest first, onto the
// least loaded GPU with a free slot, here one without that expert where there is one.  With groups
// and nodes ("hierarchical"): groups onto nodes first, then the same inside each node.  Returns the
// expert of each physical slot, [E + redundant].
std::vector<int> replicated_placement(std::span<const double> loads, int gpus,
                                      const ReplicaOptions& options);

// The layout with one map a layer.  Throw Error for TP, whose GPUs hold every expert.
Layout with_balanced_placement(Layout layout, const ExpectedLoads& loads);
Layout with_replicas(Layout layout, const ExpectedLoads& loads, const ReplicaOptions& options);

// JSON: [E] numbers, or {"placement": [E] numbers or [layers][E]}, every number a GPU of the
// layout; or {"physical_to_logical_map": [slots] or [layers][slots]} as EPLB, vLLM and SGLang name
// it, every number an expert.
Layout with_placement_file(Layout layout, int experts, const std::filesystem::path& path);
Layout with_placement_json(Layout layout, int experts, std::string_view json,
                           const std::string& name);

// The JSON that with_placement_json reads back, of a layout that has a placement.
std::string placement_json(const Layout& layout);

}  // namespace ramp
