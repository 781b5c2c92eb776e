// SPDX-License-Identifier: Apache-2.0
// Claims about policies: speedups, gaps, menus, tables that move to another layout.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "choice/statistics.hpp"
#include "lab/paper/claims.hpp"

namespace ramp {
namespace {

const std::string kOracle(kOraclePolicy);

// One number a layout.
std::vector<double> by_layout(const ClaimInput& input, std::string_view slow, std::string_view fast,
                              int least_tokens, double less = 0,
                              const std::function<bool(const MeasuredFile&)>& belongs = nullptr) {
  std::vector<double> out;
  for (size_t i = 0; i < input.files.size(); ++i) {
    if (belongs && !belongs(*input.files[i])) continue;
    const Evaluation& e = *input.evaluations[i];
    const std::vector<double> logs =
        log_ratios(e.tokens, score_of(e, slow).times, score_of(e, fast).times, least_tokens);
    if (!logs.empty()) out.push_back(exp_mean(logs) - less);
  }
  return out;
}

Number most_of(const std::vector<double>& values) {
  return values.empty() ? Number{} : Number{*std::max_element(values.begin(), values.end())};
}

Number mean_over_layouts(const ClaimInput& input, std::string_view slow, std::string_view fast,
                         int least_tokens) {
  OverLayouts mean;
  for (const auto& e : input.evaluations) mean.add(*e, slow, fast, least_tokens);
  return mean.mean(input.request);
}

}  // namespace

void answer_choice(const ClaimInput& input, ClaimAnswers& answers) {
  const std::string &choice = input.request.choice, vllm(kVllmPolicy);
  const int large = input.request.large_batch;
  const std::vector<double> gaps = by_layout(input, choice, kOracle, 0, 1);
  const std::string layouts = fmt::format("{} EP layouts", gaps.size());
  answers["speedup-large"] = {most_of(by_layout(input, vllm, choice, large)), layouts};
  answers["speedup-all"] = {most_of(by_layout(input, vllm, choice, 0)), layouts};
  answers["gap-worst"] = {most_of(gaps), layouts};
  if (!gaps.empty())
    answers["gap-under-2"] = {{static_cast<double>(std::count_if(
                                  gaps.begin(), gaps.end(), [](double g) { return g <= 0.02; }))},
                              fmt::format("of {}; the paper's are of 14", gaps.size())};
  answers["over-trace"] = {spanning(by_layout(input, "trace-table", choice, 0)), layouts};
  answers["layer-choice"] = {spanning(by_layout(input, vllm, choice, large)),
                             "expert kernel; the paper's is the layer"};
  answers["room-all"] = {
      spanning(by_layout(input, vllm, kOracle, 0, 0,
                         [](const MeasuredFile& f) { return f.base_layout() == "ep8"; })),
      "EP8 files, passes sampled evenly over sizes"};
  answers["gpu-table-near"] = {most_of(by_layout(input, "gpu-table", choice, 0)), layouts};
  answers["spread-large"] = {
      most_of(by_layout(input, "gpu-table", choice, large, 0,
                        [](const MeasuredFile& f) { return f.space.gpus >= 16; })),
      "EP16 and more"};
  answers["tile-formula"] = {minus_one(mean_over_layouts(input, "tile-formula", kOracle, large)),
                             layouts};
  answers["eq3-gap"] = {minus_one(mean_over_layouts(input, "cost-model", kOracle, large)), layouts};
  std::vector<double> tables, all;
  for (const char* table : {"gpu-padding", "gpu-active", "gpu-peak", "gpu-variation"})
    tables.push_back(mean_over_layouts(input, table, kOracle, large).value - 1);
  for (const std::string_view policy : {"gpu-table", "gpu-padding", "gpu-active", "gpu-peak",
                                        "gpu-variation", "gpu-3d", "neighbors-8", "cost-model"})
    all.push_back(mean_over_layouts(input, policy, kOracle, 0).value - 1);
  answers["tables-best"] = {spanning(tables), layouts};
  answers["tables-all"] = {{spanning(all).high}, "geometric mean over layouts"};
  double regret = 0;
  for (const auto& e : input.evaluations) regret += score_of(*e, choice).regret;
  if (!input.evaluations.empty())
    answers["regret"] = {{regret / static_cast<double>(input.evaluations.size())},
                         "mean over the GPUs of all passes, then over layouts"};
  answers["static"] = {mean_over_layouts(input, vllm, choice, 0),
                       "over vLLM's tuning, all batches, geometric mean"};

  Report ignored;
  const std::vector<MatchedRow> tp =
      match_rows({}, input.request.files, [](const MeasuredFile& f) { return !f.is_ep(); });
  std::vector<double> over_trace;
  for (const auto& e : evaluate_rows(tp, {"trace-table", choice, kOracle}, input.request, ignored))
    if (e) over_trace.push_back(ratio_of(*e, "trace-table", choice, 0, input.request).value);
  answers["tp-trace"] = {spanning(over_trace), fmt::format("{} TP layouts", over_trace.size())};
}

void answer_menus(const ClaimInput& input, ClaimAnswers& answers) {
  const int large = input.request.large_batch;
  const std::string menu(kMenuPolicy), vllm(kVllmPolicy);
  const std::string layouts = fmt::format("{} EP layouts", input.files.size());
  answers["six-table"] = {mean_over_layouts(input, "menu-table", menu, large), layouts};
  answers["six-best"] = {minus_one(mean_over_layouts(input, menu, "menu-exhaustive", large)),
                         layouts};
  answers["six-vllm"] = {mean_over_layouts(input, vllm, menu, large), layouts};
  answers["six-full"] = {minus_one(mean_over_layouts(input, menu, kOracle, large)), layouts};

  // The same choice among six against among twelve.
  std::vector<std::vector<double>> logs;
  PaperRequest twelve{};
  twelve.menu = input.request.menu;
  twelve.menu.entries = 12;
  std::vector<MatchedRow> rows;
  for (const MeasuredFile* file : input.files) rows.push_back({"", "", nullptr, file});
  Report ignored;
  const auto evaluations = evaluate_rows(rows, {menu, kOracle}, twelve, ignored);
  for (size_t i = 0; i < rows.size(); ++i)
    if (evaluations[i]) {
      const Evaluation& six = *input.evaluations[i];
      logs.push_back(log_ratios(six.tokens, score_of(six, menu).times,
                                score_of(*evaluations[i], menu).times, large));
    }
  const Interval interval =
      bootstrap_exp_mean_of_groups(logs, input.request.resamples, input.request.seed);
  answers["menu-12"] = {minus_one({exp_mean_of_groups(logs), interval.low, interval.high}),
                        fmt::format("expert kernel, held-out passes of {} tokens and more", large)};
}

void answer_moved(const ClaimInput& input, ClaimAnswers& answers) {
  OverLayouts own, other;
  int moves = 0;
  for (size_t to = 0; to < input.files.size(); ++to) {
    bool has_other = false;
    for (const MeasuredFile* from : input.files) {
      const MeasuredFile& at = *input.files[to];
      if (from->space.provenance.model != at.space.provenance.model ||
          from->base_layout() == at.base_layout())
        continue;
      EvaluateOptions options;
      options.policies = {"gpu-table", kOracle};
      options.resamples = 1;
      options.learn_from = &from->space;
      try {
        other.add(evaluate(at.space, options), "gpu-table", kOracle, input.request.large_batch);
      } catch (const Error&) {
        continue;  // its passes are not timed well enough to learn from
      }
      ++moves, has_other = true;
    }
    if (has_other) own.add(*input.evaluations[to], "gpu-table", kOracle, input.request.large_batch);
  }
  const std::string how =
      fmt::format("{} moves, passes of {} tokens and more", moves, input.request.large_batch);
  answers["moved-own"] = {minus_one(own.mean(input.request)), how};
  answers["moved-other"] = {minus_one(other.mean(input.request)), how};
}

}  // namespace ramp
