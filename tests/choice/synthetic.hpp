// SPDX-License-Identifier: Apache-2.0
// Test only: measured spaces with a truth that is known because it was planted.  Times are a
// formula with seeded noise; nothing here is a measurement, and no program links it.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "choice/cost_model.h"
#include "choice/measured.hpp"
#include "problem/load.hpp"
#include "problem/random.hpp"

namespace ramp {

struct SyntheticOptions {
  int experts = 64, gpus = 8, top_k = 8;
  int train_passes = 60, test_passes = 40;
  bool uniform_passes = true;
  double skew = 1.0;       // spread of the experts' log popularity; drawn anew for every pass
  double other_skew = -1;  // of every second round of sizes; below 0: the same
  double noise = 0.0;      // relative, of each sample
  int samples = 4;
  std::uint64_t seed = 1;
  std::vector<int> sizes = {1, 4, 16, 48, 100, 160, 256, 400, 512, 1024};
};

// rows x width; the larger the tile the fewer and the dearer, and wide tiles halve the number of
// columns.
inline std::vector<Candidate> synthetic_candidates() {
  std::vector<Candidate> out;
  for (int rows : {8, 16, 32, 64})
    for (int col_tiles : {4, 8})
      for (int slots : {132, 264})
        out.push_back(
            {"r" + std::to_string(rows) + "-q" + std::to_string(col_tiles) + "-s" +
                 std::to_string(slots),
             "{\"rows\":" + std::to_string(rows) + ",\"tiles\":" + std::to_string(col_tiles) + "}",
             Grid{{{rows, col_tiles, slots}}, 1}, slots == 132 ? "one" : "two"});
  return out;
}

// A small GPU's worth of slots in the formula makes waves matter at these sizes.
inline Theta synthetic_theta(const Candidate& c) {
  const float rows = static_cast<float>(c.grid.phase[0].rows),
              width = 8.0f / c.grid.phase[0].col_tiles;
  const float crowd = c.grid.phase[0].slots > 132 ? 1.9f : 1.0f;
  return {3.0f + 0.02f * rows, crowd * width * (1.5f + 0.05f * rows),
          0.01f * width * (1 + 0.03f * rows), 0.2f};
}

// Counts of all experts for B tokens of top_k different experts each.
inline std::vector<int> synthetic_counts(int tokens, const SyntheticOptions& o, double skew,
                                         Random& random) {
  std::vector<double> logit(o.experts);
  for (double& l : logit) l = skew * random.normal();
  std::vector<int> counts(o.experts, 0), order(o.experts);
  std::vector<double> score(o.experts);
  for (int t = 0; t < tokens; ++t) {
    for (int e = 0; e < o.experts; ++e) score[e] = logit[e] - std::log(-std::log(random.uniform()));
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + o.top_k, order.end(),
                      [&](int a, int b) { return score[a] > score[b]; });
    for (int k = 0; k < o.top_k; ++k) ++counts[order[k]];
  }
  return counts;
}

using SyntheticTime = std::function<double(const Candidate&, const std::vector<int>& load)>;

inline double eq3_time(const Candidate& c, const std::vector<int>& load) {
  return predict_us(synthetic_theta(c),
                    features(c.grid, load.data(), static_cast<int>(load.size())));
}

inline MeasuredSpace synthetic_space(const SyntheticOptions& o = {},
                                     const SyntheticTime& time = eq3_time) {
  MeasuredSpace space;
  space.provenance = {"synthetic", "ep" + std::to_string(o.gpus), "generated: test", "simulated"};
  space.provenance.date = "2026-01-01";
  space.shape = {o.experts / o.gpus, o.top_k, 2048, 1024};
  space.gpus = o.gpus;
  space.candidates = synthetic_candidates();
  Random random(o.seed);
  std::map<std::vector<int>, int> known;
  const auto add = [&](int tokens, Role role, double skew) {
    const std::vector<int> counts = synthetic_counts(tokens, o, skew, random);
    MeasuredPass pass{tokens, static_cast<int>(space.passes.size()) % 4, "test", role, {}};
    const int local = o.experts / o.gpus;
    for (int g = 0; g < o.gpus; ++g) {
      std::vector<int> load(counts.begin() + g * local, counts.begin() + (g + 1) * local);
      std::sort(load.rbegin(), load.rend());
      if (load[0] == 0) {
        pass.load_of_gpu.push_back(-1);
        continue;
      }
      const auto [at, is_new] = known.emplace(load, static_cast<int>(space.loads.size()));
      if (is_new) space.loads.push_back(load);
      pass.load_of_gpu.push_back(at->second);
    }
    space.passes.push_back(std::move(pass));
  };
  const auto add_recorded = [&](int passes, Role role) {
    const int sizes = static_cast<int>(o.sizes.size());
    for (int p = 0; p < passes; ++p)
      add(o.sizes[p % sizes], role, p / sizes % 2 && o.other_skew >= 0 ? o.other_skew : o.skew);
  };
  add_recorded(o.train_passes, Role::kTrain);
  add_recorded(o.test_passes, Role::kTest);
  if (o.uniform_passes)
    for (int tokens : {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536})
      add(tokens, Role::kUniform, 0);
  for (const Candidate& c : space.candidates) {
    auto& row = space.samples.emplace_back();
    for (const auto& load : space.loads) {
      auto& samples = row.emplace_back();
      for (int s = 0; s < o.samples; ++s)
        samples.push_back(static_cast<float>(time(c, load) * (1 + o.noise * random.normal())));
    }
  }
  return space;
}

}  // namespace ramp
