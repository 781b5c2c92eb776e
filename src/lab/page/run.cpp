// SPDX-License-Identifier: Apache-2.0
#include "lab/page/run.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "choice/tune.hpp"
#include "lab/page/run_findings.hpp"
#include "lab/simulated_timer.hpp"

namespace ramp {
namespace {

constexpr int kAnySize = std::numeric_limits<int>::max();

std::string percent(double fraction) { return text_of(Number{fraction}, Unit::kPercent) + " %"; }

std::string in_brackets(const Number& number) {
  return fmt::format("[{}, {}]", text_of({number.low}, Unit::kPercent),
                     text_of({number.high}, Unit::kPercent));
}

Headline worth_it(const RunFindings& found) {
  Headline out{"Worth it, against " + found.asked.present, "can't be said", found.not_advised};
  if (!found.advised) return out;
  std::string worth, slower;
  int judged = 0, yes = 0;
  for (const Advice& a : found.advised->ranges) {
    judged += a.verdict != GainVerdict::kTooFewPasses;
    yes += a.verdict == GainVerdict::kWorthIt;
    std::string& list = a.verdict == GainVerdict::kSlower ? slower : worth;
    if (a.verdict == GainVerdict::kWorthIt || a.verdict == GainVerdict::kSlower)
      list += (list.empty() ? "" : ", ") + tokens_text(a.least, a.most);
  }
  if (judged == 0) return out.more = "too few held-out passes of every size", out;
  const Advice& all = found.advised->all;
  out.value = yes == 0 ? "No" : yes == judged ? "Yes" : "For some sizes";
  out.kind = yes == 0 ? Headline::Kind::kBad : Headline::Kind::kGood;
  out.more = (worth.empty() ? "" : "passes of " + worth + " tokens. ") +
             (slower.empty() ? "" : "Slower at " + slower + ". ") +
             fmt::format("Time saved over all: {} {}", percent(all.gain),
                         in_brackets({all.gain, all.gain_interval.low, all.gain_interval.high}));
  return out;
}

Headline plan_gap(const RunFindings& found) {
  Headline out{"The plan, slower than exhaustive search", "can't be said", found.no_plan};
  if (found.no_plan.empty()) out.more = found.not_scored;
  if (!found.plan_times || !found.evaluation) return out;
  const GapOfSizes all = gap_between(found.plan_times->tokens, found.plan_times->chosen,
                                     score_of(*found.evaluation, kOraclePolicy).times, 0, kAnySize,
                                     found.asked.evaluate);
  if (all.passes == 0) return out.more = "no held-out pass was timed for all that it picks", out;
  out.value = percent(all.gap.value);
  out.more = fmt::format("{} over {} held-out passes", in_brackets(all.gap), all.passes);
  return out;
}

std::vector<std::string> warnings_of(const RunFindings& found) {
  std::vector<std::string> out;
  const RunRequest& asked = found.asked;
  if (found.is_simulated())
    out.push_back("SIMULATED times, not measured: nothing on this page says anything about a GPU.");
  if (asked.file.is_imported())
    out.push_back("The times are of a kernel that is not ramp's, read from a table.");
  if (found.is_generated())
    out.push_back(
        "Routing is generated, not recorded: measure on a trace of yours before you act.");
  if (found.is_stale())
    out.push_back(
        "Measured with other device code than this program's: its kernels may be faster or slower. "
        "Measure again before you serve.");
  if (!found.thin.empty()) out.push_back("Thinly measured: " + found.thin + ".");
  if (!asked.plan) return out;
  const Plan& plan = *asked.plan;
  if (plan.edited) out.push_back("The plan was edited: its identity does not match what it holds.");
  if (plan.provenance.measurements != space_hash(found.space))
    out.push_back("The plan was made of other measurements than these.");
  if (found.plan_times && !found.plan_times->not_measured.empty())
    out.push_back(fmt::format("The plan holds configurations that these measurements do not: {}.",
                              fmt::join(found.plan_times->not_measured, ", ")));
  for (const std::string& warning : plan.warnings) out.push_back("The plan: " + warning + ".");
  return out;
}

// Evaluates once for all sections.
void score(RunFindings& found) {
  const RunRequest& asked = found.asked;
  EvaluateOptions options = asked.evaluate;
  options.policies.clear();
  try {
    found.evaluation = evaluate(found.space, options);
  } catch (const Error& e) {
    found.not_scored = found.not_advised = e.what();
    return;
  }
  for (const std::string& name : {asked.present, asked.choice})
    if (const std::string& why = score_of(*found.evaluation, name).unavailable; !why.empty())
      found.not_advised = fmt::format("{} can't learn from this file: {}", name, why);
  if (found.not_advised.empty())
    found.advised =
        advise(*found.evaluation, asked.present, asked.choice, options.resamples, options.seed);
}

void find_plan(RunFindings& found) {
  const RunRequest& asked = found.asked;
  if (asked.plan) {
    found.plan_times = time_plan(found.space, *asked.plan);
    found.plan = asked.plan;
    return;
  }
  try {
    found.plan = tune_from(found.space, asked.evaluate.policy.menu);
    found.plan_times = time_plan(found.space, *found.plan);
  } catch (const Error& e) {
    found.no_plan = e.what();
  }
}

}  // namespace

bool RunFindings::is_simulated() const { return space.provenance.gpu == kSimulatedGpu; }
bool RunFindings::is_generated() const { return space.provenance.routing.starts_with("generated"); }
bool RunFindings::is_stale() const {
  return !asked.file.is_imported() && !is_simulated() && !space.provenance.sources.empty() &&
         space.provenance.sources != asked.sources;
}

RunFindings find(const RunRequest& request) {
  RunFindings found{.asked = request, .space = request.file.space};
  found.coverage = coverage(found.space);
  found.sizes = coverage_by_size(found.space);
  found.thin = thin_warning(found.space);
  found.fit = fit_quality(found.space, request.evaluate.large_batch);
  score(found);
  find_plan(found);
  return found;
}

GapOfSizes gap_between(const std::vector<int>& tokens, const PassTimes& slow, const PassTimes& fast,
                       int least, int most, const EvaluateOptions& options) {
  std::vector<int> kept;
  PassTimes a, b;
  std::vector<double> slow_us, fast_us;
  for (size_t p = 0; p < tokens.size(); ++p) {
    const auto is_timed = [&](const PassTimes& t) {
      return is_time(t.us[0][p]) && is_time(t.us[1][p]);
    };
    if (tokens[p] < least || tokens[p] > most || !is_timed(slow) || !is_timed(fast)) continue;
    kept.push_back(tokens[p]);
    for (int d = 0; d < 2; ++d) a.us[d].push_back(slow.us[d][p]), b.us[d].push_back(fast.us[d][p]);
    slow_us.push_back((static_cast<double>(slow.us[0][p]) + slow.us[1][p]) / 2);
    fast_us.push_back((static_cast<double>(fast.us[0][p]) + fast.us[1][p]) / 2);
  }
  const std::vector<double> logs = log_ratios(kept, a, b, 0);
  GapOfSizes out{static_cast<int>(logs.size()), {}, mean(slow_us), mean(fast_us)};
  if (logs.empty()) return out;
  const Interval ratio = bootstrap_exp_mean(logs, options.resamples, options.seed);
  out.gap = {exp_mean(logs) - 1, ratio.low - 1, ratio.high - 1};
  return out;
}

std::string tokens_text(int least, int most) {
  if (most >= kMaxPairs) return fmt::format("{} and more", least);
  return least == most ? std::to_string(least) : fmt::format("{}-{}", least, most);
}

ReportCell text_cell(std::string text) { return {std::move(text), {}, {}, {}}; }
ReportCell number_cell(double value) { return {"", {value}, {}, {}}; }
ReportCell number_cell(double value, const Interval& interval) {
  if (std::isnan(value)) return {};
  return {"", {value, interval.low, interval.high}, {}, {}};
}

Page run_page(const RunRequest& request) {
  const RunFindings found = find(request);
  const Provenance& p = found.space.provenance;
  Page page;
  page.title =
      model_title(p.model) + " on " + (p.layout.empty() ? "one GPU" : layout_title(p.layout));
  page.subtitle = fmt::format("Choosing the expert kernel's configuration: {} on {}, {}",
                              found.is_simulated() ? "SIMULATED, not measured," : "measured",
                              p.gpu.empty() ? "an unknown GPU" : p.gpu,
                              p.date.empty() ? "date unknown" : p.date);
  page.warnings = warnings_of(found);
  Number over_peers;
  std::optional<PageSection> layers = layers_section(found, &over_peers);
  const double timed = found.coverage.pairs ? static_cast<double>(found.coverage.timed) /
                                                  static_cast<double>(found.coverage.pairs)
                                            : 0;
  page.headlines = {
      worth_it(found), plan_gap(found),
      Headline{"Rank correlation of the cost model", text_of({found.fit.rank_all}, Unit::kRank),
               fmt::format("two runs of the same thing reach {}; pairs timed: {:.0f} %",
                           text_of({found.fit.twin_all}, Unit::kRank), 100 * timed)}};
  if (over_peers.is_known())
    page.headlines.push_back(
        {"Whole layer, over the best of the others", text_of({over_peers.value}, Unit::kTimes),
         fmt::format("geometric mean [{:.2f}, {:.2f}]", over_peers.low, over_peers.high)});
  page.sections = {gains_section(found),    plan_section(found),    policies_section(found),
                   fit_section(found),      winners_section(found), coverage_section(found),
                   measured_section(found), again_section(found)};
  if (layers) page.sections.insert(page.sections.begin() + 2, std::move(*layers));
  page.footer = fmt::format("Written by {} on {} from {}.", request.program, request.today,
                            request.file.name());
  return page;
}

}  // namespace ramp
