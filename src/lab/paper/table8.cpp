// SPDX-License-Identifier: Apache-2.0
// Table 8: what is left to choose when the experts are placed evenly.
#include <fmt/format.h>

#include <future>
#include <map>

#include "lab/paper/compared.hpp"
#include "lab/paper/results.hpp"
#include "lab/paper/traffic.hpp"

namespace ramp {
namespace {

constexpr std::uint64_t kSeed = 11;  // none that a calibration was fitted on

bool is_balanced(const MeasuredFile& file) {
  return file.is_ep() && (file.placement().empty() || file.placement() == "balanced");
}

}  // namespace

Report paper_table8(const PaperRequest& request) {
  const std::string trace = "trace-table";
  Report report{"table8",
                "Table 8: imbalance before and after balancing on the other domains, and the "
                "speedup of " +
                    request.choice +
                    " over the trace-tuned table under each placement, passes of 128 tokens and "
                    "more",
                {{"model"},
                 {"layout"},
                 {"imbalance contiguous", Unit::kRatio},
                 {"balanced", Unit::kRatio},
                 {"over trace-tuned, contiguous", Unit::kTimes},
                 {"balanced", Unit::kTimes},
                 {"measurements"}},
                {},
                {},
                {},
                {}};
  const std::vector<PaperRow> paper = paper_rows("8");
  std::map<std::string, std::vector<std::string>> layouts_of;
  for (const PaperRow& row : paper) layouts_of[std::string(row.model)].emplace_back(row.layout);
  std::map<std::string, std::future<std::vector<StudiedLayout>>> studying;
  for (const auto& [model, layouts] : layouts_of)
    studying[model] = std::async(std::launch::async, study_generated, model, layouts, kSeed);
  const std::vector<MatchedRow> files = match_rows(paper, request.files, is_balanced);
  const auto evaluations =
      evaluate_rows(files, {trace, request.choice, std::string(kOraclePolicy)}, request, report);
  std::map<std::string, StudiedLayout> studied;  // "olmoe ep8"
  for (auto& [model, studies] : studying)
    for (StudiedLayout& study : studies.get()) studied[model + " " + study.layout] = study;
  for (size_t r = 0; r < paper.size(); ++r) {
    const std::vector<double>& v = paper[r].values;
    const StudiedLayout& study =
        studied[std::string(paper[r].model) + " " + std::string(paper[r].layout)];
    ReportRow row{{{model_title(std::string(paper[r].model))},
                   {layout_title(std::string(paper[r].layout))},
                   {"", {study.large("contiguous")}, {v[0]}, {}},
                   {"", {study.large("offline")}, {v[1]}, {}},
                   {"", {}, {v[2]}, {}},
                   {"", {}, {v[3], v[4], v[5]}, {}},
                   {}},
                  "",
                  ""};
    for (size_t f = 0; f < files.size(); ++f) {
      if (files[f].paper != &paper[r] || !evaluations[f]) continue;
      const bool has_map = !files[f].file->placement().empty();
      row.cells[has_map ? 5 : 4].ours =
          ratio_of(*evaluations[f], trace, request.choice, request.large_batch, request);
      row.cells[6].text += (row.cells[6].text.empty() ? "" : ", ") + files[f].file->name();
    }
    const bool has_contiguous = row.cells[4].ours.is_known();
    if (!has_contiguous || !row.cells[5].ours.is_known()) {
      row.why_not = kNotMeasured;
      row.next = tune_command(std::string(paper[r].model), std::string(paper[r].layout),
                              has_contiguous ? "--placement balanced" : "");
      if (!has_contiguous) row.next += ", and again with --placement balanced";
    }
    report.rows.push_back(std::move(row));
  }
  report.notes.push_back(
      fmt::format("Imbalance: generated routing (seed {}), balanced for the other domains. A "
                  "placement's gain is measured with `--placement balanced`.",
                  kSeed));
  return report;
}

}  // namespace ramp
