// SPDX-License-Identifier: Apache-2.0
// `ramp eval`: every policy on held-out passes (Section 4.2; what the columns mean is in
// choice/evaluate.hpp).
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>
#include <memory>

#include "base/error.hpp"
#include "choice/evaluate.hpp"
#include "cli/eval_cross.hpp"
#include "cli/measured_input.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct Options {
  std::vector<std::string> measurements;
  std::string policies = "all", terms = fmt::format("{}", fmt::join(default_terms(), ","));
  EvaluateOptions evaluate;
  MenuFlags menu;
  bool cross = false, as_json = false;
};

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> names;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    names.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

json interval_json(const Interval& i) { return {number_or_null(i.low), number_or_null(i.high)}; }

json comparison_json(const Comparison& c) {
  return {{"passes", c.passes},
          {"gap", number_or_null(c.gap)},
          {"gap_interval", interval_json(c.gap_interval)},
          {"gap_time", number_or_null(c.gap_time)},
          {"speedup", number_or_null(c.speedup)},
          {"interval", interval_json(c.interval)}};
}

json json_of(const MeasuredSpace& space, const Evaluation& e, const std::vector<SizedMenu>& menus) {
  json out = {{"provenance", provenance_json(space)},
              {"baseline", e.baseline},
              {"large_batch", e.large_batch},
              {"passes",
               {{"train", e.train_passes},
                {"uniform", e.uniform_passes},
                {"test", e.test_passes},
                {"unscored", e.unscored_passes}}},
              {"coverage",
               {{"pairs", e.coverage.pairs},
                {"timed", e.coverage.timed},
                {"timed_once", e.coverage.timed_once}}},
              {"policies", json::array()},
              {"menus", json::array()}};
  for (const PolicyScore& score : e.scores) {
    json row = {{"name", score.name},
                {"summary", score.summary},
                {"sees", sight_name(score.sees)},
                {"oracle", score.sees == Sight::kTimes}};
    if (!score.unavailable.empty()) {
      row["unavailable"] = score.unavailable;
    } else {
      row["all"] = comparison_json(score.all);
      row["large"] = comparison_json(score.large);
      row["regret"] = number_or_null(score.regret);
      row["untimed"] = score.untimed;
      row["bytes"] = score.bytes;
    }
    out["policies"].push_back(std::move(row));
  }
  for (const auto& [up_to, menu] : menus) {
    json entries = json::array();
    for (size_t i = 0; i < menu.candidates.size(); ++i)
      entries.push_back({{"label", space.candidates[menu.candidates[i]].label},
                         {"loss", number_or_null(menu.loss[i])}});
    out["menus"].push_back({{"up_to", up_to == SizedMenu::kAnySize ? json(nullptr) : json(up_to)},
                            {"occupancy", menu.occupancy},
                            {"entries", entries}});
  }
  return out;
}

std::string gap_with_interval(const Comparison& c) {
  if (!std::isfinite(c.gap)) return "-";
  return fmt::format("{} [{}, {}]", percent(c.gap, 2), percent(c.gap_interval.low),
                     percent(c.gap_interval.high));
}

std::string speedup_with_interval(const Comparison& c) {
  if (!std::isfinite(c.speedup)) return "-";
  return fmt::format("{:.3f}x [{:.2f}, {:.2f}]", c.speedup, c.interval.low, c.interval.high);
}

// Names, what they see and hold, gaps, speedups.  What each policy does is in --help.
void print_scores(const Evaluation& e) {
  const std::string large = fmt::format(">={} tokens", e.large_batch);
  Table table({"<policy", "<sees", "bytes", "gap %", large, "by time", "regret %",
               "over " + e.baseline, large, "untimed", "<"});
  for (const PolicyScore& s : e.scores) {
    if (!s.unavailable.empty())
      table.add({s.name, std::string(sight_name(s.sees)), "-", "-", "-", "-", "-", "-", "-", "-",
                 "unavailable: " + s.unavailable});
    else
      table.add({s.name, std::string(sight_name(s.sees)), std::to_string(s.bytes),
                 gap_with_interval(s.all), gap_with_interval(s.large), percent(s.all.gap_time, 2),
                 percent(s.regret, 2), speedup_with_interval(s.all), speedup_with_interval(s.large),
                 std::to_string(s.untimed)});
  }
  fmt::print("{}", table.text());
}

void print_notes(const Evaluation& e) {
  fmt::print(
      "\ngap: slowest GPU of a pass over exhaustive search, geometric mean over passes [95 %]; by "
      "time: the passes' summed times;\nregret: mean over all GPUs' loads; over {}: speedup, with "
      "the same means.  Picked on one half of the samples,\ntimed on the other.  What each policy "
      "does: ramp eval --help\n",
      e.baseline);
  if (e.unscored_passes > 0)
    fmt::print(
        "note: {} test passes have a GPU that no configuration was timed on; they are left out\n",
        e.unscored_passes);
  if (e.coverage.timed_once > 0)
    fmt::print(
        "note: {} of {} pairs were timed once, so one sample both picks and scores: exhaustive "
        "search is flattered\n",
        e.coverage.timed_once, e.coverage.timed);
}

