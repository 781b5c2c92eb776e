// SPDX-License-Identifier: Apache-2.0
// `ramp loads`: what a trace becomes under a layout: the tokens of each expert on each GPU, pass by
// pass, and the imbalance table.  The same sampled traffic as `ramp profile` measures.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/loads_table.hpp"
#include "cli/model_options.hpp"
#include "cli/placement_options.hpp"
#include "cli/table.hpp"
#include "cli/test_traffic_options.hpp"
#include "cli/verbs.hpp"
#include "problem/calibration.hpp"
#include "problem/imbalance.hpp"
#include "problem/sample.hpp"
#include "problem/trace_file.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string trace, layout = "ep8", layers, concurrency, role = "recorded";
  PlacementOptions placement;
  TestTrafficOptions test;
  ModelOptions model;
  SampleOptions sample;
  int show = 8;
  bool as_json = false;
};

// d and h matter to the layout (TP cuts h); a trace alone knows E and k, which is enough for EP.
MoeShape shape_of(const Options& options, const RoutingTrace& trace) {
  if (options.model.given()) return options.model.model().shape;
  if (const Model* model = find_model_or_null(trace.info.model)) return model->shape;
  return {trace.info.experts, trace.info.top_k, 0, 0};
}

std::string load_text(const ExpertLoad& load) {
  std::string text;
  for (std::size_t e = 0; e < load.size() && e < 16; ++e)
    text += fmt::format("{}{}", e ? " " : "", load[e]);
  return load.size() > 16 ? text + " ..." : text;
}

void run(const Options& options) {
  const ReadTrace read = read_trace(options.trace);
  if (!read.health.whole()) fmt::print(stderr, "note: {}\n", read.health.text());
  const RoutingTrace& trace = read.trace;
  const MoeShape shape = shape_of(options, trace);
  Layout layout = parse_layout(options.layout);
  if (shape.intermediate == 0 && !layout.is_expert_parallel())
    throw Error("--model", "a trace that names no model of the catalog",
                "the model, whose h a tpN layout cuts", "add --model or --config");
  SampleOptions sample = options.sample;
  layout = options.placement.place(std::move(layout), trace, sample);
  TestTrafficOptions test = options.test;
  test.apply(sample);
  const SampledTraffic traffic = sample_traffic(trace, shape, layout, sample);
  std::vector<const SampledPass*> chosen;
  for (const SampledPass& pass : traffic.passes)
    if (options.role == "all" || options.role == text_of(pass.role) ||
        (options.role == "recorded" && pass.role != Traffic::kUniform))
      chosen.push_back(&pass);
  std::vector<BalancePoint> points;
  for (const SampledPass* pass : chosen)
    points.push_back(balance_point(pass->tokens, pass->counts));
  const std::vector<BalanceRow> table = balance_table(points);

  const std::string note = calibration_note(traffic.routing);
  if (options.as_json) {
    json out = {{"trace", options.trace},     {"routing", traffic.routing}, {"scores", note},
                {"split", traffic.split},     {"layout", layout.name()},    {"gpus", traffic.gpus},
                {"imbalance", json::array()}, {"passes", json::array()}};
    for (const BalanceRow& row : table) out["imbalance"].push_back(balance_json(row));
    for (std::size_t i = 0; i < chosen.size(); ++i)
      out["passes"].push_back({{"tokens", chosen[i]->tokens},
                               {"prefill_tokens", chosen[i]->prefill_tokens},
                               {"layer", chosen[i]->layer},
                               {"domain", chosen[i]->domain},
                               {"role", text_of(chosen[i]->role)},
                               {"loop", chosen[i]->loop},
                               {"imbalance", points[i].imbalance},
                               {"counts", chosen[i]->counts}});
    fmt::print("{}\n", out.dump(-1, ' ', false, json::error_handler_t::replace));
    return;
  }

  fmt::print("{} under {} ({})\n{}; {}\n\n", options.trace, layout.name(),
             layout.is_expert_parallel()
                 ? fmt::format("{} experts on {} GPUs", shape.experts, layout.gpus)
                 : fmt::format("h = {} on each of {} GPUs",
                               local_shape(shape, layout, 0).intermediate, layout.gpus),
             traffic.routing, traffic.split);
  if (!note.empty()) fmt::print("{}\n\n", note);
  Table loads({"pass", "tokens", "<role", "<domain", "layer", "GPU", "pairs", "active",
               "<tokens of its experts"});
  // Evenly over what was sampled, so that small and large passes are seen.
  const int shown = std::min<int>(options.show, static_cast<int>(chosen.size()));
  for (int i = 0; i < shown; ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * chosen.size() / shown;
    const SampledPass& pass = *chosen[at];
    // Under TP every GPU has the same load: one line says it.
    const int gpus = layout.is_expert_parallel() ? layout.gpus : 1;
    int heaviest = 0, lightest = 0;
    for (int g = 1; g < gpus; ++g) {
      if (pairs_of(pass.counts[g]) > pairs_of(pass.counts[heaviest])) heaviest = g;
      if (pairs_of(pass.counts[g]) < pairs_of(pass.counts[lightest])) lightest = g;
    }
    for (const int g : {heaviest, lightest}) {
      loads.add({g == heaviest ? std::to_string(at) : "",
                 g == heaviest ? std::to_string(pass.tokens) : "",
                 g == heaviest ? text_of(pass.role) : "", g == heaviest ? pass.domain : "",
                 g == heaviest ? std::to_string(pass.layer) : "",
                 layout.is_expert_parallel() ? std::to_string(g) : "all",
                 std::to_string(pairs_of(pass.counts[g])),
                 std::to_string(active_experts(pass.counts[g])), load_text(pass.counts[g])});
      if (heaviest == lightest) break;
    }
  }
  if (shown > 0)
    fmt::print("Loads, {} of {} (most and least loaded GPU):\n{}\n", shown, chosen.size(),
               loads.text());
  fmt::print(
      "Most loaded GPU over the mean, active experts, rows that tiles of 8 to 64 rows compute over "
      "rows used:\n{}",
      balance_text(table));
}

}  // namespace

