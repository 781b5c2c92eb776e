// SPDX-License-Identifier: Apache-2.0
// `ramp tune`: from a trace to a plan in one command: profile, fit, menu, and whether the choice is
// worth it.
#include "choice/tune.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.hpp"
#include "choice/sizes.hpp"
#include "cli/campaign.hpp"
#include "cli/device_timer.hpp"
#include "cli/measured_input.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "gpu/device.hpp"
#include "gpu/driver.hpp"
#include "lab/simulated_timer.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct Options {
  CampaignFlags campaign;
  MenuFlags menu;
  std::string from, plan;
  bool as_json = false;
};

// What the plan says of the GPU beyond its name, where this machine is the one that measured.
void describe_gpu(Plan& plan, const std::string& timer) {
  const TimerSpec spec = parse_timer(timer);
  if (spec.is_simulated || !gpu::driver_available() || spec.device >= gpu::device_count()) return;
  const gpu::DeviceInfo info = gpu::device_info(spec.device);
  if (info.name != plan.gpu.name) return;
  set_gpu(plan, {info.name, info.cc_major, info.cc_minor, info.sms,
                 static_cast<long long>(info.memory_bytes)});
}

// What a thin plan's user can do: twice the budget doubles what is timed.
std::string cure(const Options& options) {
  if (!options.from.empty()) return "go on measuring: `ramp tune` with more --minutes";
  const double minutes = std::max(1.0, std::ceil(2 * options.campaign.options.minutes));
  return fmt::format(
      "give --minutes {:g} or more (the same command goes on from here), or fewer passes "
      "(--train, --test)",
      minutes);
}

void print(const Options& options, const MeasuredSpace& space, const Plan& plan,
           const CampaignOutcome& outcome) {
  fmt::print("{}\n", measured_line(space));
  if (options.from.empty()) fmt::print("{}", report_text(outcome));
  fmt::print("\ntimed on, by pass size:\n");
  Table sizes({"<tokens", "timed passes of", "training passes", "loads", "of", "pairs", "of", "<"});
  for (const SizeCoverage& s : coverage_by_size(space))
    sizes.add({size_range_text(s.range), s.most ? fmt::format("{}-{}", s.least, s.most) : "-",
               std::to_string(s.passes), std::to_string(s.loads), std::to_string(s.all_loads),
               std::to_string(s.pairs), std::to_string(s.all_pairs),
               s.is_uniform ? "uniform draws" : ""});
  fmt::print("{}", sizes.text());
  for_each_part(plan, [](int up_to, const Plan& part) {
    fmt::print("\nmenu of {}{}, occupancy class {}:\n", part.menu.size(),
               up_to ? fmt::format(" for passes of up to {} tokens", up_to) : "",
               part.occupancy.empty() ? "unknown" : part.occupancy);
    Table table(
        {"entry", "<configuration", "fixed us", "a wave", "a tile", "an expert", "error %"});
    for (std::size_t i = 0; i < part.menu.size(); ++i) {
      const PlanEntry& e = part.menu[i];
      table.add({std::to_string(i), e.label, fmt::format("{:.2f}", e.theta.fixed),
                 fmt::format("{:.3f}", e.theta.wave), fmt::format("{:.4f}", e.theta.tile),
                 fmt::format("{:.3f}", e.theta.expert), percent(e.median_error)});
    }
    fmt::print("{}", table.text());
  });
  const PlanQuality& q = plan.quality;
  fmt::print(
      "\non {} held-out passes: gap to exhaustive search {} %; over the best single configuration "
      "{}, over vLLM's tuning {}\n",
      q.test_passes, percent(q.gap, 2), times(q.speedup_over_fixed), times(q.speedup_over_vllm));
  fmt::print(
      "predictions: {} % off in the median; rank correlation {:.3f}, of two runs of the same thing "
      "{:.3f}\n",
      percent(q.median_error), q.rank_correlation, q.rank_of_two_runs);
  fmt::print("{}\n", verdict(plan).text);
  if (const std::string thin = thin_warning(space); !thin.empty())
    fmt::print("WARNING: {}; {}\n", thin, cure(options));
  if (space.provenance.gpu == kSimulatedGpu)
    fmt::print("SIMULATED: these times are of no GPU; don't serve with this plan\n");
  fmt::print("\nplan: {}; next: ramp plan show {}\n", options.plan, options.plan);
}

