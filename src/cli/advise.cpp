// SPDX-License-Identifier: Apache-2.0
// `ramp advise`: is choosing worth it on this layout and traffic?  What a choice saves over the
// present policy, by range of pass size and per output token, with its uncertainty.
#include "choice/advise.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.hpp"
#include "cli/measured_input.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "lab/simulated_timer.hpp"
#include "problem/catalog.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string measurements, present{kVllmPolicy}, choice{kMenusPolicy};
  MenuFlags menu;
  int layers = 0;  // of the model, with routed experts; 0: unknown
  bool layers_from_catalog = false;
  int resamples = 2000;
  std::uint64_t seed = 1;
  bool as_json = false;
};

bool is_simulated(const MeasuredSpace& space) { return space.provenance.gpu == kSimulatedGpu; }
bool is_generated(const MeasuredSpace& space) {
  return space.provenance.routing.starts_with("generated");
}

void require_learned(const std::string& flag, const Evaluation& evaluation,
                     const std::string& name) {
  const std::string& why = score_of(evaluation, name).unavailable;
  if (!why.empty())
    throw Error(flag, name + ", which can't learn from this file (" + why + ")",
                "a policy that can", "`ramp eval FILE` shows which");
}

std::string sizes(const Advice& a) {
  if (a.most == a.least) return std::to_string(a.least);
  return a.most > kMaxPairs ? fmt::format("{}+", a.least) : fmt::format("{}-{}", a.least, a.most);
}

std::string us(double value) { return std::isfinite(value) ? fmt::format("{:.1f}", value) : "-"; }

std::string saved_with_interval(const Advice& a, double layers) {
  if (a.passes == 0) return "-";
  return fmt::format("{:.1f} [{:.1f}, {:.1f}]", layers * a.saved_us, layers * a.saved_interval.low,
                     layers * a.saved_interval.high);
}

std::string gain_with_interval(const Advice& a) {
  if (a.passes == 0) return "-";
  return fmt::format("{} [{}, {}]", percent(a.gain), percent(a.gain_interval.low),
                     percent(a.gain_interval.high));
}

json json_of(const Advice& a, int layers) {
  const auto scaled = [&](double value) {
    return layers > 0 ? number_or_null(layers * value) : json(nullptr);
  };
  return {
      {"tokens", sizes(a)},
      {"passes", a.passes},
      {"left_out", a.left_out},
      {"present_us", number_or_null(a.present_us)},
      {"choice_us", number_or_null(a.choice_us)},
      {"exhaustive_us", number_or_null(a.best_us)},
      {"gain", number_or_null(a.gain)},
      {"gain_interval",
       {number_or_null(a.gain_interval.low), number_or_null(a.gain_interval.high)}},
      {"saved_us_a_step", scaled(a.saved_us)},
      {"saved_us_a_step_interval", {scaled(a.saved_interval.low), scaled(a.saved_interval.high)}},
      {"worth_it", a.verdict == GainVerdict::kTooFewPasses
                       ? json(nullptr)
                       : json(a.verdict == GainVerdict::kWorthIt)},
      {"verdict", verdict_text(a.verdict)}};
}

json json_of_policy(const std::string& name) {
  const PolicyKind& kind = policy_kind(name);
  return {{"name", kind.name},
          {"summary", kind.summary},
          {"sees", sight_name(kind.sees)},
          {"oracle", kind.oracle()}};
}

json json_of(const MeasuredSpace& space, const Advised& advised, const Options& o) {
  json all = json_of(advised.all, o.layers);
  all["tokens"] = "all";
  json out = {{"provenance", provenance_json(space)},
              {"simulated", is_simulated(space)},
              {"generated_routing", is_generated(space)},
              {"present", json_of_policy(o.present)},
              {"choice", json_of_policy(o.choice)},
              {"layers", o.layers > 0 ? json(o.layers) : json(nullptr)},
              {"ranges", json::array()},
              {"all", all}};
  for (const Advice& a : advised.ranges) out["ranges"].push_back(json_of(a, o.layers));
  return out;
}

void print_table(const Advised& advised, const Options& o) {
  Table table({"tokens", "passes", "present us", "choice us", "exhaustive us", "gain % [95 %]",
               o.layers > 0 ? "saved us a step" : "saved us a layer", "<verdict"});
  const auto add = [&](const std::string& tokens, const Advice& a) {
    table.add({tokens, std::to_string(a.passes), us(a.present_us), us(a.choice_us), us(a.best_us),
               gain_with_interval(a), saved_with_interval(a, std::max(1, o.layers)),
               std::string(verdict_text(a.verdict))});
  };
  for (const Advice& a : advised.ranges) add(sizes(a), a);
  add("all", advised.all);
  fmt::print("{}", table.text());
}

