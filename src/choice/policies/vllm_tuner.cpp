// SPDX-License-Identifier: Apache-2.0
// vLLM's own tuner under expert parallelism (benchmark_moe.py): it builds a layer of the local
// experts only and routes every token-expert pair of the batch to them, so an entry for B tokens is
// tuned on B k pairs where a GPU of the layout would get its share of them.  At run time it is
// looked up by the batch, like vllm-tuning.  Where every GPU holds all experts the two are one.
//
// B k pairs on the local experts are what one GPU gets of a larger uniform batch, so the uniform
// loads of the measurements serve, each for the batch size whose pairs it is nearest to.
#include <cmath>

#include "base/error.hpp"
#include "choice/batch_table.hpp"
#include "choice/policy.hpp"
#include "problem/load.hpp"

namespace ramp {
namespace {

// A load further than this from every batch size's pairs stands for none of them.
constexpr double kNear = 1.25;

class VllmTuner : public Policy {
 public:
  void learn(const Lesson& uniform) override {
    std::vector<std::vector<int>> bucket(std::size(kVllmBatchSizes));
    for (size_t l = 0; l < uniform.loads.size(); ++l) {
      size_t best = 0;
      double least = INFINITY;
      for (size_t b = 0; b < bucket.size(); ++b) {
        const double wanted = static_cast<double>(kVllmBatchSizes[b]) * uniform.shape.top_k;
        const double apart = std::abs(std::log(pairs_of(uniform.loads[l]) / wanted));
        if (apart < least) best = b, least = apart;
      }
      if (least <= std::log(kNear)) bucket[best].push_back(static_cast<int>(l));
    }
    for (size_t b = 0; b < bucket.size(); ++b) {
      const int best = best_candidate(uniform.learnable, static_cast<int>(bucket[b].size()),
                                      [&](int c, int i) { return uniform.us[c][bucket[b][i]]; });
      if (best < 0) continue;
      table_.keys.push_back(kVllmBatchSizes[b]);
      table_.choice.push_back(best);
    }
    if (table_.keys.empty())
      throw Error("uniform loads", fmt::format("{}, none timed", uniform.loads.size()),
                  "timed loads of a batch size's pairs", "profile more passes of this role");
  }
  int choose(const Seen& seen) const override { return table_.lookup(seen.tokens); }
  std::size_t bytes() const override { return table_.bytes(); }

 private:
  BatchTable table_;
};

}  // namespace

PolicyKind vllm_tuner() {
  return {"vllm-tuner", "as vLLM's tuner measures: every pair on the local experts", Sight::kBatch,
          Role::kUniform, [](const PolicyOptions&) -> std::unique_ptr<Policy> {
            return std::make_unique<VllmTuner>();
          }};
}

}  // namespace ramp
