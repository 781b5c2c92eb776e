// SPDX-License-Identifier: Apache-2.0
#include "problem/placement.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace ramp {
namespace {

void check_expert_parallel(const Layout& layout) {
  if (!layout.is_expert_parallel())
    throw Error("--placement", layout.name(), "a layout epN",
                "a tpN layout has every expert on every GPU");
}

std::vector<int> heaviest_first(std::span<const double> loads) {
  std::vector<int> order(loads.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return loads[a] > loads[b]; });
  return order;
}

// Packs groups of experts onto nodes, equally many each: [nodes] of experts.
std::vector<std::vector<int>> experts_of_nodes(std::span<const double> loads, int groups,
                                               int nodes) {
  const int width = static_cast<int>(loads.size()) / groups;
  std::vector<double> group_load(groups, 0.0);
  for (std::size_t e = 0; e < loads.size(); ++e) group_load[e / width] += loads[e];
  const std::vector<int> node_of = balanced_placement(group_load, nodes);
  std::vector<std::vector<int>> experts(nodes);
  for (std::size_t e = 0; e < loads.size(); ++e)
    experts[node_of[e / width]].push_back(static_cast<int>(e));
  return experts;
}

// The slots of `gpus` GPUs that hold these experts with `redundant` replicas more.
std::vector<int> replicate_and_pack(std::span<const double> loads, std::span<const int> experts,
                                    int gpus, int redundant) {
  std::vector<int> replicas(experts.size(), 1);
  for (int r = 0; r < redundant; ++r) {
    std::size_t hottest = 0;
    for (std::size_t i = 1; i < experts.size(); ++i)
      if (loads[experts[i]] * replicas[hottest] > loads[experts[hottest]] * replicas[i])
        hottest = i;
    ++replicas[hottest];
  }
  std::vector<int> expert_of;  // each replica
  std::vector<double> weight;
  for (std::size_t i = 0; i < experts.size(); ++i)
    for (int r = 0; r < replicas[i]; ++r) {
      expert_of.push_back(experts[i]);
      weight.push_back(loads[experts[i]] / replicas[i]);
    }
  const std::size_t each = expert_of.size() / static_cast<std::size_t>(gpus);
  std::vector<std::vector<int>> held(gpus);
  std::vector<double> total(gpus, 0.0);
  for (const int r : heaviest_first(weight)) {
    const int e = expert_of[r];
    // (holds it already, load): the smallest of those with a free slot.
    int best = -1;
    bool best_holds = false;
    for (int gpu = 0; gpu < gpus; ++gpu) {
      if (held[gpu].size() == each) continue;
      const bool holds = std::find(held[gpu].begin(), held[gpu].end(), e) != held[gpu].end();
      if (best < 0 || holds < best_holds || (holds == best_holds && total[gpu] < total[best])) {
        best = gpu;
        best_holds = holds;
      }
    }
    held[best].push_back(e);
    total[best] += weight[r];
  }
  std::vector<int> slots;
  for (const std::vector<int>& gpu : held) slots.insert(slots.end(), gpu.begin(), gpu.end());
  return slots;
}

}  // namespace

ExpectedLoads expected_loads(const RoutingTrace& trace, const std::string& held_out_domain) {
  const int experts = trace.info.experts, layers = trace.layers();
  // Tokens of no request are one more kind of text.
  const int kinds = static_cast<int>(trace.domains.size()) + 1;
  std::vector<int> kind_of(trace.tokens(), kinds - 1);
  for (const TraceRequest& request : trace.requests)
    for (int i = 0; i < request.tokens; ++i) kind_of[trace.token_of(request, i)] = request.domain;
  ExpectedLoads shares;
  for (int layer = 0; layer < layers; ++layer) {
    std::vector<std::vector<double>> counts(kinds, std::vector<double>(experts, 0.0));
    for (std::int64_t token = 0; token < trace.tokens(); ++token)
      for (const std::int16_t id : trace.row(token, layer))
        if (id >= 0) ++counts[kind_of[token]][id];
    std::vector<double> share(experts, 0.0);
    for (int kind = 0; kind < kinds; ++kind) {
      if (kind + 1 < kinds && !held_out_domain.empty() && trace.domains[kind] == held_out_domain)
        continue;
      const double total = std::accumulate(counts[kind].begin(), counts[kind].end(), 0.0);
      for (int e = 0; total > 0 && e < experts; ++e) share[e] += counts[kind][e] / total;
    }
    shares.push_back(std::move(share));
  }
  return shares;
}

