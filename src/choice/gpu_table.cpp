// SPDX-License-Identifier: Apache-2.0
#include "choice/gpu_table.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "choice/batch_table.hpp"

namespace ramp {
namespace {

int pairs_in(std::span<const int> load) { return std::accumulate(load.begin(), load.end(), 0); }

// Ascending, different, at least 1.
std::vector<int> keys_in_pairs(const Lesson& lesson) {
  double pairs = 0, tokens = 0;
  for (const LessonPass& pass : lesson.passes) {
    for (int load : pass.load_of_gpu)
      if (load >= 0) pairs += pairs_in(lesson.loads[load]);
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

int best_on(const Lesson& lesson, const std::vector<int>& loads) {
  return best_candidate(lesson.learnable, static_cast<int>(loads.size()),
                        [&](int c, int i) { return lesson.us[c][loads[i]]; });
}

// Where a measure changes its bucket: the quantiles of what was seen.
std::vector<double> cuts(std::vector<double> values, int buckets) {
  std::sort(values.begin(), values.end());
  std::vector<double> at;
  for (int b = 1; b < buckets; ++b) at.push_back(values[values.size() * b / buckets]);
  return at;
}

}  // namespace

std::vector<int> timed_loads(const Lesson& lesson) {
  std::vector<int> loads;
  for (size_t l = 0; l < lesson.loads.size(); ++l)
    if (std::any_of(lesson.learnable.begin(), lesson.learnable.end(),
                    [&](int c) { return is_time(lesson.us[c][l]); }))
      loads.push_back(static_cast<int>(l));
  if (loads.empty())
    throw Error("training loads", fmt::format("{}, none timed", lesson.loads.size()),
                "1 or more timed loads", "profile the recorded passes of the trace");
  return loads;
}

void GpuTable::set_rows(const Lesson& lesson) {
  const std::vector<int> keys = keys_in_pairs(lesson);
  std::vector<char> used(keys.size(), 0);
  for (int l : timed_loads(lesson)) used[nearest_key(keys, pairs_in(lesson.loads[l]))] = 1;
  rows_.clear();
  for (size_t k = 0; k < keys.size(); ++k)
    if (used[k]) rows_.push_back(keys[k]);
}

void GpuTable::fill(const Lesson& lesson, int cells, CellOf cell_of) {
  cells_ = cells;
  cell_of_ = std::move(cell_of);
  std::vector<std::vector<int>> of_row(rows_.size()), of_cell(rows_.size() * cells_);
  for (int l : timed_loads(lesson)) {
    const int row = row_of(lesson.loads[l]);
    of_row[row].push_back(l);
    of_cell[row * cells_ + cell_of_(row, lesson.loads[l])].push_back(l);
  }
  choice_.clear();
  for (size_t row = 0; row < rows_.size(); ++row) {
    const int whole = best_on(lesson, of_row[row]);
    for (int cell = 0; cell < cells_; ++cell) {
      const std::vector<int>& loads = of_cell[row * cells_ + cell];
      choice_.push_back(loads.empty() ? whole : best_on(lesson, loads));
    }
  }
}

int GpuTable::row_of(std::span<const int> load) const { return nearest_key(rows_, pairs_in(load)); }

int GpuTable::lookup(std::span<const int> load) const {
  const int row = row_of(load);
  return choice_[row * cells_ + cell_of_(row, load)];
}

std::size_t GpuTable::bytes() const { return (rows_.size() + choice_.size()) * sizeof(int); }

GpuTable tune_spread_table(const Lesson& lesson, std::span<const SpreadAxis> axes) {
  const int rows = padding_rows(lesson);
  struct Cut {
    double Spread::*measure;
    std::vector<double> at;
  };
  std::vector<Cut> found;
  int cells = 1;
  for (const SpreadAxis& axis : axes) {
    std::vector<double> values;
    for (int l : timed_loads(lesson))
      values.push_back(spread_of(lesson.loads[l], rows).*axis.measure);
    found.push_back({axis.measure, cuts(std::move(values), axis.buckets)});
    cells *= axis.buckets;
  }
  GpuTable table;
  table.set_rows(lesson);
  table.fill(lesson, cells, [rows, found](int, std::span<const int> load) {
    const Spread spread = spread_of(load, rows);
    int cell = 0;
    for (const Cut& cut : found) {
      const auto bucket =
          std::upper_bound(cut.at.begin(), cut.at.end(), spread.*cut.measure) - cut.at.begin();
      cell = cell * static_cast<int>(cut.at.size() + 1) + static_cast<int>(bucket);
    }
    return cell;
  });
  return table;
}

}  // namespace ramp