json plan_json(const Plan& plan, const MeasuredSpace& space, const Options& options) {
  const PlanQuality& q = plan.quality;
  const Verdict judged = verdict(plan);
  const auto menu_json = [](const Plan& part) {
    json menu = json::array();
    for (const PlanEntry& e : part.menu)
      menu.push_back({{"label", e.label}, {"error", e.median_error}});
    return menu;
  };
  json smaller = json::array();
  for (const SizedPlan& sized : plan.smaller)
    smaller.push_back({{"up_to", sized.up_to},
                       {"occupancy", sized.plan.occupancy},
                       {"menu", menu_json(sized.plan)}});
  json sizes = json::array();
  for (const SizeCoverage& s : coverage_by_size(space))
    sizes.push_back({{"tokens", size_range_text(s.range)},
                     {"least", s.least},
                     {"most", s.most},
                     {"training_passes", s.passes},
                     {"loads", s.loads},
                     {"of_loads", s.all_loads},
                     {"pairs", s.pairs},
                     {"of_pairs", s.all_pairs},
                     {"uniform", s.is_uniform},
                     {"thin", s.is_thin()}});
  const std::string thin = thin_warning(space);
  return {
      {"sizes", sizes},
      {"warning", thin.empty() ? json(nullptr) : json(thin + "; " + cure(options))},
      {"plan", options.plan},
      {"identity", plan.identity},
      {"simulated", space.provenance.gpu == kSimulatedGpu},
      {"provenance", provenance_json(space)},
      {"occupancy", plan.occupancy},
      {"menu", menu_json(plan)},
      {"smaller", smaller},
      {"quality",
       {{"test_passes", q.test_passes},
        {"gap", number_or_null(q.gap)},
        {"speedup_over_fixed", number_or_null(q.speedup_over_fixed)},
        {"speedup_over_vllm", number_or_null(q.speedup_over_vllm)},
        {"median_error", number_or_null(q.median_error)},
        {"rank_correlation", number_or_null(q.rank_correlation)},
        {"rank_of_two_runs", number_or_null(q.rank_of_two_runs)}}},
      {"verdict", {{"worth_it", judged.worth_it}, {"known", judged.known}, {"text", judged.text}}}};
}

void run(Options& options) {
  CampaignOutcome outcome;
  if (options.from.empty()) {
    outcome = run_campaign_of(options.campaign);
  } else {
    if (!options.campaign.trace.empty() || !options.campaign.generate.empty())
      throw Error("--from", options.from, "measurements, or a trace to measure on",
                  "give one of --from, --trace and --generate");
    outcome.path = options.from;
  }
  const MeasuredSpace space = read_measured(outcome.path);
  if (options.plan.empty())
    options.plan = fmt::format("{}-{}.plan.json", space.provenance.model, space.provenance.layout);
  Plan plan = plan_of_mode(space, options.menu);
  describe_gpu(plan, options.campaign.timer);
  write_plan(options.plan, plan);
  if (!options.as_json) {
    print(options, space, plan, outcome);
    return;
  }
  json out = plan_json(plan, space, options);
  if (options.from.empty()) out["profile"] = report_json(outcome);
  fmt::print("{}\n", out.dump(2, ' ', false, json::error_handler_t::replace));
}

}  // namespace

void add_tune(CLI::App& app) {
  CLI::App* verb =
      app.add_subcommand("tune", "Measure, fit and choose a menu: from a trace to a plan");
  auto options = std::make_shared<Options>();
  add_campaign_flags(*verb, options->campaign);
  verb->add_option("--measurements", options->campaign.output,
                   "the .rmeas to write or to go on with; default MODEL-LAYOUT.rmeas");
  verb->add_option("--from", options->from, "don't measure: a finished .rmeas");
  add_menu_flags(*verb, options->menu);
  verb->add_option("-o,--output", options->plan, "the plan; default MODEL-LAYOUT.plan.json");
  verb->add_flag("--json", options->as_json, "for machines");
  verb->footer(
      "Says 'not worth it here' where the choice gains less than 1 % over the best single "
      "configuration.\n"
      "Examples:\n"
      "  ramp tune --model dsv2-lite --layout ep8 --trace data/traces/dsv2lite_esft.rtrace -o "
      "plan.json\n"
      "  ramp tune --from dsv2-lite-ep8.rmeas -o plan.json");
  verb->callback([options] { run(*options); });
}

}  // namespace ramp::cli
