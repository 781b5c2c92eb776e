// SPDX-License-Identifier: Apache-2.0
// A run's page: policies beside each other, the cost model on held-out loads, and which
// configurations win where.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "lab/page/run_findings.hpp"
#include "lab/paper/figure6.hpp"
#include "lab/paper/winners.hpp"
#include "problem/load.hpp"

namespace ramp {
namespace {

constexpr double kLeastShown = 0.001;  // of a gap, on a logarithmic axis
constexpr size_t kMostPoints = 1500;   // of a cloud: more make a large page and say nothing new

Series gap_series(const Evaluation& e, const std::string& name, double offset,
                  Comparison PolicyScore::*of) {
  Series series{name, Series::Kind::kPoints, {}, {}, {}, {}};
  double place = 0;
  for (const PolicyScore& s : e.scores) {
    if (s.name == kOraclePolicy || !s.unavailable.empty()) continue;
    const Comparison& c = s.*of;
    const auto shown = [](double gap) { return 100 * std::max(gap, kLeastShown); };
    series.x.push_back(place++ + offset);
    series.y.push_back(std::isfinite(c.gap) ? shown(c.gap) : Number::kUnknown);
    series.low.push_back(shown(c.gap_interval.low)),
        series.high.push_back(shown(c.gap_interval.high));
  }
  return series;
}

Panel gaps_panel(const Evaluation& e) {
  Panel panel{"Gap to exhaustive search, with its 95 % interval", "", "% slower, logarithmic",
              false, true};
  panel.series = {gap_series(e, "all passes", -0.0, &PolicyScore::all),
                  gap_series(e, fmt::format("passes of {} tokens and more", e.large_batch), 0.25,
                             &PolicyScore::large)};
  for (const PolicyScore& s : e.scores)
    if (s.name != kOraclePolicy && s.unavailable.empty()) panel.categories.push_back(s.name);
  return panel;
}

ReportRow policy_row(const PolicyScore& s) {
  ReportRow row{{text_cell(s.name), text_cell(std::string(sight_name(s.sees)))}, "", ""};
  if (!s.unavailable.empty()) {
    row.cells.resize(10);
    row.why_not = "unavailable: " + s.unavailable;
    return row;
  }
  row.cells.insert(
      row.cells.end(),
      {number_cell(static_cast<double>(s.bytes)), number_cell(s.all.gap, s.all.gap_interval),
       number_cell(s.large.gap, s.large.gap_interval), number_cell(s.all.gap_time),
       number_cell(s.regret), number_cell(s.all.speedup, s.all.interval),
       number_cell(s.large.speedup, s.large.interval), number_cell(s.untimed)});
  return row;
}

Panel heights_panel(const MeasuredSpace& space) {
  Panel panel{"Rows a tile of the fastest configuration", "token-expert pairs of the GPU",
              "rows a tile", true, true};
  Series series{"a load", Series::Kind::kPoints, {}, {}, {}, {}};
  const TimeTable us = median_times(space, Half::kBoth);
  for (int load = 0; load < static_cast<int>(space.loads.size()); ++load) {
    const auto timed =
        std::count_if(us.begin(), us.end(), [&](const auto& row) { return is_time(row[load]); });
    // Where few were timed, the fastest of them is no winner.
    if (4 * timed < static_cast<long>(us.size())) continue;
    for (const int rows : winning_rows(space, us, std::span(&load, 1)))
      series.x.push_back(static_cast<double>(pairs_of(space.loads[load]))),
          series.y.push_back(rows);
  }
  if (!series.x.empty()) panel.series.push_back(std::move(series));
  return panel;
}

void thin_out(Series& series) {
  if (series.kind != Series::Kind::kPoints || series.x.size() <= kMostPoints) return;
  const size_t stride = (series.x.size() + kMostPoints - 1) / kMostPoints;
  Series kept = series;
  kept.x.clear(), kept.y.clear();
  for (size_t i = 0; i < series.x.size(); i += stride)
    kept.x.push_back(series.x[i]), kept.y.push_back(series.y[i]);
  series = std::move(kept);
}

}  // namespace

PageSection policies_section(const RunFindings& found) {
  PageSection section{.id = "policies", .title = "Ways of choosing"};
  if (!found.evaluation) {
    section.says = {"No policy could be scored: " + found.not_scored + "."};
    return section;
  }
  const Evaluation& e = *found.evaluation;
  section.says = {
      "Every policy learned from training passes and chose on passes of other requests. It picked "
      "on one half of the samples and was timed on the other; exhaustive search too."};
  const std::string large = fmt::format(">= {} tokens", e.large_batch);
  Report report{.name = "policies", .title = "Policies on held-out passes"};
  report.columns = {{"policy"},
                    {"sees"},
                    {"bytes", Unit::kCount},
                    {"gap %", Unit::kPercent},
                    {large, Unit::kPercent},
                    {"by time", Unit::kPercent},
                    {"regret %", Unit::kPercent},
                    {"over " + e.baseline, Unit::kTimes},
                    {large, Unit::kTimes},
                    {"untimed", Unit::kCount}};
  for (const PolicyScore& score : e.scores) report.rows.push_back(policy_row(score));
  report.plots.push_back({"", {gaps_panel(e)}});
  report.notes = {fmt::format(
      "Gap: slowest GPU of a pass over exhaustive search, geometric mean over passes, with its 95 "
      "% "
      "bootstrap interval; by time: of the passes' summed times. Regret: chosen over best, mean "
      "over all GPUs' loads. Over {}: speedup. Untimed: passes left out because the pick was not "
      "timed. Sees: the batch is known before the launch, a GPU's count and load after routing; "
      "times are a bound that can't be served.",
      e.baseline)};
  if (e.unscored_passes > 0)
    report.notes.push_back(fmt::format(
        "{} of {} held-out passes have a GPU that no configuration was timed on; they are left "
        "out.",
        e.unscored_passes, e.test_passes));
  if (e.coverage.timed_once > 0)
    report.notes.push_back(
        fmt::format("{} of {} pairs were timed once: exhaustive search is flattered there.",
                    e.coverage.timed_once, e.coverage.timed));
  section.parts = {std::move(report)};
  return section;
}

PageSection fit_section(const RunFindings& found) {
  const FitQuality& q = found.fit;
  PageSection section{.id = "model", .title = "How well the cost model predicts"};
  section.says = {
      q.held_out ? "Fitted on training passes, held against passes of other requests. Nothing "
                   "can rank better than two runs of the same thing agree."
                 : "There are no held-out passes: held against the training passes themselves, "
                   "which flatters it."};
  Report report{.name = "fit", .title = "Predicted against measured"};
  report.columns = {{"passes"},
                    {"loads", Unit::kCount},
                    {"rank correlation", Unit::kRank},
                    {"two runs", Unit::kRank}};
  report.rows = {
      {{text_cell("all"), number_cell(q.loads_all), number_cell(q.rank_all),
        number_cell(q.twin_all)},
       "",
       ""},
      {{text_cell(fmt::format("{} tokens and more", found.asked.evaluate.large_batch)),
        number_cell(q.loads_large), number_cell(q.rank_large), number_cell(q.twin_large)},
       "",
       ""}};
  report.notes = {fmt::format(
      "Spearman's, between the model's order of the configurations and the measured one, per load, "
      "median over loads; {:.0f} configurations a load in the median. A prediction is {} % off in "
      "the median, that of the configuration which is picked {} %.",
      q.candidates_a_load, text_of({q.median_error}, Unit::kPercent),
      text_of({q.pick_error}, Unit::kPercent))};
  try {
    std::vector<Panel> panels = cost_model_panels(found.space, found.asked.evaluate.large_batch);
    for (Panel& panel : panels)
      for (Series& series : panel.series) thin_out(series);
    report.plots.push_back({"", std::move(panels)});
    report.notes.push_back(
        fmt::format("Clouds of more than {} points are shown thinned.", kMostPoints));
  } catch (const Error& e) {
    report.notes.push_back(std::string("No plot: ") + e.what() + ".");
  }
  section.parts = {std::move(report)};
  return section;
}

PageSection winners_section(const RunFindings& found) {
  PageSection section{.id = "winners", .title = "Which configurations win"};
  section.says = {
      "How many different configurations are fastest on some GPU of a pass, and how many would do "
      "if each GPU may be 1 % slower than its fastest: winners that lie closer than two runs of "
      "the same thing are noise."};
  Report report{.name = "winners", .title = "Distinct winners by tokens of the pass"};
  report.columns = {{"tokens"},
                    {"passes", Unit::kCount},
                    {"winners a pass", Unit::kMean},
                    {"within 1 %", Unit::kMean},
                    {"one is enough, % of passes", Unit::kPercent},
                    {"winners of all passes", Unit::kCount},
                    {"within 1 %", Unit::kCount}};
  Panel panel{"Configurations that the passes of a range need", "tokens of the pass",
              "configurations"};
  panel.series = {{"fastest on some load", Series::Kind::kBars, {}, {}, {}, {}},
                  {"enough within 1 %", Series::Kind::kBars, {}, {}, {}, {}}};
  for (int range = 0; range < kSizeRanges; ++range) {
    const int least = range ? kSizeLimits[range - 1] + 1 : 1,
              most = range + 1 < kSizeRanges ? kSizeLimits[range] : kMaxPairs;
    const WinnerCount count = count_winners(found.space, least, most);
    if (count.exact.empty()) continue;
    report.rows.push_back(
        {{text_cell(size_range_text(range)), number_cell(static_cast<double>(count.exact.size())),
          number_cell(mean(count.exact)), number_cell(mean(count.close)),
          number_cell(count.one_close), number_cell(count.all_exact), number_cell(count.all_close)},
         "",
         ""});
    const double place = static_cast<double>(panel.categories.size());
    panel.categories.push_back(size_range_text(range));
    panel.series[0].x.push_back(place), panel.series[0].y.push_back(count.all_exact);
    panel.series[1].x.push_back(place), panel.series[1].y.push_back(count.all_close);
  }
  if (report.rows.empty()) {
    section.says.push_back("No pass was timed with a quarter of the configurations on every GPU.");
    return section;
  }
  report.notes = {
      "Recorded and generated passes, training and held out, all of whose loads were timed with a "
      "quarter of the configurations and more."};
  report.plots.push_back({"", {std::move(panel), heights_panel(found.space)}});
  section.parts = {std::move(report)};
  return section;
}

}  // namespace ramp
