// SPDX-License-Identifier: Apache-2.0
#include "cli/eval_cross.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "choice/held_out_layer.hpp"
#include "cli/measured_input.hpp"
#include "cli/table.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

constexpr const char* kPolicies[] = {"cost-model", "cost-model-weighted", "cost-model-cross"};

json score_json(const PolicyScore& score) {
  if (!score.unavailable.empty()) return {{"unavailable", score.unavailable}};
  return {
      {"gap", number_or_null(score.all.gap)},
      {"gap_interval",
       {number_or_null(score.all.gap_interval.low), number_or_null(score.all.gap_interval.high)}},
      {"passes", score.all.passes},
      {"large_gap", number_or_null(score.large.gap)},
      {"large_passes", score.large.passes},
      {"regret", number_or_null(score.regret)},
      {"untimed", score.untimed}};
}

json json_of(const std::vector<MeasuredSpace>& spaces, const std::vector<HeldOutLayer>& layers) {
  json rows = json::array(), mean;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const HeldOutLayer& layer = layers[i];
    json others = json::array(), scores;
    for (const MeasuredSpace* other : layer.others)
      others.push_back(other->provenance.model + " " + other->provenance.layout);
    for (const char* policy : kPolicies)
      scores[policy] = score_json(score_of(layer.evaluation, policy));
    rows.push_back({{"provenance", provenance_json(spaces[i])},
                    {"fitted_on", others},
                    {"candidates", spaces[i].candidates.size()},
                    {"known", layer.known},
                    {"known_by_one", layer.known_by_one},
                    {"policies", scores},
                    {"rank",
                     {{"own", number_or_null(layer.own.rank_large)},
                      {"cross", number_or_null(layer.cross.rank_large)},
                      {"two_runs", number_or_null(layer.cross.twin_large)}}}});
  }
  for (const char* policy : kPolicies) mean[policy] = number_or_null(mean_gap(layers, policy));
  return {{"layers", rows}, {"mean_gap", mean}};
}

std::string gap_text(const Comparison& c) {
  return fmt::format("{} [{}, {}]", percent(c.gap), percent(c.gap_interval.low),
                     percent(c.gap_interval.high));
}

std::string rank_text(double rank) { return std::isnan(rank) ? "-" : fmt::format("{:.3f}", rank); }

void print(const std::vector<MeasuredSpace>& spaces, const std::vector<HeldOutLayer>& layers,
           int large_batch) {
  const std::string large = fmt::format(">={}", large_batch);
  Table table({"<held out", "known", "passes", "cross gap %", large, "regret %", "own gap %", large,
               "regret %", "weighted", "rank", "own", "two runs", "untimed"});
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const HeldOutLayer& layer = layers[i];
    const Provenance& p = spaces[i].provenance;
    const PolicyScore &own = score_of(layer.evaluation, "cost-model"),
                      &weighted = score_of(layer.evaluation, "cost-model-weighted"),
                      &cross = score_of(layer.evaluation, kCrossPolicy);
    if (!cross.unavailable.empty()) {
      table.add({p.model + " " + p.layout, "unavailable: " + cross.unavailable});
      continue;
    }
    table.add({p.model + " " + p.layout,
               fmt::format("{} of {}", layer.known, spaces[i].candidates.size()),
               fmt::format("{} ({})", cross.all.passes, cross.large.passes), gap_text(cross.all),
               percent(cross.large.gap), percent(cross.regret), percent(own.all.gap),
               percent(own.large.gap), percent(own.regret), percent(weighted.all.gap),
               rank_text(layer.cross.rank_large), rank_text(layer.own.rank_large),
               rank_text(layer.cross.twin_large), std::to_string(cross.untimed)});
  }
  table.add({"geometric mean", "", "", percent(mean_gap(layers, kCrossPolicy), 2), "", "",
             percent(mean_gap(layers, "cost-model"), 2), "", "",
             percent(mean_gap(layers, "cost-model-weighted"), 2)});
  fmt::print("{}", table.text());
  fmt::print(
      "\ncross: cost-model-cross, fitted on the other models' files alone; own and weighted: "
      "cost-model and\ncost-model-weighted, fitted on this one.  rank: correlation of predicted "
      "and measured order, {} tokens and\nmore, of cross, own, and of two halves of the samples.  "
      "known: configurations that the others timed;\nall pick among those that this file times "
      "often enough.  untimed: passes left out because a pick was not.\n",
      large_batch);
}

}  // namespace

void eval_cross(const std::vector<std::string>& files, const EvaluateOptions& options,
                bool as_json) {
  std::vector<MeasuredSpace> spaces;
  for (const std::string& file : files) spaces.push_back(read_measured(file));
  std::vector<const MeasuredSpace*> all;
  for (const MeasuredSpace& space : spaces) all.push_back(&space);
  std::vector<HeldOutLayer> layers;
  for (const MeasuredSpace& space : spaces) layers.push_back(score_held_out(space, all, options));
  if (as_json)
    fmt::print("{}\n", json_of(spaces, layers).dump(2, ' ', false, json::error_handler_t::replace));
  else
    print(spaces, layers, options.large_batch);
}

}  // namespace ramp::cli
