// SPDX-License-Identifier: Apache-2.0
// A run's page: what was measured, how much of it, and how to do it again.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "lab/page/run_findings.hpp"
#include "problem/calibration.hpp"

namespace ramp {
namespace {

std::string or_unknown(const std::string& text) { return text.empty() ? "unknown" : text; }

std::string share_text(long long part, long long all) {
  return all ? fmt::format("{:.0f} %", 100.0 * static_cast<double>(part) / static_cast<double>(all))
             : "none";
}

std::string clocks_text(const CampaignRecord& record) {
  if (record.median_mhz == 0) return "unknown";
  return fmt::format("SM at {:.0f} MHz in the median, {:.0f} to {:.0f} in 98 % of the samples",
                     record.median_mhz, record.low_mhz, record.high_mhz);
}

std::string device_code(const RunFindings& found) {
  const std::string& sources = found.space.provenance.sources;
  if (found.asked.file.is_imported())
    return "of another kernel: " + or_unknown(found.space.provenance.kernel);
  if (sources.empty()) return "unknown";
  return fmt::format("{} ({})", sources,
                     found.is_simulated() ? "simulated"
                     : found.is_stale()   ? "this program's is another: " + found.asked.sources
                                          : "the same as this program's");
}

std::map<ConfigStatus, int> by_status(const std::vector<TimedConfig>& configs) {
  std::map<ConfigStatus, int> count;
  for (const TimedConfig& config : configs) ++count[config.status];
  return count;
}

// Those that were never timed, and why.
Report left_out(const std::vector<TimedConfig>& configs) {
  Report report{.name = "left_out", .title = "Configurations that were not timed"};
  report.columns = {{"configuration"}, {"status"}, {"reason"}};
  for (const TimedConfig& config : configs)
    if (config.status != ConfigStatus::kOk)
      report.rows.push_back({{text_cell(config.candidate.label),
                              text_cell(status_name(config.status)), text_cell(config.reason)},
                             "",
                             ""});
  return report;
}

// Held-out passes of a range: how many there are, and how many exhaustive search has a time for.
struct HeldOut {
  int passes = 0, scored = 0;
};
HeldOut held_out(const RunFindings& found, int range) {
  HeldOut out;
  if (!found.evaluation) return out;
  const PassTimes& best = score_of(*found.evaluation, kOraclePolicy).times;
  const std::vector<int>& tokens = found.evaluation->tokens;
  for (size_t p = 0; p < tokens.size(); ++p) {
    if (size_range(tokens[p]) != range) continue;
    ++out.passes;
    out.scored += is_time(best.us[0][p]) && is_time(best.us[1][p]);
  }
  return out;
}

Report sizes_report(const RunFindings& found) {
  Report report{.name = "coverage", .title = "By tokens of the pass"};
  report.columns = {{"tokens"},
                    {"training passes", Unit::kCount},
                    {"loads", Unit::kCount},
                    {"... timed", Unit::kCount},
                    {"pairs timed %", Unit::kPercent},
                    {"held-out passes", Unit::kCount},
                    {"... scored", Unit::kCount},
                    {"remark"}};
  Panel panel{"How much of each range was timed", "tokens of the pass", "pairs timed, %"};
  panel.series.push_back({"", Series::Kind::kBars, {}, {}, {}, {}});
  for (const SizeCoverage& s : found.sizes) {
    const HeldOut test = held_out(found, s.range);
    const double share =
        s.all_pairs ? static_cast<double>(s.pairs) / static_cast<double>(s.all_pairs) : 0;
    report.rows.push_back({{text_cell(size_range_text(s.range)), number_cell(s.passes),
                            number_cell(s.all_loads), number_cell(s.loads), number_cell(share),
                            number_cell(test.passes), number_cell(test.scored),
                            text_cell(s.is_thin()    ? "thin: a menu rests on little here"
                                      : s.is_uniform ? "uniform draws, no training pass"
                                                     : "")},
                           "",
                           ""});
    panel.series[0].x.push_back(static_cast<double>(panel.categories.size()));
    panel.series[0].y.push_back(100 * share);
    panel.categories.push_back(size_range_text(s.range));
  }
  report.notes.push_back(fmt::format(
      "Loads: what one GPU receives in one training pass, each once. Timed: with {} configurations "
      "and more. A pair is a configuration on a load. Scored: every GPU of the pass has a time.",
      kLeastRivals));
  if (!panel.categories.empty()) report.plots.push_back({"", {std::move(panel)}});
  return report;
}

}  // namespace

PageSection measured_section(const RunFindings& found) {
  const MeasuredSpace& space = found.space;
  const Provenance& p = space.provenance;
  const CampaignRecord& campaign = found.asked.campaign;
  const bool is_recorded = p.routing.starts_with("recorded");
  PageSection section{.id = "measured", .title = "What was measured"};
  section.facts = {{"Model", fmt::format("{} ({})", model_title(p.model), or_unknown(p.model))},
                   {"Layout", fmt::format("{}, {} GPUs", or_unknown(p.layout), space.gpus)},
                   {"One GPU holds",
                    fmt::format("{} experts, top {}, d {}, h {}", space.shape.experts,
                                space.shape.top_k, space.shape.hidden, space.shape.intermediate)},
                   {"Routing", or_unknown(p.routing)},
                   {"Scored on", held_out_of(space)},
                   {"GPU", or_unknown(p.gpu) + (found.is_simulated() ? " (SIMULATED)" : "")},
                   {"Driver, compiler", or_unknown(p.driver) + ", " + or_unknown(p.toolkit)},
                   {"Clocks", clocks_text(campaign)},
                   {"Date, commit", or_unknown(p.date) + ", " + or_unknown(p.commit)},
                   {"Device code", device_code(found)},
                   {"How", or_unknown(p.how)},
                   {"Samples", fmt::format("{}, {} more were throttled and dropped",
                                           campaign.samples, campaign.dropped)},
                   {"File", found.asked.file.name()},
                   {"Hash of its content", space_hash(space)}};
  if (const std::string note = calibration_note(p.routing); !note.empty())
    section.facts.insert(section.facts.begin() + 4, {"Calibration", note});
  if (!campaign.options.empty())
    section.facts.insert(
        section.facts.end() - 2,
        {"Campaign", campaign.options + (campaign.end.empty() ? "" : "; ended: " + campaign.end)});
  section.says.push_back(
      is_recorded ? "The routing was recorded: expert ids of real requests."
      : found.is_generated()
          ? "The routing is generated, calibrated to the imbalance that the paper reports for this "
            "model; how well it meets it stands below."
          : "Where the routing comes from is not said in the file.");
  return section;
}

PageSection coverage_section(const RunFindings& found) {
  const Coverage& all = found.coverage;
  PageSection section{.id = "coverage", .title = "How much was measured"};
  std::map<ConfigStatus, int> count = by_status(found.asked.configs);
  std::string statuses = fmt::format("{} timed", count[ConfigStatus::kOk]);
  for (const auto& [status, configs] : count)
    if (status != ConfigStatus::kOk && configs > 0)
      statuses += fmt::format(", {} {}", configs, status_name(status));
  const auto passes = [&](Role role) {
    return std::count_if(found.space.passes.begin(), found.space.passes.end(),
                         [&](const MeasuredPass& pass) { return pass.role == role; });
  };
  section.facts = {
      {"Configurations", statuses},
      {"Loads", fmt::format("{}", found.space.loads.size())},
      {"Pairs timed", fmt::format("{} of {} ({}), {} of them once", all.timed, all.pairs,
                                  share_text(all.timed, all.pairs), all.timed_once)},
      {"Passes", fmt::format("{} for training, {} held out, {} uniform draws for vLLM's tuning",
                             passes(Role::kTrain), passes(Role::kTest), passes(Role::kUniform))}};
  section.parts = {sizes_report(found)};
  if (Report report = left_out(found.asked.configs); !report.rows.empty())
    section.parts.push_back(std::move(report));
  if (!found.thin.empty())
    section.says.push_back("Thin: " + found.thin +
                           ". Measure more: `ramp tune` with more --minutes.");
  return section;
}

PageSection again_section(const RunFindings& found) {
  const RunRequest& asked = found.asked;
  const Provenance& p = found.space.provenance;
  const std::string& file = asked.file.path;
  PageSection section{.id = "again", .title = "Do it again"};
  section.says = {
      "The first command makes this page again, the next ones its parts on their own; the last "
      "measures anew, on a Hopper GPU."};
  section.commands = {
      asked.command, "ramp eval " + file, "ramp fit " + file,
      fmt::format("ramp advise {} --present {} --choice {}", file, asked.present, asked.choice),
      asked.plan ? "ramp plan show " + asked.plan_path
                 : "ramp plan make " + file + " -o plan.json"};
  if (p.routing.starts_with("recorded"))
    section.commands.push_back(
        fmt::format("ramp profile --model {} --layout {} --trace TRACE.rtrace -o NEW.rmeas",
                    p.model, p.layout));
  else if (!asked.file.is_imported() && found.is_generated())
    section.commands.push_back(tune_command(p.model, asked.file.base_layout()));
  section.facts = {
      {"Measurements", space_hash(found.space)},
      {"Device code", p.sources.empty() ? "unknown" : p.sources},
      {"Plan", found.plan && !found.plan->identity.empty() ? found.plan->identity
                                                           : "made here, not written to a file"},
      {"Page", asked.program + ", " + asked.today}};
  return section;
}

}  // namespace ramp