void print(const MeasuredSpace& space, const Evaluation& e, const std::vector<SizedMenu>& menus) {
  fmt::print(
      "{}\n{} candidates x {} loads, {:.0f} % of the pairs timed; fitted on {} passes, uniform {}, "
      "scored on {}\n\n",
      measured_line(space), space.candidates.size(), space.loads.size(),
      e.coverage.pairs ? 100.0 * e.coverage.timed / e.coverage.pairs : 0, e.train_passes,
      e.uniform_passes, e.test_passes);
  print_scores(e);
  print_notes(e);
  for (const auto& [up_to, menu] : menus) {
    fmt::print(
        "\nMenu{}, greedy on the training passes, occupancy class {}:\n",
        up_to == SizedMenu::kAnySize ? "" : fmt::format(" for passes of up to {} tokens", up_to),
        menu.occupancy);
    Table entries({"entries", "loss %", "<added"});
    for (size_t i = 0; i < menu.candidates.size(); ++i)
      entries.add({std::to_string(i + 1), percent(menu.loss[i], 2),
                   space.candidates[menu.candidates[i]].label});
    fmt::print("{}", entries.text());
  }
}

void run(Options options) {
  if (options.cross) return eval_cross(options.measurements, options.evaluate, options.as_json);
  if (options.measurements.size() > 1)
    throw Error("measurements", fmt::format("{} files", options.measurements.size()),
                "one, or several with --cross", "evaluate one file, or add --cross");
  const MeasuredSpace space = read_measured(options.measurements[0]);
  if (options.policies != "all") options.evaluate.policies = split_at_commas(options.policies);
  options.evaluate.policy.terms.clear();
  if (options.terms != "none") options.evaluate.policy.terms = split_at_commas(options.terms);
  options.evaluate.policy.menu = options.menu.menu(space.provenance.kernel);
  const Evaluation evaluation = evaluate(space, options.evaluate);
  const std::vector<SizedMenu> menus =
      menus_by_size(make_lesson(space, Role::kTrain, Half::kBoth), options.evaluate.policy.menu);
  if (options.as_json)
    fmt::print(
        "{}\n",
        json_of(space, evaluation, menus).dump(2, ' ', false, json::error_handler_t::replace));
  else
    print(space, evaluation, menus);
}

std::string described_terms() {
  Table table({"<", "<"});
  for (const ExtraTerm& term : extra_terms()) table.add({term.name, term.counts});
  return table.text();
}

std::string described_policies() {
  Table table({"<", "<sees", "<"});
  for (const PolicyKind& kind : policy_kinds())
    table.add({kind.name, std::string(sight_name(kind.sees)), kind.summary});
  return table.text();
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App* verb =
      app.add_subcommand("eval", "Compare ways of choosing a configuration on held-out passes");
  auto options = std::make_shared<Options>();
  verb->add_option("measurements", options->measurements, "a .rmeas of `ramp profile`")->required();
  verb->add_flag("--cross", options->cross,
                 "several files: one cost model for all layers, fitted on all models but one and "
                 "scored on that");
  verb->add_option("--policies", options->policies,
                   "all, or names from the list below, as cost-model,gpu-table")
      ->capture_default_str();
  verb->add_option("--baseline", options->evaluate.baseline, "the policy that speedups are over")
      ->capture_default_str();
  verb->add_option("--terms", options->terms,
                   "of cost-model-extended, from the list below; or none")
      ->capture_default_str();
  add_menu_flags(*verb, options->menu);
  verb->add_option("--large", options->evaluate.large_batch,
                   "tokens from which a pass counts as large")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  verb->add_option("--resamples", options->evaluate.resamples, "of the bootstrap interval")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  verb->add_option("--seed", options->evaluate.seed, "of the bootstrap interval")
      ->capture_default_str();
  verb->add_flag("--json", options->as_json, "for machines");
  verb->footer(
      "Policies (learn from the training passes, vllm-* from uniform routing; scored on held-out "
      "requests):\n" +
      described_policies() +
      "\nSees: batch, known before the launch; GPU's count and load, known on the GPU after "
      "routing; "
      "times, a bound that can't be served.\n\n"
      "Terms beside Eq. 3's fixed cost, waves, tiles and active experts:\n" +
      described_terms() +
      "\n"
      "Examples:\n"
      "  ramp eval olmoe_ep8.rmeas\n"
      "  ramp eval olmoe_ep8.rmeas --policies cost-model,gpu-table --baseline trace-table --json\n"
      "  ramp eval --cross data/h200/*.rmeas");
  verb->callback([options] { run(*options); });
}

}  // namespace ramp::cli
