// SPDX-License-Identifier: Apache-2.0
// Loads: n_e, the tokens of each expert, of a set of tokens in one layer; and their split over the
// GPUs of a layout.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "problem/layout.hpp"
#include "problem/random.hpp"
#include "problem/trace.hpp"

namespace ramp {

using ExpertLoad = std::vector<int>;  // n_e of the local experts of one GPU, or of all experts

struct LayerLoad {
  int tokens = 0;      // tokens with at least one expert: padding does not count
  ExpertLoad experts;  // [E]
};

// layer: the row of a token, not the decoder's number.
LayerLoad count_load(const RoutingTrace& trace, std::span<const std::int64_t> tokens, int layer);

// [gpus]: n_e in the order of local_experts.  TP: every GPU gets the whole load.  An expert with
// replicas shares its tokens evenly over them.
std::vector<ExpertLoad> split_load(const ExpertLoad& experts, const Layout& layout, int layer = 0);

// Uniform routing: `tokens` tokens that choose k different experts of E, every set equally likely.
// What vLLM's tuning measures on.
ExpertLoad draw_uniform_load(int experts, int top_k, int tokens, Random& random);

// Pairs of a load: the sum of n_e.
long long pairs_of(const ExpertLoad& load);

}  // namespace ramp
