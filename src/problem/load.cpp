// SPDX-License-Identifier: Apache-2.0
#include "problem/load.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace ramp {

LayerLoad count_load(const RoutingTrace& trace, std::span<const std::int64_t> tokens, int layer) {
  if (layer < 0 || layer >= trace.layers())
    throw Error("layer", fmt::format("{}", layer),
                fmt::format("0 .. {} of the trace", trace.layers() - 1),
                "ramp trace info lists them");
  LayerLoad load;
  load.experts.assign(trace.info.experts, 0);
  for (const std::int64_t token : tokens) {
    bool is_real = false;
    for (const std::int16_t id : trace.row(token, layer))
      if (id >= 0) {
        ++load.experts[id];
        is_real = true;
      }
    load.tokens += is_real;
  }
  return load;
}

std::vector<ExpertLoad> split_load(const ExpertLoad& experts, const Layout& layout, int layer) {
  std::vector<ExpertLoad> split(layout.gpus);
  if (!layout.is_expert_parallel()) {
    std::fill(split.begin(), split.end(), experts);
    return split;
  }
  const std::vector<int> gpu_of = gpu_of_experts(layout, static_cast<int>(experts.size()), layer);
  for (std::size_t e = 0; e < experts.size(); ++e) split[gpu_of[e]].push_back(experts[e]);
  return split;
}

Layout with_balanced_placement(Layout layout, const RoutingTrace& trace,
                               const std::string& held_out_domain) {
  if (!layout.is_expert_parallel())
    throw Error("--placement", layout.name(), "a layout epN",
                "a tpN layout has every expert on every GPU");
  const int experts = trace.info.experts, layers = trace.layers();
  // Tokens of no request are one more kind of text.
  const int kinds = static_cast<int>(trace.domains.size()) + 1;
  std::vector<int> kind_of(trace.tokens(), kinds - 1);
  for (const TraceRequest& request : trace.requests)
    for (int i = 0; i < request.tokens; ++i) kind_of[trace.token_of(request, i)] = request.domain;
  layout.placement.clear();
  for (int layer = 0; layer < layers; ++layer) {
    std::vector<std::vector<double>> counts(kinds, std::vector<double>(experts, 0.0));
    for (std::int64_t token = 0; token < trace.tokens(); ++token)
      for (const std::int16_t id : trace.row(token, layer))
        if (id >= 0) ++counts[kind_of[token]][id];
    std::vector<double> share(experts, 0.0);
    for (int kind = 0; kind < kinds; ++kind) {
      if (kind + 1 < kinds && !held_out_domain.empty() && trace.domains[kind] == held_out_domain)
        continue;
      double total = 0;
      for (const double n : counts[kind]) total += n;
      for (int e = 0; total > 0 && e < experts; ++e) share[e] += counts[kind][e] / total;
    }
    layout.placement.push_back(balanced_placement(share, layout.gpus));
  }
  layout.placement_name = "balanced";
  return layout;
}

ExpertLoad draw_uniform_load(int experts, int top_k, int tokens, Random& random) {
  ExpertLoad load(experts, 0);
  std::vector<int> chosen(top_k);
  for (int token = 0; token < tokens; ++token)
    // Floyd's sampling: k different experts, every set equally likely, k draws.
    for (int j = 0; j < top_k; ++j) {
      const int top = experts - top_k + j;
      int pick = static_cast<int>(random.below(top + 1));
      if (std::find(chosen.begin(), chosen.begin() + j, pick) != chosen.begin() + j) pick = top;
      chosen[j] = pick;
      ++load[pick];
    }
  return load;
}

long long pairs_of(const ExpertLoad& load) {
  long long pairs = 0;
  for (const int n : load) pairs += n;
  return pairs;
}

}  // namespace ramp
