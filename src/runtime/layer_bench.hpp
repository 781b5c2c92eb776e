// SPDX-License-Identifier: Apache-2.0
// `ramp bench`: a layer in a captured graph, the way it is served: many layers, each with its own
// cold weights and its own routing, a kernel before each that writes the ids.  Beside it in the
// same run, its replays taking turns: the same on ready tile lists, and a stream that only reads
// the active experts' weights (docs/measuring.md).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "gpu/cubin_cache.hpp"
#include "kernels/stream/program.hpp"
#include "runtime/layer.hpp"
#include "runtime/routed_load.hpp"
#include "runtime/stopwatch.hpp"
#include "runtime/trial.hpp"

namespace ramp {

struct LayerBenchOptions {
  Model model;
  Layout layout;
  int rank = kHeaviestRank;
  Router router = Router::kTriggers;
  int replays = 21;
  int most_layers = 32;  // of a graph
};

// What runs, and how its entry is chosen.
struct BenchChoice {
  std::vector<FfnConfig> menu;
  std::vector<Theta> theta;  // one an entry
  int forced = -1;           // an entry; -1: the layer chooses
  bool ordered = false;      // sums in one order (LayerOptions::ordered)
  int prefill = -1;          // units requested ahead, cut to what the menu can; -1: the layer's own
  std::optional<bool> row_a_pair = {};  // LayerOptions::row_a_pair
};

// All times are us a layer.
struct LayerTimes {
  std::string entry;     // the one that most layers ran
  double active_mb = 0;  // weights of the active experts, mean
  double us = 0;         // ids kernel, prepare and ffn
  double ready_us = 0;   // ids kernel and ffn on a ready tile list: no choice, no quantising
  double ffn_us = 0;     // ffn on a ready tile list
  double stream_us = 0;  // reading the active experts' weights
  double floor_us = 0;   // the formula's
  double rel_err = 0;    // of one layer, before anything was timed
  int layers = 0;
  GraphTimes timing;
};

// A layer that is further off the reference than the formats allow: it is not timed.
class WrongNumbers : public Error {
 public:
  using Error::Error;
};

struct ForcedTimes {
  std::string entry;
  double forced_us = 0;  // inside the polymorphic menu
  double alone_us = 0;   // compiled by itself
};

class LayerBench {
 public:
  // Fills the weights of all layers: over 1 GB and at most 60 % of the GPU's free memory.
  LayerBench(const gpu::Context& context, const gpu::Clocks& clocks, gpu::CubinCache& cache,
             LayerBenchOptions options);
  ~LayerBench();

  // Layers of a graph for a pass of so many tokens.
  int layers_of(int tokens) const;

  // The pass that the calls below time.  Keeps its memory until the next one.
  void set_load(const LoadSource& source, int tokens);

  LayerTimes layer(const BenchChoice& choice);
  // Index of the menu's entry whose layer is the fastest, each compiled alone.  One whose numbers
  // are off (too many additions of too many slices) is told to `skipped` and left out; throws
  // WrongNumbers when that leaves none.
  std::size_t fastest(const BenchChoice& choice,
                      const std::function<void(const WrongNumbers&)>& skipped);
  // Each entry forced in the menu and alone.
  std::vector<ForcedTimes> forced(const std::vector<FfnConfig>& menu);
  // ffn on ready tile lists only.
  LayerTimes ffn(const FfnConfig& config);
  // What one launch of prepare adds behind the kernel that writes the ids, us.
  double prepare(const BenchChoice& choice);

 private:
  struct Place;
  struct Stack;
  struct Expected;
  Stack stack(const BenchChoice& choice);
  LayerCall call_of(std::size_t layer, const BenchChoice& choice, bool own_workspace) const;
  TimedGraph layer_graph(const std::string& name, const Stack& s);
  TimedGraph ready_graph(const std::string& name, const Stack& s, bool with_ids);
  TimedGraph stream_graph();
  void write_ids(std::size_t layer);
  void prepare_all(const Stack& s);
  std::string most_run(const Stack& s);
  const Expected& expected();
  double check(const Stack& s);
  void describe(LayerTimes& times) const;
  GraphTimes time(const std::vector<TimedGraph>& graphs);

  const gpu::Context& context_;
  const gpu::Clocks& clocks_;
  gpu::CubinCache& cache_;
  LayerBenchOptions options_;
  BenchProgram bench_;
  StreamProgram stream_program_;
  gpu::Stream stream_;
  LocalShape shape_;  // of the GPU with the most experts
  std::vector<TrialWeights> weights_;
  std::optional<HostWeights> first_;  // weights_[0] on the host, once a check has asked

  int tokens_ = 0;
  std::vector<RoutedLayer> routed_;
  std::vector<Place> places_;
  std::unique_ptr<Expected> expected_;  // of this load, once a check has asked
  gpu::Buffer hidden_, output_, workspace_, claims_;
};

}  // namespace ramp
