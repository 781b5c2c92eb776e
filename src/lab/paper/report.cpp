// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ramp {
namespace {

std::string digits_of(double value, Unit unit) {
  switch (unit) {
    case Unit::kTimes:
      return fmt::format("{:.2f}x", value);
    case Unit::kRatio:
      return fmt::format("{:.2f}", value);
    case Unit::kPercent:
      return fmt::format("{:.1f}", 100 * value);
    case Unit::kCount:
      return fmt::format("{:.0f}", value);
    case Unit::kRank:
      return fmt::format("{:.3f}", value);
    case Unit::kMean:
    case Unit::kUs:
    case Unit::kText:
      return fmt::format("{:.1f}", value);
  }
  return "";
}

// The unit once, behind the interval's numbers there is none.
std::string bound_of(double value, Unit unit) {
  return digits_of(value, unit == Unit::kTimes ? Unit::kRatio : unit);
}

Unit unit_of(const Report& report, const ReportRow& row, size_t column) {
  return row.cells[column].unit.value_or(report.columns[column].unit);
}

bool has_paper(const Report& report, size_t column) {
  return std::any_of(report.rows.begin(), report.rows.end(),
                     [&](const ReportRow& row) { return row.cells[column].paper.is_known(); });
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_number(double value) {
  return std::isnan(value) ? "" : fmt::format("{:.6g}", value);
}

std::string joined(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) line += (line.empty() ? "" : ",") + csv_field(cell);
  return line + "\n";
}

}  // namespace

bool Number::is_known() const { return !std::isnan(value) || !std::isnan(low); }

std::string text_of(const Number& number, Unit unit) {
  if (!number.is_known()) return "-";
  const bool has_range = !std::isnan(number.low);
  if (std::isnan(number.value)) {
    const std::string low = digits_of(number.low, unit), high = digits_of(number.high, unit);
    return low == high ? low : bound_of(number.low, unit) + "-" + high;
  }
  std::string text = digits_of(number.value, unit);
  if (has_range)
    text += fmt::format(" [{}, {}]", bound_of(number.low, unit), bound_of(number.high, unit));
  return text;
}

std::vector<std::vector<std::string>> grid_of(const Report& report) {
  std::vector<std::vector<std::string>> grid(1);
  for (size_t c = 0; c < report.columns.size(); ++c) {
    const bool is_text = report.columns[c].unit == Unit::kText;
    grid[0].push_back((is_text ? "<" : "") + report.columns[c].name);
    if (!is_text && has_paper(report, c)) grid[0].push_back("paper");
  }
  for (const ReportRow& row : report.rows) {
    std::vector<std::string> cells;
    bool says_why = row.why_not.empty();
    for (size_t c = 0; c < report.columns.size(); ++c) {
      const Unit unit = unit_of(report, row, c);
      if (report.columns[c].unit == Unit::kText) {
        cells.push_back(row.cells[c].text);
        continue;
      }
      const Number& ours = row.cells[c].ours;
      const bool says_it_here = !says_why && !ours.is_known();
      cells.push_back(says_it_here ? row.why_not : text_of(ours, unit));
      says_why |= says_it_here;
      if (has_paper(report, c)) cells.push_back(text_of(row.cells[c].paper, unit));
    }
    grid.push_back(std::move(cells));
  }
  return grid;
}

std::string csv_of(const Report& report) {
  std::vector<std::string> headings;
  for (size_t c = 0; c < report.columns.size(); ++c) {
    const std::string& name = report.columns[c].name;
    headings.push_back(name);
    if (report.columns[c].unit == Unit::kText) continue;
    for (const char* part : {"low", "high", "paper", "paper low", "paper high"})
      headings.push_back(name + " " + part);
  }
  headings.insert(headings.end(), {"why not", "next"});
  std::string text = joined(headings);
  for (const ReportRow& row : report.rows) {
    std::vector<std::string> cells;
    for (size_t c = 0; c < report.columns.size(); ++c) {
      const ReportCell& cell = row.cells[c];
      if (report.columns[c].unit == Unit::kText) {
        cells.push_back(cell.text);
        continue;
      }
      for (const double value : {cell.ours.value, cell.ours.low, cell.ours.high, cell.paper.value,
                                 cell.paper.low, cell.paper.high})
        cells.push_back(csv_number(value));
    }
    cells.insert(cells.end(), {row.why_not, row.next});
    text += joined(cells);
  }
  return text;
}

std::string csv_of(const std::vector<Plot>& plots) {
  std::string text = "panel,series,x,y,low,high\n";
  for (const Plot& plot : plots)
    for (const Panel& panel : plot.panels)
      for (const Series& series : panel.series)
        for (size_t i = 0; i < series.y.size(); ++i) {
          const bool is_named = !panel.categories.empty();
          const std::string x = is_named ? panel.categories[static_cast<size_t>(series.x[i])]
                                         : csv_number(series.x[i]);
          text += joined({panel.title, series.name, x, csv_number(series.y[i]),
                          i < series.low.size() ? csv_number(series.low[i]) : "",
                          i < series.high.size() ? csv_number(series.high[i]) : ""});
        }
  return text;
}

std::string markdown_of(const Report& report) {
  std::string text = fmt::format("**{}**\n\n", report.title);
  const std::vector<std::vector<std::string>> grid = grid_of(report);
  for (size_t r = 0; r < grid.size(); ++r) {
    std::string line = "|", rule = "|";
    for (size_t c = 0; c < grid[r].size(); ++c) {
      const bool is_left = grid[0][c].starts_with('<');
      line += " " + (r == 0 && is_left ? grid[r][c].substr(1) : grid[r][c]) + " |";
      rule += is_left ? " --- |" : " ---: |";
    }
    text += line + "\n";
    if (r == 0) text += rule + "\n";
  }
  for (const std::string& note : report.notes) text += "\n" + note + "\n";
  return text;
}

}  // namespace ramp
