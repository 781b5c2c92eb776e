// SPDX-License-Identifier: Apache-2.0
#include "cli/placement_options.hpp"

#include <charconv>

#include "base/error.hpp"

namespace ramp::cli {
namespace {

// N of "every-N"; 0 for anything else.
int period_of(const std::string& placement) {
  constexpr std::string_view kEvery = "every-";
  if (!placement.starts_with(kEvery)) return 0;
  const std::string_view text = std::string_view(placement).substr(kEvery.size());
  int period = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), period);
  if (status != std::errc() || end != text.data() + text.size() || period < 1)
    throw Error("--placement", "'" + placement.substr(0, 40) + "'", "every-N, N passes from 1",
                "for example every-128");
  return period;
}

}  // namespace

ReplicaOptions PlacementOptions::replica_options(const std::string& model) const {
  const Model* known = find_model_or_null(model);
  return {replicas, nodes, known ? known->groups : 1};
}

Layout PlacementOptions::place(Layout layout, const RoutingTrace& trace,
                               SampleOptions& sample) const {
  const ReplicaOptions options = replica_options(trace.info.model);
  if (const int period = period_of(placement); period > 0) {
    sample.rebalance_every = period;
    sample.replicas = options;
    // Refused now, not in the middle of a replay.
    if (layout.is_expert_parallel() && replicas > 0)
      replicated_placement(std::vector<double>(trace.info.experts, 1.0), layout.gpus, options);
    layout.placement_name = fmt::format("every{}", period);
    if (replicas > 0) layout.placement_name += fmt::format("+replicas{}", replicas);
    return layout;
  }
  const bool is_contiguous = placement.empty() || placement == "contiguous";
  if (placement == "balanced" || (is_contiguous && replicas > 0)) {
    const ExpectedLoads loads = expected_loads(trace, sample.held_out_domain);
    return replicas > 0 ? with_replicas(std::move(layout), loads, options)
                        : with_balanced_placement(std::move(layout), loads);
  }
  if (replicas > 0)
    throw Error("--replicas", fmt::format("{}", replicas), "with --placement balanced or every-N",
                "a file says itself where replicas are");
  return is_contiguous ? layout
                       : with_placement_file(std::move(layout), trace.info.experts, placement);
}

void add_placement_options(CLI::App& app, PlacementOptions& options) {
  app.add_option("--placement", options.placement,
                 "contiguous, balanced (on the trace, without a held-out domain), every-N "
                 "(re-balanced on the N passes before), or a JSON file");
  app.add_option("--replicas", options.replicas,
                 "redundant slots for hot experts, as EPLB places them; 0: none")
      ->capture_default_str();
  app.add_option("--nodes", options.nodes,
                 "nodes that keep a group of experts together (group-limited routing)")
      ->capture_default_str();
}

}  // namespace ramp::cli
