// SPDX-License-Identifier: Apache-2.0
// Tables 6 and 7: how unevenly routing falls on the GPUs, by layout and by placement.  No kernel is
// needed, so they are of generated routing (its calibration's scores, or generated again), of a
// recorded trace, and of the passes that files were measured on.
#include <fmt/format.h>

#include <functional>

#include "lab/paper/results.hpp"
#include "lab/paper/traffic.hpp"
#include "problem/calibration.hpp"
#include "problem/catalog.hpp"
#include "problem/trace_file.hpp"

namespace ramp {
namespace {

const std::vector<std::string> kLayouts = {"EP4", "EP8", "EP16", "EP32"};
const std::vector<std::string> kPlacements = {"uniform", "contiguous", "offline", "every 128"};

std::vector<CalibrationScore> scores_of(const std::string& model, const PaperRequest& request) {
  if (!request.regenerate) return calibration_scores(model);
  return measure_calibration(find_model(model), find_calibration(model));
}

// A row a calibrated model.  Models that the paper has no row for stand there too: its "-" says so.
void add_generated(Report& report, const std::string& table,
                   const std::vector<std::string>& columns, const PaperRequest& request) {
  for (const Calibration& calibration : calibrations()) {
    ReportRow row{{{model_title(calibration.model)}}, "", ""};
    const std::vector<CalibrationScore> scores = scores_of(calibration.model, request);
    for (const std::string& column : columns) {
      ReportCell cell;
      for (const CalibrationScore& score : scores) {
        if (score.table != table || score.column != column) continue;
        cell.ours.value = score.generated;
        if (score.paper > 0) cell.paper.value = score.paper;
      }
      row.cells.push_back(cell);
    }
    row.cells.push_back({"generated"});
    report.rows.push_back(std::move(row));
  }
}

void add_recorded(
    Report& report, const PaperRequest& request, const std::vector<std::string>& layouts,
    const std::function<std::vector<double>(const std::vector<StudiedLayout>&)>& values) {
  if (request.trace.empty()) return;
  ReportRow row{{{model_title(read_trace(request.trace).trace.info.model)}}, "", ""};
  for (const double value : values(study_recorded(request.trace, layouts)))
    row.cells.push_back({"", {value}, {}, {}});
  row.cells.push_back({"recorded, replayed in a closed loop of a domain"});
  report.rows.push_back(std::move(row));
}

void add_how(Report& report, const PaperRequest& request) {
  report.notes.push_back(
      fmt::format("Generated routing is fitted to the paper's figures, so these rows are the "
                  "calibration's scores and no independent result: {}. Median over layers and "
                  "passes.",
                  request.regenerate ? "generated and counted again now"
                                     : "as computed for this version (--regenerate: again, now)"));
}

}  // namespace

Report paper_table6(const PaperRequest& request) {
  Report report{"table6",
                "Table 6: most loaded GPU's tokens over the mean, passes of 128 tokens and more, "
                "contiguous placement",
                {{"model"}},
                {},
                {},
                {},
                {}};
  for (const std::string& layout : kLayouts) report.columns.push_back({layout, Unit::kRatio});
  report.columns.push_back({"routing"});
  add_generated(report, "6", kLayouts, request);
  add_recorded(report, request, {"ep4", "ep8", "ep16", "ep32"},
               [](const std::vector<StudiedLayout>& studied) {
                 std::vector<double> values;
                 for (const StudiedLayout& s : studied) values.push_back(s.large("contiguous"));
                 return values;
               });
  for (const MeasuredFile& file : request.files) {
    if (!file.is_ep() || !file.placement().empty()) continue;
    ReportRow row{{{model_title(file.space.provenance.model)}}, "", ""};
    for (const std::string& layout : kLayouts) {
      ReportCell cell;
      if (layout == layout_title(file.base_layout()))
        cell.ours.value = measured_imbalance(file.space, request.large_batch);
      row.cells.push_back(cell);
    }
    row.cells.push_back({"the passes of " + file.name()});
    report.rows.push_back(std::move(row));
    report.files.push_back(file.path);
  }
  add_how(report, request);
  report.notes.push_back(
      "Campaigns sample passes evenly over sizes up to 4,096 tokens, with bursts of few requests' "
      "prompts, which are less even than decoding: their rows may lie above.");
  return report;
}

Report paper_table7(const PaperRequest& request) {
  Report report{"table7",
                "Table 7: most loaded GPU's tokens over the mean on EP8 by placement, passes of "
                "128 to 511 tokens",
                {{"model"}},
                {},
                {},
                {},
                {}};
  for (const std::string& placement : kPlacements)
    report.columns.push_back({placement, Unit::kRatio});
  report.columns.push_back({"routing"});
  add_generated(report, "7", kPlacements, request);
  add_recorded(report, request, {"ep8"}, [](const std::vector<StudiedLayout>& studied) {
    std::vector<double> values;
    for (const std::string& placement : kPlacements) values.push_back(studied[0].middle(placement));
    return values;
  });
  add_how(report, request);
  return report;
}

}  // namespace ramp
