// SPDX-License-Identifier: Apache-2.0
#include "choice/batch_table.hpp"

#include <cstdlib>

#include "base/error.hpp"

namespace ramp {

int nearest_key(std::span<const int> keys, int n) {
  int best = 0;
  for (int i = 1; i < static_cast<int>(keys.size()); ++i)
    if (std::abs(keys[i] - n) < std::abs(keys[best] - n)) best = i;
  return best;
}

BatchTable tune_batch_table(const Lesson& lesson, std::span<const int> candidates) {
  std::vector<std::vector<int>> bucket(std::size(kVllmBatchSizes));
  for (size_t p = 0; p < lesson.passes.size(); ++p) {
    if (pass_has_work(lesson.passes[p]))
      bucket[nearest_key(kVllmBatchSizes, lesson.passes[p].tokens)].push_back(static_cast<int>(p));
  }
  BatchTable table;
  for (size_t b = 0; b < bucket.size(); ++b) {
    const int best =
        best_candidate(candidates, static_cast<int>(bucket[b].size()), [&](int c, int i) {
          return pass_us(lesson.us, lesson.passes[bucket[b][i]].load_of_gpu, c);
        });
    if (best < 0) continue;
    table.keys.push_back(kVllmBatchSizes[b]);
    table.choice.push_back(best);
  }
  if (table.keys.empty())
    throw Error("passes", fmt::format("{} of this role, none timed", lesson.passes.size()),
                "timed passes to tune a table on", "profile more passes of this role");
  return table;
}

}  // namespace ramp
