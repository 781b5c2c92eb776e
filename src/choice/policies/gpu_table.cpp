// SPDX-License-Identifier: Apache-2.0
// The per-GPU table (Section 4): indexed by the tokens that this GPU received, blind to how they
// spread over its experts.  A GPU knows its token-expert pairs, so these are the key; the eighteen
// batch sizes are carried over by the mean pairs a GPU gets per token of the pass.
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "choice/batch_table.hpp"
#include "choice/policy.hpp"
#include "problem/load.hpp"

namespace ramp {
namespace {

// Ascending, different, at least 1.
std::vector<int> keys_in_pairs(const Lesson& lesson) {
  double pairs = 0, tokens = 0;
  for (const LessonPass& pass : lesson.passes) {
    for (int load : pass.load_of_gpu)
      if (load >= 0) pairs += pairs_of(lesson.loads[load]);
    tokens += static_cast<double>(pass.tokens) * pass.load_of_gpu.size();
  }
  std::vector<int> keys;
  for (int size : kVllmBatchSizes) {
    const int key =
        std::max(1, static_cast<int>(std::lround(tokens > 0 ? size * pairs / tokens : size)));
    if (keys.empty() || key > keys.back()) keys.push_back(key);
  }
  return keys;
}

class GpuTable : public Policy {
 public:
  void learn(const Lesson& lesson) override {
    const std::vector<int> keys = keys_in_pairs(lesson);
    std::vector<std::vector<int>> bucket(keys.size());
    for (size_t l = 0; l < lesson.loads.size(); ++l)
      bucket[nearest_key(keys, static_cast<int>(pairs_of(lesson.loads[l])))].push_back(
          static_cast<int>(l));
    for (size_t b = 0; b < keys.size(); ++b) {
      const int best = best_candidate(lesson.learnable, static_cast<int>(bucket[b].size()),
                                      [&](int c, int i) { return lesson.us[c][bucket[b][i]]; });
      if (best < 0) continue;
      table_.keys.push_back(keys[b]);
      table_.choice.push_back(best);
    }
    if (table_.keys.empty())
      throw Error("training loads", fmt::format("{}, none timed", lesson.loads.size()),
                  "1 or more timed loads", "profile the recorded passes of the trace");
  }
  int choose(const Seen& seen) const override {
    int pairs = 0;
    for (int n : seen.load) pairs += n;
    return table_.lookup(pairs);
  }

 private:
  BatchTable table_;  // keyed by pairs
};

}  // namespace

PolicyKind gpu_table() {
  return {
      "gpu-table", "table keyed by each GPU's own token count", Role::kTrain, false,
      [](const PolicyOptions&) -> std::unique_ptr<Policy> { return std::make_unique<GpuTable>(); }};
}

}  // namespace ramp
