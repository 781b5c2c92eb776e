// SPDX-License-Identifier: Apache-2.0
// The first version's performance regions: which class of configurations wins on each of eight
// shapes, said before measuring, and scored on whatever is measured.
#include "choice/regions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "choice/batch_table.hpp"
#include "lab/paper/compared.hpp"
#include "lab/paper/results.hpp"
#include "problem/catalog.hpp"
#include "problem/layout.hpp"
#include "problem/random.hpp"

namespace ramp {
namespace {

struct Shape {
  const char* model;
  bool is_formed_on;  // its measured winners were looked at while the rules were written
};
constexpr Shape kShapes[] = {{"olmoe", true},     {"qwen3-30b", true},  {"dsv2-lite", true},
                             {"qwen2-57b", true}, {"qwen35-35b", true}, {"deepseek-v3", false},
                             {"phi35", false},    {"mixtral", false}};
constexpr const char* kLayout = "ep8";
constexpr int kShownTokens[] = {1, 16, 64, 128, 256, 512, 1024, 4096};

// Uniform routing of one pass, the GPU with the most pairs.
std::vector<int> uniform_load(const Model& model, const Layout& layout, int tokens) {
  Random random(1, tokens);
  std::vector<int> counts(model.shape.experts, 0), order(model.shape.experts);
  std::iota(order.begin(), order.end(), 0);
  for (int t = 0; t < tokens; ++t)
    for (int k = 0; k < model.shape.top_k; ++k) {
      std::swap(order[k], order[k + random.below(order.size() - k)]);
      ++counts[order[k]];
    }
  std::vector<int> most;
  for (int gpu = 0; gpu < layout.gpus; ++gpu) {
    std::vector<int> load;
    for (const int e : local_experts(layout, model.shape.experts, gpu)) load.push_back(counts[e]);
    if (most.empty() ||
        std::accumulate(load.begin(), load.end(), 0) > std::accumulate(most.begin(), most.end(), 0))
      most = load;
  }
  return most;
}

const MeasuredFile* file_of(const PaperRequest& request, const char* model) {
  for (const MeasuredFile& file : request.files)
    if (file.space.provenance.model == model && file.base_layout() == kLayout &&
        file.placement().empty())
      return &file;
  return nullptr;
}

std::string described_misses(const RegionScore& score) {
  std::map<std::pair<Region, Region>, int> kinds;
  for (const RegionMiss& miss : score.misses) ++kinds[{miss.predicted, miss.best}];
  std::vector<std::pair<int, std::pair<Region, Region>>> sorted;
  for (const auto& [kind, times] : kinds) sorted.emplace_back(times, kind);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [times, kind] : sorted)
    text += fmt::format("{}{} {} for {}", text.empty() ? "" : ", ", times, region_name(kind.first),
                        region_name(kind.second));
  return text;
}

}  // namespace

Report paper_regions(const PaperRequest& request) {
  Report report{
      "regions",
      "Performance regions from hardware constants: the class predicted to win, by tokens "
      "of a pass (uniform routing, the fullest GPU)",
      {{"model"}, {"rules"}},
      {},
      {},
      {},
      {}};
  for (const int tokens : kShownTokens) report.columns.push_back({std::to_string(tokens)});
  report.columns.push_back({"loads", Unit::kCount});
  report.columns.push_back({"within 3 %", Unit::kPercent});
  report.columns.push_back({"mean loss %", Unit::kPercent});
  const GpuSpec& gpu = find_gpu("h200");
  const Layout layout = parse_layout(kLayout);
  Plot plot{"Predicted time by class", {}};
  for (const Shape& shape : kShapes) {
    const Model& model = find_model(shape.model);
    const LocalShape local = local_shape(model.shape, layout, 0);
    Panel panel{shape.model, "tokens", "us, predicted", true, true, {}, {}, {}};
    for (int r = 0; r < kRegions; ++r)
      panel.series.push_back(
          {std::string(region_name(static_cast<Region>(r))), Series::Kind::kLine, {}, {}, {}, {}});
    ReportRow row{{{model.full_name}, {shape.is_formed_on ? "formed on" : "never seen"}}, "", ""};
    for (const int tokens : kVllmBatchSizes) {
      const auto times = predict_regions(local, uniform_load(model, layout, tokens), gpu);
      for (const RegionTime& time : times) {
        Series& series = panel.series[static_cast<int>(time.region)];
        series.x.push_back(tokens), series.y.push_back(time.us);
      }
      if (std::find(std::begin(kShownTokens), std::end(kShownTokens), tokens) !=
          std::end(kShownTokens))
        row.cells.push_back({std::string(region_name(times.front().region))});
    }
    row.cells.resize(report.columns.size());
    ReportCell* scores = &row.cells[report.columns.size() - 3];
    if (const MeasuredFile* file = file_of(request, shape.model)) {
      const RegionScore score = score_regions(file->space, gpu);
      if (score.loads > 0) {
        scores[0].ours.value = score.loads;
        scores[1].ours.value = static_cast<double>(score.hits) / score.loads;
        scores[2].ours.value = score.mean_loss;
      }
      report.files.push_back(file->path);
      if (!score.misses.empty())
        report.notes.push_back(fmt::format("{}: {} misses (predicted for fastest): {}", shape.model,
                                           score.misses.size(), described_misses(score)));
    } else {
      row.next = tune_command(shape.model, kLayout);
    }
    report.rows.push_back(std::move(row));
    plot.panels.push_back(std::move(panel));
  }
  report.plots.push_back(std::move(plot));
  report.notes.push_back(
      "within 3 %: measured loads on which the predicted class holds a configuration that near the "
      "fastest; the aim is 90 %. Predictions as they were before these files were measured: "
      "data/predictions/regions-2.csv.");
  return report;
}

}  // namespace ramp
