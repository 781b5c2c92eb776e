// SPDX-License-Identifier: Apache-2.0
#include "lab/paper/traffic.hpp"

#include "base/statistics.hpp"
#include "problem/calibration.hpp"
#include "problem/trace_file.hpp"

namespace ramp {
namespace {

constexpr int kReplayed = 384;       // passes of a domain, the first 128 of them history only
constexpr int kConcurrency = 160;    // a closed loop that gives passes of 128 to 511 tokens
constexpr int kGeneratedLayers = 4;  // of a model: every layer is drawn alike

double median_of(const std::vector<PlacementResult>& results, const std::string& placement,
                 bool is_large) {
  for (const PlacementResult& result : results)
    if (result.placement == placement)
      for (const BalanceRow& row : result.table)
        if (row.low == 128 && (row.high > 511) == is_large) return row.median;
  return Number::kUnknown;
}

}  // namespace

double StudiedLayout::large(const std::string& placement) const {
  return median_of(placements, placement, true);
}

double StudiedLayout::middle(const std::string& placement) const {
  return median_of(placements, placement, false);
}

std::vector<StudiedLayout> study_recorded(const std::string& trace,
                                          const std::vector<std::string>& layouts) {
  const ReadTrace read = read_trace(trace);
  ReplayOptions replay;
  replay.concurrency = kConcurrency;
  const PassCounts traffic = replayed_counts(read.trace, replay, kReplayed);
  std::vector<StudiedLayout> out;
  for (const std::string& layout : layouts)
    out.push_back({layout, study_placements(traffic, parse_layout(layout))});
  return out;
}

std::vector<StudiedLayout> study_generated(const std::string& model,
                                           const std::vector<std::string>& layouts,
                                           std::uint64_t seed) {
  GenerateOptions options = table_traffic(find_model(model), find_calibration(model));
  options.layers = kGeneratedLayers;
  options.seed = seed;
  StudyOptions study;
  study.period = 128 / kTableStride;
  study.seed = seed;
  const PassCounts traffic = generated_counts(options);
  std::vector<StudiedLayout> out;
  for (const std::string& layout : layouts)
    out.push_back({layout, study_placements(traffic, parse_layout(layout), study)});
  return out;
}

double measured_imbalance(const MeasuredSpace& space, int least_tokens) {
  std::vector<double> values;
  for (const MeasuredPass& pass : space.passes) {
    if (pass.role == Role::kUniform || pass.tokens < least_tokens) continue;
    std::vector<ExpertLoad> gpus;
    for (const int load : pass.load_of_gpu)
      gpus.push_back(load < 0 ? ExpertLoad{} : space.loads[load]);
    values.push_back(imbalance_of(gpus));
  }
  return median(std::move(values));
}

}  // namespace ramp
