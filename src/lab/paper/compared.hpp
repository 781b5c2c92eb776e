// SPDX-License-Identifier: Apache-2.0
// The paper's tables of policies by model and layout (3, 5, 9 and 11) as data: what each column
// compares.  A row a layout, the geometric mean below.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lab/paper/request.hpp"

namespace ramp {

struct ComparedColumn {
  std::string name;
  std::string slow, fast;  // policies: slow / fast is shown; empty: not ours to measure
  bool is_large = true;    // passes of 128 tokens and more alone
  bool is_gap = false;     // slow / fast - 1, in %
  int paper = -1;  // index into PaperRow::values; an interval in the two behind it where ...
  bool paper_has_interval = false;
};

struct ComparedTable {
  std::string name, title;
  std::string paper;  // its number
  std::vector<ComparedColumn> columns;
  std::function<bool(const MeasuredFile&)> belongs;
  std::string flags;  // of `ramp tune`, for a row that is missing
  std::vector<std::string> notes;
};

Report compared(const ComparedTable& table, const PaperRequest& request);

// Whole experts, as vLLM lays them.
inline bool is_contiguous_ep(const MeasuredFile& file) {
  return file.is_ep() && file.placement().empty();
}

}  // namespace ramp
