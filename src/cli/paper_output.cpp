// SPDX-License-Identifier: Apache-2.0
#include "cli/paper_output.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "cli/measured_input.hpp"
#include "cli/table.hpp"
#include "lab/simulated_timer.hpp"
#include "problem/calibration.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

const MeasuredFile* file_of(const PaperRequest& request, const std::string& path) {
  for (const MeasuredFile& file : request.files)
    if (file.path == path) return &file;
  return nullptr;
}

// One line a file, and the calibrations of all of them once.
void print_sources(const Report& report, const PaperRequest& request) {
  std::set<std::string> calibrations;
  for (const std::string& path : report.files) {
    const MeasuredFile* file = file_of(request, path);
    if (!file) continue;
    const Provenance& p = file->space.provenance;
    fmt::print("  {}: {}{}, {}, commit {}, {} configurations; {}\n", file->name(), p.gpu,
               p.gpu == kSimulatedGpu ? " (SIMULATED, not measured)" : "", p.date, p.commit,
               file->space.candidates.size(), p.routing);
    if (const std::string note = calibration_note(p.routing); !note.empty())
      calibrations.insert(note);
  }
  for (const std::string& note : calibrations) fmt::print("  {}\n", note);
}

json number_json(const Number& number) {
  return {{"value", number_or_null(number.value)},
          {"low", number_or_null(number.low)},
          {"high", number_or_null(number.high)}};
}

// Percentages are fractions; a ratio is a ratio.
const char* unit_name(Unit unit) {
  switch (unit) {
    case Unit::kTimes:
    case Unit::kRatio:
      return "ratio";
    case Unit::kPercent:
      return "fraction";
    case Unit::kRank:
      return "correlation";
    case Unit::kUs:
      return "us";
    case Unit::kCount:
    case Unit::kMean:
      return "count";
    case Unit::kText:
      break;
  }
  return "text";
}

json plots_json(const std::vector<Plot>& plots) {
  json out = json::array();
  for (const Plot& plot : plots) {
    json panels = json::array();
    for (const Panel& panel : plot.panels) {
      json series = json::array(), levels = json::array();
      for (const Series& s : panel.series)
        series.push_back(
            {{"name", s.name}, {"x", s.x}, {"y", s.y}, {"low", s.low}, {"high", s.high}});
      for (const Panel::Level& level : panel.levels)
        levels.push_back({{"name", level.name}, {"y", level.y}});
      panels.push_back({{"title", panel.title},
                        {"x", panel.x_label},
                        {"y", panel.y_label},
                        {"categories", panel.categories},
                        {"levels", levels},
                        {"series", series}});
    }
    out.push_back({{"title", plot.title}, {"panels", panels}});
  }
  return out;
}

}  // namespace

void print_report(const Report& report, const PaperRequest& request) {
  const std::vector<std::vector<std::string>> grid = grid_of(report);
  Table table(grid[0]);
  for (size_t r = 1; r < grid.size(); ++r) table.add(grid[r]);
  fmt::print("{}\n\n{}", report.title, table.text());
  if (!report.notes.empty()) fmt::print("\n");
  for (const std::string& note : report.notes) fmt::print("{}\n", note);
  std::vector<std::string> commands;
  for (const ReportRow& row : report.rows)
    if (!row.next.empty() &&
        std::find(commands.begin(), commands.end(), row.next) == commands.end())
      commands.push_back(row.next);
  if (!commands.empty())
    fmt::print(
        "\nWhat is missing can be measured on a GPU; a measurements file put beside the others, or "
        "named after\n`ramp paper {}`, adds its row:\n",
        report.name);
  for (const std::string& command : commands) fmt::print("  {}\n", command);
  if (!report.files.empty()) {
    fmt::print("\nRests on:\n");
    print_sources(report, request);
  }
}

json table_json(const Report& report) {
  json columns = json::array(), rows = json::array();
  for (const ReportColumn& column : report.columns) columns.push_back(column.name);
  for (const ReportRow& row : report.rows) {
    json cells = json::array();
    for (size_t c = 0; c < row.cells.size(); ++c) {
      const ReportCell& cell = row.cells[c];
      if (report.columns[c].unit == Unit::kText)
        cells.push_back(cell.text);
      else
        cells.push_back({{"unit", unit_name(cell.unit.value_or(report.columns[c].unit))},
                         {"ours", number_json(cell.ours)},
                         {"paper", number_json(cell.paper)}});
    }
    json out = {{"cells", cells}};
    if (!row.why_not.empty()) out["why_not"] = row.why_not;
    if (!row.next.empty()) out["next"] = row.next;
    rows.push_back(std::move(out));
  }
  return {{"result", report.name}, {"title", report.title}, {"columns", columns},
          {"rows", rows},          {"notes", report.notes}, {"plots", plots_json(report.plots)}};
}

json report_json(const Report& report, const PaperRequest& request) {
  json out = table_json(report);
  out["sources"] = json::array();
  for (const std::string& path : report.files)
    if (const MeasuredFile* file = file_of(request, path)) {
      json source = provenance_json(file->space);
      source["file"] = path;
      out["sources"].push_back(std::move(source));
    }
  return out;
}

}  // namespace ramp::cli
