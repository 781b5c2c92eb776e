// SPDX-License-Identifier: Apache-2.0
// Tables that a GPU looks up in after routing.  A row is a number of tokens that this GPU received;
// cells of a row are told apart by something else of its load, or by nothing (the per-GPU table).
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "choice/lesson.hpp"
#include "choice/spread.hpp"

namespace ramp {

class GpuTable {
 public:
  // The cell, from 0, of a load whose count falls into that row.
  using CellOf = std::function<int(int row, std::span<const int> load)>;

  // Rows: the eighteen batch sizes, in token-expert pairs, which are what a GPU knows; they are
  // carried over by the mean pairs a GPU gets per token of the pass.  Rows that no timed training
  // load is nearest to are left out.  Throws Error when none is left.
  void set_rows(const Lesson& lesson);
  const std::vector<int>& rows() const { return rows_; }  // pairs, ascending

  // Each cell keeps the candidate that is fastest on the training loads that fall into it; a cell
  // without any takes what its whole row would.
  void fill(const Lesson& lesson, int cells, CellOf cell_of);

  int lookup(std::span<const int> load) const;  // a candidate
  std::size_t bytes() const;                    // of keys and cells

 private:
  int row_of(std::span<const int> load) const;

  std::vector<int> rows_;
  int cells_ = 1;
  CellOf cell_of_;
  std::vector<int> choice_;  // [row][cell]
};

// One measure of the spread, cut into `buckets` at its quantiles over the timed training loads.
struct SpreadAxis {
  double Spread::*measure = nullptr;
  int buckets = 1;
};

// The tables of Table 4: token count x these axes.
GpuTable tune_spread_table(const Lesson& lesson, std::span<const SpreadAxis> axes);

// Indexes of the lesson's loads that were timed at all.
std::vector<int> timed_loads(const Lesson& lesson);

}  // namespace ramp
