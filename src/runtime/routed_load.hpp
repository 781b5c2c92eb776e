// SPDX-License-Identifier: Apache-2.0
// Routing for benches: the ids of one pass in several layers, and the GPU of a layout that a layer
// is timed on (the one with the most token-expert pairs is the one the others wait for).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "problem/catalog.hpp"
#include "problem/layout.hpp"
#include "problem/trace.hpp"

namespace ramp {

// One layer's routing as one GPU sees it.
struct RoutedLayer {
  int rank = 0;
  LocalShape shape;
  std::vector<int> ids;         // [tokens, k] global
  std::vector<int> expert_map;  // [E] -> local expert of `rank`, or -1
  std::vector<int> counts;      // n_e of its local experts

  int active() const;
  long long pairs() const;
};

inline constexpr int kHeaviestRank = -1;

// Draws layers of a load: "uniform" (every set of k experts alike), "generated" (calibrated to the
// paper's imbalance) or "recorded" (a trace's own).
class LoadSource {
 public:
  // trace: a .rtrace of the model, for "recorded".  Throws Error for other names, for models
  // without a calibration, and for traces of other models.
  LoadSource(const Model& model, const Layout& layout, const std::string& load,
             const std::string& trace, std::uint64_t seed);

  // `layers` different layers of passes with `tokens` tokens.  rank: a GPU, or kHeaviestRank for
  // each layer's fullest.
  std::vector<RoutedLayer> draw(int tokens, int layers, int rank) const;

  const std::string& name() const { return load_; }
  std::string label() const;  // "uniform", "generated: ...", "recorded: ..."

 private:
  std::vector<std::vector<int>> draw_ids(int tokens, int layers) const;
  std::vector<std::vector<int>> generated_ids(int tokens, int layers) const;
  std::vector<std::vector<int>> recorded_ids(int tokens, int layers) const;

  Model model_;
  Layout layout_;
  std::string load_;
  std::uint64_t seed_;
  std::shared_ptr<const RoutingTrace> trace_;
};

}  // namespace ramp
