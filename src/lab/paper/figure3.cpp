// SPDX-License-Identifier: Apache-2.0
// Figures 3 and 4: what arrives at a layer.  The batch changes on every pass of an open loop, and
// inside one pass every layer routes differently.  Generated routing of the paper's model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/statistics.hpp"
#include "lab/paper/results.hpp"
#include "problem/calibration.hpp"
#include "problem/imbalance.hpp"
#include "problem/pass_counts.hpp"

namespace ramp {
namespace {

constexpr const char* kModel = "qwen3-30b";
constexpr const char* kLayout = "ep8";
constexpr double kRate = 10;      // requests a second, where there is no arrival trace
constexpr int kPasses = 800;      // Figure 3
constexpr int kTokens = 211;      // Figure 4: the paper's pass
constexpr int kConcurrent = 211;  // a pass without a prompt decodes one token of each

std::vector<ExpertLoad> gpus_of(const PassCounts& counts, int pass, int layer) {
  const auto load = counts.of(pass, layer);
  return split_load({load.begin(), load.end()}, parse_layout(kLayout));
}

void note_calibration(Report& report, const GenerateOptions& options) {
  const std::string label = routing_label(generated_info(options));
  report.notes.push_back(label);
  report.notes.push_back(calibration_note(label));
}

ReportRow summary_row(const std::string& what, std::vector<double> values, const Number& paper) {
  std::sort(values.begin(), values.end());
  ReportRow row{{{what}}, "", ""};
  for (const double q : {0.0, 0.5, 0.9, 1.0})
    row.cells.push_back({"", {quantile_of_sorted<double>(values, q)}, {}, {}});
  if (paper.is_known()) row.cells.back().paper = paper;
  return row;
}

Series series_of(const std::string& name, Series::Kind kind, std::vector<double> y) {
  Series series{name, kind, std::vector<double>(y.size()), std::move(y), {}, {}};
  std::iota(series.x.begin(), series.x.end(), 0.0);
  return series;
}

std::vector<ReportColumn> summary_columns() {
  return {{"over"},
          {"least", Unit::kRatio},
          {"median", Unit::kRatio},
          {"90 %", Unit::kRatio},
          {"most", Unit::kRatio}};
}

}  // namespace

Report paper_figure3(const PaperRequest& request) {
  GenerateOptions options;
  options.model = find_model(kModel);
  options.calibration = find_calibration(kModel);
  options.domains = {"chat"};
  options.concurrency.clear();
  options.repeats = 1;
  options.passes = kPasses;
  options.stride = 1;
  options.burst_share = 0;
  options.layers = 4;
  options.seed = request.seed;
  ArrivalTrace arrivals;
  if (request.arrivals.empty()) {
    options.rates = {kRate};
  } else {
    arrivals = read_arrivals(request.arrivals);
    options.arrivals = &arrivals;
  }
  const PassCounts counts = generated_counts(options);
  std::vector<double> tokens, imbalance;
  int large = 0;
  for (size_t p = 0; p < counts.passes.size(); ++p) {
    tokens.push_back(counts.passes[p].tokens);
    large += counts.passes[p].tokens >= request.large_batch;
    std::vector<double> layers;
    for (int layer = 0; layer < counts.layers; ++layer)
      layers.push_back(imbalance_of(gpus_of(counts, static_cast<int>(p), layer)));
    imbalance.push_back(median(std::move(layers)));
  }
  Report report{"figure3",
                "Figure 3: the batch changes on every forward pass; " + model_title(kModel) + ", " +
                    layout_title(kLayout),
                summary_columns(),
                {},
                {},
                {},
                {}};
  report.rows.push_back(summary_row("tokens of a pass", tokens, {}));
  for (ReportCell& cell : report.rows[0].cells) cell.unit = Unit::kCount;
  report.rows.push_back(summary_row("most loaded GPU over the mean", imbalance, {}));
  report.notes.push_back(fmt::format(
      "{} passes of an open loop, {}, a pass takes {} ms; {:.0f} % of them carry {} tokens and "
      "more. The paper prints no number for this figure.",
      counts.passes.size(),
      options.arrivals ? "arrivals and lengths of " + arrivals.name
                       : fmt::format("Poisson at {} requests/s", kRate),
      options.pass_ms, 100.0 * large / static_cast<double>(counts.passes.size()),
      request.large_batch));
  note_calibration(report, options);
  Panel batch{"batch", "forward pass", "tokens", false, true, {}, {}, {}};
  batch.series.push_back(series_of("tokens of the pass", Series::Kind::kLine, tokens));
  batch.levels.push_back(
      {fmt::format("{} tokens", request.large_batch), static_cast<double>(request.large_batch)});
  Panel balance{
      "balance on EP8", "forward pass", "most loaded GPU over the mean", false, false, {}, {}, {}};
  balance.series.push_back(series_of("median of layers", Series::Kind::kLine, imbalance));
  balance.levels.push_back({"perfectly even", 1});
  report.plots.push_back({report.title, {batch, balance}});
  return report;
}

Report paper_figure4(const PaperRequest& request) {
  GenerateOptions options = table_traffic(find_model(kModel), find_calibration(kModel));
  options.domains = {"chat"};
  options.concurrency = {kConcurrent};
  options.passes = 16;
  options.seed = request.seed;
  const PassCounts counts = generated_counts(options);
  int nearest = 0;
  for (size_t p = 0; p < counts.passes.size(); ++p)
    if (std::abs(counts.passes[p].tokens - kTokens) <
        std::abs(counts.passes[nearest].tokens - kTokens))
      nearest = static_cast<int>(p);
  std::vector<double> most, least;
  for (int layer = 0; layer < counts.layers; ++layer) {
    const std::vector<ExpertLoad> gpus = gpus_of(counts, nearest, layer);
    long long total = 0, fewest = pairs_of(gpus[0]);
    for (const ExpertLoad& gpu : gpus)
      total += pairs_of(gpu), fewest = std::min(fewest, pairs_of(gpu));
    most.push_back(imbalance_of(gpus));
    least.push_back(static_cast<double>(fewest) * gpus.size() / static_cast<double>(total));
  }
  Report report{
      "figure4",
      fmt::format("Figure 4: one forward pass of {} tokens on {}, layer by layer; {}",
                  counts.passes[nearest].tokens, layout_title(kLayout), model_title(kModel)),
      summary_columns(),
      {},
      {},
      {},
      {}};
  report.rows.push_back(summary_row("most loaded GPU over the mean", most, {2.0}));
  report.rows.push_back(summary_row("least loaded GPU over the mean", least, {}));
  report.rows.back().cells[1].paper.value = 0.33;
  report.notes.push_back(fmt::format(
      "The paper's pass has {} tokens; it says up to twice the mean, and under a third of it.",
      kTokens));
  note_calibration(report, options);
  Panel panel{
      "GPUs of one pass", "MoE layer", "tokens over the mean GPU", false, false, {}, {}, {}};
  panel.series.push_back(series_of("most loaded GPU", Series::Kind::kLine, most));
  panel.series.push_back(series_of("least loaded GPU", Series::Kind::kLine, least));
  panel.levels.push_back({"perfectly even", 1});
  report.plots.push_back({report.title, {panel}});
  return report;
}

}  // namespace ramp
