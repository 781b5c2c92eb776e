// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/compared.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ramp {
namespace {

// One column over the layouts; of the paper's, the rows that are measured here.
struct ColumnMean {
  OverLayouts ours;
  std::vector<double> paper;
};

Number paper_number(const ComparedColumn& column, const PaperRow* row) {
  if (!row || column.paper < 0) return {};
  const double* values = row->values.data() + column.paper;
  if (column.is_gap) return {values[0] / 100};
  return column.paper_has_interval ? Number{values[0], values[1], values[2]} : Number{values[0]};
}

std::vector<std::string> policies_of(const ComparedTable& table) {
  std::vector<std::string> names;
  for (const ComparedColumn& column : table.columns)
    for (const std::string& name : {column.slow, column.fast})
      if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
  return names;
}

ReportRow mean_row(const ComparedTable& table, const std::vector<ColumnMean>& means,
                   const PaperRequest& request) {
  int layouts = 0;
  for (const ColumnMean& mean : means) layouts = std::max(layouts, mean.ours.layouts());
  ReportRow row{{{"geometric mean"}, {fmt::format("{} layouts", layouts)}}, "", ""};
  for (size_t c = 0; c < means.size(); ++c) {
    ReportCell cell{"", means[c].ours.mean(request), {exp_mean_of(means[c].paper)}, {}};
    if (table.columns[c].is_gap)
      cell.ours = minus_one(cell.ours), cell.paper = minus_one(cell.paper);
    row.cells.push_back(cell);
  }
  row.cells.push_back({});
  return row;
}

}  // namespace

Report compared(const ComparedTable& table, const PaperRequest& request) {
  Report report{table.name, table.title, {{"model"}, {"layout"}}, {}, {}, {}, {}};
  for (const ComparedColumn& column : table.columns)
    report.columns.push_back({column.name, column.is_gap ? Unit::kPercent : Unit::kTimes});
  report.columns.push_back({"scored on (large)"});
  const std::vector<PaperRow> paper = paper_rows(table.paper);
  const std::vector<MatchedRow> rows = match_rows(paper, request.files, table.belongs);
  const auto evaluations = evaluate_rows(rows, policies_of(table), request, report);

  std::vector<ColumnMean> means(table.columns.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    const Evaluation* e = evaluations[r].get();
    ReportRow row{{{model_title(rows[r].model)}, {layout_title(rows[r].layout)}}, "", ""};
    for (size_t c = 0; c < table.columns.size(); ++c) {
      const ComparedColumn& column = table.columns[c];
      ReportCell cell{"", {}, paper_number(column, rows[r].paper), {}};
      if (e && !column.slow.empty()) {
        const int least = column.is_large ? request.large_batch : 0;
        cell.ours = ratio_of(*e, column.slow, column.fast, least, request);
        means[c].ours.add(*e, column.slow, column.fast, least);
        if (cell.paper.is_known() && cell.ours.is_known())
          means[c].paper.push_back(cell.paper.value + (column.is_gap ? 1 : 0));
        if (column.is_gap) cell.ours = minus_one(cell.ours);
      }
      row.cells.push_back(cell);
    }
    row.cells.push_back({e ? scored_on(*rows[r].file, *e, request) : ""});
    if (!e) {
      row.why_not = kNotMeasured;
      row.next = tune_command(rows[r].model, rows[r].layout, table.flags);
    }
    report.rows.push_back(std::move(row));
  }
  if (!report.files.empty()) {
    report.rows.push_back(mean_row(table, means, request));
    report.notes.push_back(
        "Geometric mean: the paper's is over those of its rows that are measured here. Brackets: "
        "95 % bootstrap interval over passes.");
  }
  report.notes.push_back(
      "Every policy picks on one half of the samples and is timed on the other, exhaustive search "
      "too.");
  report.notes.insert(report.notes.end(), table.notes.begin(), table.notes.end());
  return report;
}

}  // namespace ramp
