// SPDX-License-Identifier: Apache-2.0
// What serving systems do (Section 2.4): a table from a token count to a configuration, tuned
// offline, looked up by the nearest key.  Keys are vLLM's eighteen batch sizes.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "choice/lesson.hpp"

namespace ramp {

inline constexpr int kVllmBatchSizes[] = {1,  2,   4,   8,   16,   24,   32,   48,   64,
                                          96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096};

// Index of the key nearest to n in absolute distance; a tie goes to the smaller key.  Keys ascend.
int nearest_key(std::span<const int> keys, int n);

struct BatchTable {
  std::vector<int>
      keys;  // tokens of the pass, ascending; only sizes that something was learned for
  std::vector<int> choice;  // candidate
  int lookup(int tokens) const { return choice[nearest_key(keys, tokens)]; }
  std::size_t bytes() const { return (keys.size() + choice.size()) * sizeof(int); }
};

// Passes go to the nearest of the eighteen sizes; each size keeps the candidate whose slowest GPU
// is fastest, all GPUs running it.  Throws Error when nothing can be learned.
BatchTable tune_batch_table(const Lesson& lesson, std::span<const int> candidates);

// The candidate with the lowest geometric mean of us(candidate, item) over items 0..n-1, infinity
// where one was not timed.  Only candidates timed on as many items as the best covered one compete:
// means over different items can't be compared.  A tie goes to the first.  -1 when no candidate was
// timed at all.
template <class Us>
int best_candidate(std::span<const int> candidates, int items, const Us& us) {
  int best = -1, most = 0;
  double best_log = 0;
  for (int c : candidates) {
    int timed = 0;
    double log = 0;
    for (int i = 0; i < items; ++i)
      if (const float t = us(c, i); is_time(t)) ++timed, log += std::log(t);
    if (timed > most || (timed == most && timed > 0 && log < best_log))
      best = c, most = timed, best_log = log;
  }
  return best;
}

}  // namespace ramp
