// SPDX-License-Identifier: Apache-2.0
// A calibration held against the paper's Tables 6 and 7.
#include <algorithm>

#include "base/statistics.hpp"
#include "problem/calibration.hpp"
#include "problem/pass_counts.hpp"
#include "problem/placement_study.hpp"
#include "problem/trace_generate.hpp"

namespace ramp {
namespace {

constexpr int kPeriod = 128 / kTableStride;  // recorded passes in 128 of the server's

double contiguous_median(const PassCounts& traffic, const Layout& layout) {
  std::vector<double> values;
  for (std::size_t p = 0; p < traffic.passes.size(); ++p) {
    if (traffic.passes[p].tokens < 128) continue;
    for (int layer = 0; layer < traffic.layers; ++layer) {
      const auto counts = traffic.of(static_cast<int>(p), layer);
      values.push_back(imbalance_of(split_load({counts.begin(), counts.end()}, layout)));
    }
  }
  return median(std::move(values));
}

// The median of passes of 128 to 511 tokens; NaN without such passes.
double table7_median(const PlacementResult& result) {
  for (const BalanceRow& row : result.table)
    if (row.low == 128 && row.high == 511) return row.median;
  return median<double>({});
}

}  // namespace

std::vector<CalibrationScore> measure_calibration(const Model& model,
                                                  const Calibration& calibration,
                                                  const ScoreOptions& options) {
  GenerateOptions generate = table_traffic(model, calibration);
  generate.passes = options.passes;
  generate.layers = std::min(options.layers, model.moe_layers);
  std::vector<CalibrationScore> out;
  const auto add = [&](const std::string& table, const std::string& column, double value) {
    auto found = std::find_if(out.begin(), out.end(), [&](const CalibrationScore& score) {
      return score.table == table && score.column == column;
    });
    if (found == out.end()) found = out.insert(out.end(), {table, column, 0, 0});
    found->generated += value / static_cast<double>(options.seeds.size());
  };
  for (const std::uint64_t seed : options.seeds) {
    generate.seed = seed;
    const PassCounts traffic = generated_counts(generate);
    for (const int gpus : {4, 8, 16, 32}) {
      if (gpus > model.shape.experts) continue;
      Layout layout;
      layout.gpus = gpus;
      add("6", "EP" + std::to_string(gpus), contiguous_median(traffic, layout));
    }
    if (model.shape.experts < 8) continue;
    Layout ep8;
    ep8.gpus = 8;
    StudyOptions study;
    study.period = kPeriod;
    study.seed = seed;
    // Group-limited routing is less even than free routing when nothing else differs.
    GenerateOptions uniform = generate;
    uniform.uniform = true;
    uniform.layers = std::min(2, generate.layers);
    for (const PlacementResult& result : study_placements(generated_counts(uniform), ep8, study))
      if (result.placement == "contiguous") add("7", "uniform", table7_median(result));
    for (const PlacementResult& result : study_placements(traffic, ep8, study))
      if (result.placement != "uniform")
        add("7", result.placement.starts_with("every") ? "every 128" : result.placement,
            table7_median(result));
  }
  for (CalibrationScore& score : out)
    for (const CalibrationScore& shipped : calibration_scores(calibration.model))
      if (shipped.table == score.table && shipped.column == score.column)
        score.paper = shipped.paper;
  return out;
}

}  // namespace ramp
