// SPDX-License-Identifier: Apache-2.0
// A run's page: what choosing saves over the present policy, and the plan that serves it.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "choice/tune.hpp"
#include "lab/page/run_findings.hpp"

namespace ramp {
namespace {

constexpr int kAnySize = std::numeric_limits<int>::max();

ReportRow advice_row(const std::string& tokens, const Advice& a, int layers) {
  const double scale = std::max(1, layers);
  ReportRow row{{text_cell(tokens), number_cell(a.passes)}, "", ""};
  if (a.passes == 0) {
    row.cells.resize(8);
    row.why_not = "no held-out pass was timed for all three";
    return row;
  }
  row.cells.insert(row.cells.end(),
                   {number_cell(a.present_us), number_cell(a.choice_us), number_cell(a.best_us),
                    number_cell(a.gain, a.gain_interval),
                    number_cell(scale * a.saved_us,
                                {scale * a.saved_interval.low, scale * a.saved_interval.high}),
                    text_cell(std::string(verdict_text(a.verdict)))});
  return row;
}

std::vector<Panel> gain_panels(const RunFindings& found) {
  Panel us{"Slowest GPU of a pass, mean", "tokens of the pass", "us a layer"};
  us.series = {{"present: " + found.asked.present, Series::Kind::kBars, {}, {}, {}, {}},
               {"choice: " + found.asked.choice, Series::Kind::kBars, {}, {}, {}, {}},
               {"exhaustive search", Series::Kind::kBars, {}, {}, {}, {}}};
  Panel gain{"Time that the choice saves, with its 95 % interval", "tokens of the pass",
             "% of the present's time"};
  gain.series = {{"", Series::Kind::kBars, {}, {}, {}, {}}};
  for (const Advice& a : found.advised->ranges) {
    if (a.passes == 0) continue;
    const double place = static_cast<double>(us.categories.size());
    const double values[] = {a.present_us, a.choice_us, a.best_us};
    for (size_t s = 0; s < us.series.size(); ++s)
      us.series[s].x.push_back(place), us.series[s].y.push_back(values[s]);
    Series& bars = gain.series[0];
    bars.x.push_back(place), bars.y.push_back(100 * a.gain);
    bars.low.push_back(100 * a.gain_interval.low), bars.high.push_back(100 * a.gain_interval.high);
    us.categories.push_back(tokens_text(a.least, a.most));
    gain.categories.push_back(us.categories.back());
  }
  gain.levels = {
      {fmt::format("worth it from here: {:.0f} %", 100 * kWorthwhileGain), 100 * kWorthwhileGain}};
  if (us.categories.empty()) return {};
  return {std::move(us), std::move(gain)};
}

// Each menu of the plan against exhaustive search on the passes that it serves.
Report costs_report(const RunFindings& found) {
  Report report{.name = "menu_costs", .title = "What the menus cost, on held-out passes"};
  report.columns = {{"tokens"},
                    {"passes", Unit::kCount},
                    {"plan us", Unit::kUs},
                    {"exhaustive us", Unit::kUs},
                    {"plan, % slower", Unit::kPercent},
                    {"best entry of the menu, % slower", Unit::kPercent}};
  const PlanTimes& times = *found.plan_times;
  const PassTimes& best = score_of(*found.evaluation, kOraclePolicy).times;
  const auto add = [&](const std::string& name, int least, int most) {
    const EvaluateOptions& options = found.asked.evaluate;
    const GapOfSizes chosen = gap_between(times.tokens, times.chosen, best, least, most, options),
                     entry =
                         gap_between(times.tokens, times.best_entry, best, least, most, options);
    ReportRow row{{text_cell(name), number_cell(chosen.passes)}, "", ""};
    if (chosen.passes == 0) {
      row.cells.resize(6);
      row.why_not = "no held-out pass was timed for all that the plan picks";
    } else {
      row.cells.insert(row.cells.end(),
                       {number_cell(chosen.slow_us), number_cell(chosen.fast_us),
                        ReportCell{"", chosen.gap, {}, {}}, ReportCell{"", entry.gap, {}, {}}});
    }
    report.rows.push_back(std::move(row));
  };
  int least = 1;
  for (const SizedPlan& sized : found.plan->smaller) {
    add(tokens_text(least, sized.up_to), least, sized.up_to);
    least = sized.up_to + 1;
  }
  if (least > 1) add(tokens_text(least, kAnySize), least, kAnySize);
  add("all", 0, kAnySize);
  report.notes = {
      "Slowest GPU of a pass, the plan's own coefficients and menus. The best entry of the menu is "
      "what serving these few costs; the rest of the plan's gap is what choosing among them "
      "costs."};
  return report;
}

Report menu_report(const RunFindings& found, int least, int up_to, const Plan& part, size_t place) {
  Report report{.name = fmt::format("menu_{}", place + 1)};
  report.title = fmt::format("Menu {}: passes of {} token{}, occupancy class {}", place + 1,
                             tokens_text(least, up_to ? up_to : kAnySize), up_to == 1 ? "" : "s",
                             part.occupancy.empty() ? "unknown" : part.occupancy);
  report.columns = {{"configuration"},
                    {"rows x columns / slots"},
                    {"runs on %", Unit::kPercent},
                    {"fixed us", Unit::kRatio},
                    {"a wave us", Unit::kRank},
                    {"a tile us", Unit::kRank},
                    {"an expert us", Unit::kRank},
                    {"error %", Unit::kPercent},
                    {"registers", Unit::kCount},
                    {"shared KB", Unit::kCount}};
  double loads = 0;
  for (const int runs : found.plan_times->runs[place]) loads += runs;
  for (size_t i = 0; i < part.menu.size(); ++i) {
    const PlanEntry& e = part.menu[i];
    const auto or_none = [](double value, bool is_known) {
      return number_cell(is_known ? value : Number::kUnknown);
    };
    report.rows.push_back(
        {{text_cell(e.label), text_cell(grid_words(e.grid)),
          or_none(found.plan_times->runs[place][i] / loads, loads > 0), number_cell(e.theta.fixed),
          number_cell(e.theta.wave), number_cell(e.theta.tile), number_cell(e.theta.expert),
          number_cell(e.median_error), or_none(e.registers, e.registers > 0),
          or_none(e.smem_bytes / 1024.0, e.smem_bytes > 0)},
         "",
         ""});
  }
  return report;
}

}  // namespace

PageSection gains_section(const RunFindings& found) {
  const RunRequest& asked = found.asked;
  PageSection section{.id = "gains", .title = "Is it worth it?"};
  if (!found.advised) {
    section.says = {"Nothing can be said: " + found.not_advised + "."};
    return section;
  }
  section.facts = {{"Present", asked.present + ": " + policy_kind(asked.present).summary},
                   {"Choice", asked.choice + ": " + policy_kind(asked.choice).summary}};
  for (const std::string& name : {asked.present, asked.choice})
    if (policy_kind(name).oracle())
      section.says.push_back(name +
                             " looks at the times themselves: a bound, nothing can serve it.");
  const bool has_layers = asked.layers > 0;
  Report report{.name = "gains", .title = "By tokens of the pass"};
  report.columns = {{"tokens"},
                    {"passes", Unit::kCount},
                    {"present us", Unit::kUs},
                    {"choice us", Unit::kUs},
                    {"exhaustive us", Unit::kUs},
                    {"gain %", Unit::kPercent},
                    {has_layers ? "saved us a step" : "saved us a layer", Unit::kUs},
                    {"verdict"}};
  for (const Advice& a : found.advised->ranges)
    report.rows.push_back(advice_row(tokens_text(a.least, a.most), a, asked.layers));
  report.rows.push_back(advice_row("all", found.advised->all, asked.layers));
  report.notes = {fmt::format(
      "us: a layer on the slowest GPU of a held-out pass, mean over passes. Gain: share of the "
      "present's time, geometric mean over passes. Worth it: the interval above 0 and {:.0f} % or "
      "more, on {} passes or more. {}Experts are only a part of a step: attention, the exchange "
      "between GPUs and the host are not in it.",
      100 * kWorthwhileGain, kFewestPasses,
      has_layers ? fmt::format("A step: {} layers with experts. ", asked.layers) : "")};
  if (found.advised->all.left_out > 0)
    report.notes.push_back(fmt::format(
        "{} more held-out passes are left out: not timed for what each of the three picks.",
        found.advised->all.left_out));
  if (std::vector<Panel> panels = gain_panels(found); !panels.empty())
    report.plots.push_back({"", std::move(panels)});
  section.parts = {std::move(report)};
  return section;
}

PageSection plan_section(const RunFindings& found) {
  PageSection section{.id = "plan", .title = "The plan"};
  if (!found.plan) {
    section.says = {"No plan can be made of this: " + found.no_plan + "."};
    return section;
  }
  const Plan& plan = *found.plan;
  section.says = {
      (found.asked.plan ? "The plan of " + found.asked.plan_path + ". "
                        : std::string("What `ramp plan make` makes of these measurements. ")) +
      "A graph of a batch size holds the kernel of its menu; the routing picks the entry, on the "
      "GPU."};
  const Verdict said = verdict(plan);
  section.facts = {{"Against one configuration", said.text},
                   {"Menus", fmt::format("{}, mode {}", plan.smaller.size() + 1, plan.mode)}};
  if (found.asked.plan) {
    section.facts.push_back({"Identity", plan.identity});
    section.facts.push_back(
        {"Made", plan.provenance.planned_on + " by " + plan.provenance.planned_by});
  }
  if (found.evaluation) section.parts.push_back(costs_report(found));
  int least = 1;
  size_t place = 0;
  for_each_part(plan, [&](int up_to, const Plan& part) {
    section.parts.push_back(menu_report(found, least, up_to, part, place++));
    least = up_to + 1;
  });
  section.parts.back().notes = {
      "Predicted us = fixed + waves x a wave + tiles x a tile + active experts x an expert (Eq. "
      "3); "
      "error: of the fit, median. Runs on: the share of held-out loads of these sizes."};
  return section;
}

}  // namespace ramp
