// SPDX-License-Identifier: Apache-2.0
// The numbers that the paper prints (arXiv 2604.26039, second version; claims of the first version
// are marked), as data: facts, with where they stand.  Tables 6 and 7 are in
// problem/calibration.cpp, because generated routing is fitted to them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "lab/paper/report.hpp"

namespace ramp {

// A row of one of its tables.  values: as printed, in the order that numbers.cpp says for the
// table; percentages are per cent.
struct PaperRow {
  std::string_view table;   // "3"
  std::string_view model;   // catalog name; Table 4: the policy; Table 12: the menu's entries
  std::string_view layout;  // "ep8"; empty in Table 4
  std::vector<double> values;
};

std::vector<PaperRow> paper_rows(std::string_view table);

// A number in its text.
struct PaperClaim {
  std::string_view id;
  std::string_view where;  // "Section 4.2"
  std::string_view what;   // in our words
  Number number;           // value or range; percentages as fractions
  Unit unit = Unit::kTimes;
};

std::span<const PaperClaim> paper_claims();

}  // namespace ramp
