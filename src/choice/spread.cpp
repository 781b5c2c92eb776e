// SPDX-License-Identifier: Apache-2.0
#include "choice/spread.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "choice/features.h"

namespace ramp {

Spread spread_of(std::span<const int> load, int rows) {
  Spread s;
  double squares = 0, tiles = 0, largest = 0;
  const Phase phase{rows, 1, 1};
  for (int n : load) {
    s.pairs += n;
    s.active += n > 0;
    squares += static_cast<double>(n) * n;
    tiles += row_tiles(n, phase);
    largest = std::max<double>(largest, n);
  }
  if (s.pairs == 0) return s;
  const double experts = static_cast<double>(load.size()), mean = s.pairs / experts;
  s.padding = 1 - s.pairs / (tiles * rows);
  s.peak = largest / mean;
  s.variation = std::sqrt(std::max(0.0, squares / experts - mean * mean)) / mean;
  return s;
}

int padding_rows(const Lesson& lesson) {
  std::vector<int> rows;
  for (int c : lesson.learnable) rows.push_back(lesson.candidates[c].grid.phase[0].rows);
  if (rows.empty())
    throw Error("training loads", fmt::format("{}, none timed", lesson.loads.size()),
                "1 or more timed loads", "profile the recorded passes of the trace");
  std::nth_element(rows.begin(), rows.begin() + rows.size() / 2, rows.end());
  return rows[rows.size() / 2];
}

}  // namespace ramp