std::vector<int> balanced_placement(std::span<const double> loads, int gpus) {
  const int experts = static_cast<int>(loads.size());
  if (gpus < 1 || gpus > experts)
    throw Error("gpus", fmt::format("{}", gpus), fmt::format("1 .. E = {}", experts),
                "use fewer GPUs");
  std::vector<double> total(gpus, 0.0);
  std::vector<int> free_slots(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) free_slots[gpu] = contiguous_experts(experts, gpus, gpu);
  std::vector<int> gpu_of(experts, 0);
  for (const int e : heaviest_first(loads)) {
    int best = -1;
    for (int gpu = 0; gpu < gpus; ++gpu)
      if (free_slots[gpu] > 0 && (best < 0 || total[gpu] < total[best])) best = gpu;
    gpu_of[e] = best;
    total[best] += loads[e];
    --free_slots[best];
  }
  return gpu_of;
}

std::vector<int> replicated_placement(std::span<const double> loads, int gpus,
                                      const ReplicaOptions& o) {
  const int experts = static_cast<int>(loads.size());
  if (gpus < 1 || gpus > experts)
    throw Error("gpus", fmt::format("{}", gpus), fmt::format("1 .. E = {}", experts),
                "use fewer GPUs");
  if (o.redundant < 0 || o.redundant > (1 << 16) || (experts + o.redundant) % gpus != 0)
    throw Error("--replicas", fmt::format("{}", o.redundant),
                fmt::format("0 and more, E + replicas = {} + replicas a multiple of {} GPUs",
                            experts, gpus),
                fmt::format("for example {}", gpus - (experts - 1) % gpus - 1 + gpus));
  if (o.nodes < 1 || gpus % o.nodes != 0)
    throw Error("--nodes", fmt::format("{}", o.nodes),
                fmt::format("a number that divides the {} GPUs", gpus), "for example 1");
  std::vector<int> all(experts);
  std::iota(all.begin(), all.end(), 0);
  const bool hierarchical = o.nodes > 1 && o.groups > 1 && experts % o.groups == 0 &&
                            o.groups % o.nodes == 0 && (experts + o.redundant) % o.nodes == 0;
  if (!hierarchical) return replicate_and_pack(loads, all, gpus, o.redundant);
  std::vector<int> slots;
  for (const std::vector<int>& mine : experts_of_nodes(loads, o.groups, o.nodes)) {
    const std::vector<int> part =
        replicate_and_pack(loads, mine, gpus / o.nodes, o.redundant / o.nodes);
    slots.insert(slots.end(), part.begin(), part.end());
  }
  return slots;
}

Layout with_balanced_placement(Layout layout, const ExpectedLoads& loads) {
  check_expert_parallel(layout);
  layout.placement.clear();
  for (const std::vector<double>& layer : loads)
    layout.placement.push_back(balanced_placement(layer, layout.gpus));
  layout.placement_name = "balanced";
  return layout;
}

Layout with_replicas(Layout layout, const ExpectedLoads& loads, const ReplicaOptions& options) {
  check_expert_parallel(layout);
  layout.replicas.clear();
  for (const std::vector<double>& layer : loads)
    layout.replicas.push_back(replicated_placement(layer, layout.gpus, options));
  layout.placement_name = fmt::format("replicas{}", options.redundant);
  return layout;
}

}  // namespace ramp
