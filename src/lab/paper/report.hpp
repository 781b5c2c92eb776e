// SPDX-License-Identifier: Apache-2.0
// One of the paper's tables or figures with our numbers beside its own, before anybody decided how
// it looks: text, Markdown, CSV, JSON and SVG are made of this.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "lab/paper/plot.hpp"

namespace ramp {

// low, high: a 95 % bootstrap interval; or, without a value, a range over models or layouts.
struct Number {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double value = kUnknown, low = kUnknown, high = kUnknown;
  bool is_known() const;
};

// How a number is written.  Percentages are stored as fractions.
enum class Unit { kText, kTimes, kRatio, kPercent, kCount, kMean, kRank, kUs };

struct ReportCell {
  std::string text;  // of a kText column
  Number ours, paper;
  std::optional<Unit> unit;  // where it is not the column's
};

struct ReportColumn {
  std::string name;
  Unit unit = Unit::kText;
};

struct ReportRow {
  std::vector<ReportCell> cells;
  std::string why_not;  // "not measured here": our cells are then empty
  std::string next;     // the command that would measure it
};

struct Report {
  std::string name;  // "table3"
  std::string title;
  std::vector<ReportColumn> columns;
  std::vector<ReportRow> rows;
  std::vector<std::string> notes;
  std::vector<std::string> files;  // measurements that it rests on, by path
  std::vector<Plot> plots;
};

inline constexpr const char* kNotMeasured = "not measured here";

// "1.24x [1.20, 1.31]", "3.5", "3.3-4.8", "-".
std::string text_of(const Number& number, Unit unit);

// Headings, then rows: a numeric column has our number and, where the paper has any, the paper's
// beside it.  A heading of text begins with '<', as in cli/table.hpp.
std::vector<std::vector<std::string>> grid_of(const Report& report);

// The same without a look at people: name, name_low, name_high, name_paper, ...
std::string csv_of(const Report& report);
std::string markdown_of(const Report& report);

}  // namespace ramp
