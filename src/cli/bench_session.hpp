// SPDX-License-Identifier: Apache-2.0
// What the parts of `ramp bench` share: options, how a layer chooses, and the GPU with its layers.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/gpu_options.hpp"
#include "cli/model_options.hpp"
#include "runtime/layer_bench.hpp"

namespace ramp::cli {

struct BenchOptions {
  ModelOptions model;
  std::string layout = "ep8", rank = "heaviest", tokens = "1,8,16,32,64,128,256,512,1024";
  std::string loads = "uniform", trace, policy, plan, menu, json, configs, pairs, mode,
              rows = "auto";
  std::vector<std::string> theta;
  std::string forced;
  bool foreign_router = false;
  int replays = 21, device = 0, prefill = -1;
  std::uint64_t seed = 1;
};

// How a layer chooses, as the options say it.
struct BenchPolicy {
  std::string name;
  BenchChoice choice;
  bool best = false;  // of choice.menu, found by timing each
  std::vector<std::pair<int, BenchChoice>>
      smaller{};  // a plan's, for passes of up to so many tokens

  const BenchChoice& of(int tokens) const {
    for (const auto& [up_to, small] : smaller)
      if (tokens <= up_to) return small;
    return choice;
  }
};

// Throws Error naming the option that is wrong.
BenchPolicy policy_of(const BenchOptions& o);
std::vector<int> tokens_of(const BenchOptions& o);

// Everything that the three benches start with: options that are refused without a GPU first.
struct BenchSession {
  BenchSession(const BenchOptions& o, int most_layers);
  void open(int device);

  Model model;
  Layout layout;
  LayerBenchOptions bench;
  std::vector<LoadSource> sources;
  std::unique_ptr<OpenGpu> gpu;
  std::unique_ptr<LayerBench> layers;
};

// Menus and coefficients of o.plan, checked against what the session knows by now.
void take_plan(const BenchOptions& o, const BenchSession& s, BenchPolicy& policy);

std::string us_text(double us);

// `ramp bench layer`.
void bench_layer(const BenchOptions& o);

}  // namespace ramp::cli