void print_output_token(const Advised& advised, const Options& o) {
  if (o.layers > 0)
    fmt::print(
        "\nExperts' time per output token: {} us a step saved, over {} MoE layers ({}), if steps "
        "were as these passes;\ntake the range of your batch instead.  ",
        saved_with_interval(advised.all, o.layers), o.layers,
        o.layers_from_catalog ? "catalog" : "--layers");
  else
    fmt::print(
        "\nExperts' time per output token: the catalog does not know this model; say how many of "
        "its layers have\nexperts with --layers N.  ");
  fmt::print(
      "Experts are only a part of a step: attention, the exchange between GPUs\nand the host are "
      "not in it, so a step gains less than the column says.\n");
}

void print(const MeasuredSpace& space, const Advised& advised, const Options& o) {
  fmt::print("{}\n", measured_line(space));
  if (is_simulated(space))
    fmt::print("SIMULATED times: no verdict below says anything about a GPU.\n");
  if (is_generated(space))
    fmt::print("Routing is generated, not recorded: measure on a trace of yours before you act.\n");
  fmt::print("\npresent  {}: {}\nchoice   {}: {}\n\n", o.present, policy_kind(o.present).summary,
             o.choice, policy_kind(o.choice).summary);
  print_table(advised, o);
  fmt::print(
      "\nus: a layer on the slowest GPU of a held-out pass, mean over passes.  gain: share of the "
      "present's time,\ngeometric mean over passes.  Worth it: the interval above 0 and 1 % or "
      "more; {} passes or more.\n",
      kFewestPasses);
  for (const std::string& name : {o.present, o.choice})
    if (policy_kind(name).oracle())
      fmt::print("note: {} looks at the times themselves: a bound, nothing can serve it\n", name);
  if (advised.all.left_out > 0)
    fmt::print(
        "note: {} more held-out passes are left out: not timed for what each of the three picks\n",
        advised.all.left_out);
  print_output_token(advised, o);
}

void run(Options options) {
  const std::string next = "`ramp eval --help` says what each does";
  policy_kind(options.present, "--present", next);
  policy_kind(options.choice, "--choice", next);
  const MeasuredSpace space = read_measured(options.measurements);
  const Model* model = find_model_or_null(space.provenance.model);
  if (options.layers == 0 && model) {
    options.layers = model->moe_layers;
    options.layers_from_catalog = true;
  }
  EvaluateOptions evaluate_options;
  evaluate_options.policies = {options.present, options.choice, std::string(kOraclePolicy)};
  evaluate_options.baseline = options.present;
  evaluate_options.policy.menu = options.menu.menu(space.provenance.kernel);
  evaluate_options.resamples = 1;  // advise() draws its own
  const Evaluation evaluation = evaluate(space, evaluate_options);
  require_learned("--present", evaluation, options.present);
  require_learned("--choice", evaluation, options.choice);
  const Advised advised =
      advise(evaluation, options.present, options.choice, options.resamples, options.seed);
  if (options.as_json)
    fmt::print(
        "{}\n",
        json_of(space, advised, options).dump(2, ' ', false, json::error_handler_t::replace));
  else
    print(space, advised, options);
}

}  // namespace

void add_advise(CLI::App& app) {
  CLI::App* verb =
      app.add_subcommand("advise", "Is choosing worth it?  By pass size and per output token");
  auto options = std::make_shared<Options>();
  verb->add_option("measurements", options->measurements, "a .rmeas of `ramp profile`")->required();
  verb->add_option("--present", options->present, "the policy in use now; those of `ramp eval`")
      ->capture_default_str();
  verb->add_option("--choice", options->choice, "the policy to change to")->capture_default_str();
  verb->add_option("--layers", options->layers,
                   "the model's layers with experts; default: the catalog's")
      ->check(CLI::Range(1, 1000));
  add_menu_flags(*verb, options->menu);
  verb->add_option("--resamples", options->resamples, "of the bootstrap intervals")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  verb->add_option("--seed", options->seed, "of the bootstrap intervals")->capture_default_str();
  verb->add_flag("--json", options->as_json, "for machines");
  verb->footer(
      "Scored on the held-out passes of the file: policies pick on one half of the samples and are "
      "timed on the other.\nMeasure your own model, layout and trace with `ramp profile`.\n\n"
      "Examples:\n"
      "  ramp advise olmoe_ep8.rmeas\n"
      "  ramp advise olmoe_ep8.rmeas --present fixed --choice cost-model --json\n"
      "  ramp advise mine.rmeas --layers 60");
  verb->callback([options] { run(*options); });
}

}  // namespace ramp::cli