void add_loads(CLI::App& app) {
  CLI::App* verb = app.add_subcommand(
      "loads", "A trace under a layout: tokens of each expert and GPU, and the imbalance");
  auto options = std::make_shared<Options>();
  SampleOptions& s = options->sample;
  verb->add_option("trace", options->trace, "a .rtrace")->required();
  verb->add_option("--layout", options->layout, "tpN or epN")->capture_default_str();
  add_placement_options(*verb, options->placement);
  add_model_options(*verb, options->model);
  verb->add_option("--train", s.train_passes, "passes of the group that policies fit on")
      ->capture_default_str();
  verb->add_option("--test", s.test_passes, "passes of the group that they are scored on")
      ->capture_default_str();
  verb->add_option("--uniform", s.uniform_draws, "uniform draws at each of vLLM's 18 batch sizes")
      ->capture_default_str();
  verb->add_option("--prefill-share", s.prefill_share, "share of passes that carry prompts")
      ->capture_default_str();
  verb->add_option("--mixed-share", s.mixed_share, "share of passes that mix the domains")
      ->capture_default_str();
  verb->add_option("--max-tokens", s.max_tokens, "tokens of the largest pass")
      ->capture_default_str();
  verb->add_option("--concurrency", options->concurrency,
                   "closed loops to replay; default 1,4,16,64,128,256");
  verb->add_option("--test-share", s.test_share, "share of the requests held out")
      ->capture_default_str();
  verb->add_option("--held-out", s.held_out_domain, "hold out this domain instead");
  add_test_traffic_options(*verb, options->test);
  verb->add_option("--rows", options->layers,
                   "rows of the trace's layers, e.g. 0,5,10; default all");
  verb->add_option("--role", options->role, "passes to show")
      ->check(CLI::IsMember({"recorded", "train", "test", "uniform", "all"}))
      ->capture_default_str();
  verb->add_option("--show", options->show, "passes in the load table")->capture_default_str();
  verb->add_option("--seed", s.seed, "another seed, other passes")->capture_default_str();
  verb->add_flag("--json", options->as_json, "for machines: every count");
  verb->footer(
      "Examples:\n"
      "  ramp loads data/traces/dsv2lite_esft.rtrace --layout ep8\n"
      "  ramp loads my.rtrace --layout ep16 --placement balanced --held-out math --json\n"
      "  ramp loads data/traces/dsv2lite_esft.rtrace --layout ep8 --placement every-128\n"
      "  ramp loads data/traces/gptoss20b_decode.rtrace --layout ep4 --test-rate 8,16,32");
  verb->callback([options] {
    if (!options->layers.empty())
      options->sample.layers = parse_numbers("--rows", options->layers, 4096);
    if (!options->concurrency.empty())
      options->sample.concurrency = parse_numbers("--concurrency", options->concurrency, 65536);
    for (const int n :
         {options->sample.train_passes, options->sample.test_passes, options->sample.uniform_draws})
      if (n < 0 || n > 1'000'000)
        throw Error("--train, --test, --uniform", fmt::format("{}", n), "0 .. 1,000,000",
                    "for example 400");
    run(*options);
  });
}

}  // namespace ramp::cli
