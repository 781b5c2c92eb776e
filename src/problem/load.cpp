// SPDX-License-Identifier: Apache-2.0
#include "problem/load.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace ramp {
namespace {

// An expert's tokens take its replicas in turn, so each gets n / c of them, rounded.  The first
// turn differs from expert to expert: odd tokens would else gather on the first GPUs.
std::vector<ExpertLoad> split_over_replicas(const ExpertLoad& experts, const Layout& layout,
                                            int layer) {
  const int count = static_cast<int>(experts.size());
  const std::span<const int> slots = slots_of(layout, count, layer);
  const std::size_t each = slots.size() / static_cast<std::size_t>(layout.gpus);
  std::vector<int> replicas(count, 0), seen(count, 0);
  for (const int e : slots) ++replicas[e];
  std::vector<ExpertLoad> on_gpu(layout.gpus, ExpertLoad(count, 0));
  for (std::size_t p = 0; p < slots.size(); ++p) {
    const int e = slots[p], turn = (seen[e]++ + e) % replicas[e];
    on_gpu[p / each][e] += experts[e] / replicas[e] + (turn < experts[e] % replicas[e]);
  }
  std::vector<ExpertLoad> split(layout.gpus);
  for (int gpu = 0; gpu < layout.gpus; ++gpu)
    for (const int e : local_experts(layout, count, gpu, layer))
      split[gpu].push_back(on_gpu[gpu][e]);
  return split;
}

}  // namespace

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
  if (layout.has_replicas()) return split_over_replicas(experts, layout, layer);
  const std::vector<int> gpu_of = gpu_of_experts(layout, static_cast<int>(experts.size()), layer);
  for (std::size_t e = 0; e < experts.size(); ++e) split[gpu_of[e]].push_back(experts[e]);
  return split;
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
