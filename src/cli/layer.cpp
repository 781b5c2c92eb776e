// SPDX-License-Identifier: Apache-2.0
// `ramp layer`: one layer's forward on a batch of a trace, with the entry that the plan picks for
// it, checked against the reference.  On the host: the numbers of the kernel, not its speed.
#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.hpp"
#include "choice/explain.hpp"
#include "choice/plan.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "kernels/ffn/host_twin.hpp"
#include "kernels/ffn/space.hpp"
#include "problem/catalog.hpp"
#include "problem/load.hpp"
#include "problem/replay.hpp"
#include "problem/trace_file.hpp"

namespace ramp::cli {
namespace {

struct Options {
  std::string plan, trace;
  int tokens = 32, layer = 0, gpu = -1;
  std::uint64_t seed = 1;
  bool as_json = false;
};

constexpr int kMaxTokens = 256;

// Weights spread like quantised ones, scaled so that a normal row gives gates of about 1.
HostWeights random_weights(const LocalShape& s, std::mt19937_64& rng) {
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> spread(0.5f, 1.5f);
  // A table of 4,096 draws: the spread is what matters, and a draw a weight takes longer than the
  // layer.
  std::vector<std::uint8_t> codes(4096);
  for (auto& c : codes) c = to_e4m3(std::clamp(normal(rng) * 100.0f, -448.0f, 448.0f));
  const auto fill = [&](std::size_t n) {
    std::vector<std::uint8_t> w(n);
    for (auto& x : w) x = codes[rng() >> 52];
    return w;
  };
  const auto scales = [&](std::size_t n, int depth) {
    std::vector<float> v(n);
    for (auto& x : v) x = spread(rng) / (100.0f * std::sqrt(static_cast<float>(depth)));
    return v;
  };
  const std::size_t e = s.experts, d = s.hidden, h = s.intermediate;
  HostWeights w;
  w.w13 = fill(e * 2 * h * d);
  w.w2 = fill(e * d * h);
  w.s13 = scales(e * 2 * (h / kScaleGroup) * (d / kScaleGroup), s.hidden);
  w.s2 = scales(e * (h / kScaleGroup) * (d / kScaleGroup), s.intermediate);
  return w;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void run(const Options& options) {
  if (options.tokens < 1 || options.tokens > kMaxTokens)
    throw Error("--tokens", std::to_string(options.tokens), fmt::format("1 to {}", kMaxTokens),
                "this runs on the host; `ramp bench layer` times large batches on a GPU");
  const Plan plan = read_plan(options.plan);
  const RoutingTrace trace = read_trace(options.trace).trace;
  const Layout layout = parse_layout(plan.layout);
  const int experts = trace.info.experts;
  if (trace.info.top_k != plan.shape.top_k ||
      (layout.is_expert_parallel() ? experts / layout.gpus : experts) != plan.shape.experts)
    throw Error("--trace", fmt::format("{} experts, top {}", experts, trace.info.top_k),
                fmt::format("a trace of the plan's model ({}, {} experts a GPU, top {})",
                            plan.model, plan.shape.experts, plan.shape.top_k),
                "`ramp trace info` shows what a trace holds");
  if (options.layer < 0 || options.layer >= trace.layers())
    throw Error("--layer", std::to_string(options.layer),
                fmt::format("0 to {}", trace.layers() - 1), "");

  // A decode pass: one token of each of that many requests at once.
  std::vector<int> requests(trace.requests.size());
  for (std::size_t r = 0; r < requests.size(); ++r) requests[r] = static_cast<int>(r);
  Replay replay(trace, requests,
                {.concurrency = options.tokens, .prompts = Prompts::kStream, .seed = options.seed});
  replay.skip(3);
  const ForwardPass pass = replay.next();
  const LayerLoad whole = count_load(trace, pass.tokens, options.layer);
  const std::vector<ExpertLoad> loads = split_load(whole.experts, layout, 0);
  int gpu = options.gpu;
  if (gpu < 0)  // the one the others wait for
    for (int g = 0; g < static_cast<int>(loads.size()); ++g)
      if (gpu < 0 || pairs_of(loads[g]) > pairs_of(loads[gpu])) gpu = g;
  if (gpu >= static_cast<int>(loads.size()))
    throw Error("--gpu", std::to_string(gpu), fmt::format("0 to {}", loads.size() - 1), "");

  std::mt19937_64 rng(options.seed);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> positive(0.1f, 1.0f);
  HostBatch batch;
  batch.tokens = static_cast<int>(pass.tokens.size());
  batch.expert_map = expert_map(layout, experts, gpu, 0);
  for (std::int64_t token : pass.tokens) {
    const auto row = trace.row(token, options.layer);
    batch.ids.insert(batch.ids.end(), row.begin(), row.end());
    float sum = 0;
    std::vector<float> gates(row.size());
    for (float& g : gates) sum += g = positive(rng);
    for (float& g : gates) batch.gates.push_back(g / sum);
  }
  batch.hidden.resize(static_cast<std::size_t>(batch.tokens) * plan.shape.hidden);
  for (auto& x : batch.hidden) x = to_bf16(normal(rng));
  const HostWeights weights = random_weights(plan.shape, rng);

  const GroupedRows grouped =
      group_ids(batch.ids, batch.gates, plan.shape.top_k, batch.expert_map, plan.shape.experts);
  const Explanation why = explain(plan, grouped.counts, batch.tokens);
  const PlanEntry& entry = plan_for(plan, batch.tokens).menu[why.ranked[0].entry];
  const FfnConfig config = ffn_from_knobs(entry.knobs);

  auto start = std::chrono::steady_clock::now();
  const HostRun result = run_on_host(plan.shape, weights, batch, grouped, config);
  const double host_s = seconds_since(start);
  start = std::chrono::steady_clock::now();
  const std::vector<double> want = reference_layer(plan.shape, weights, batch);
  const double reference_s = seconds_since(start);
  const double error = relative_error(want, result.output);
  const double tolerance = fast_tolerance(
      static_cast<double>(plan.shape.top_k) * ffn_additions(config, plan.shape.intermediate),
      static_cast<double>(pairs_of(grouped.counts)) * plan.shape.intermediate);
  const bool ok = error <= tolerance;

  if (options.as_json) {
    nlohmann::ordered_json out{{"plan", plan.identity},
                               {"tokens", batch.tokens},
                               {"gpu", gpu},
                               {"layer", options.layer},
                               {"load", grouped.counts},
                               {"entry", entry.label},
                               {"predicted_us", why.ranked[0].predicted_us},
                               {"items", result.items},
                               {"rel_err", error},
                               {"tolerance", tolerance},
                               {"ok", ok}};
    fmt::print("{}\n", out.dump(2));
  } else {
    std::string counts;
    for (int n : grouped.counts) counts += fmt::format("{}{}", counts.empty() ? "" : " ", n);
    fmt::print("pass              {} tokens, row {} of the trace, GPU {} of {} ({} of {} pairs)\n",
               batch.tokens, options.layer, gpu, loads.size(), pairs_of(grouped.counts),
               batch.ids.size());
    fmt::print("tokens an expert  {}\n", counts);
    fmt::print("choice            {}: {}\n", entry.label, why.because);
    fmt::print(
        "on this host      {} items of {} rows x {} columns of h in {:.2f} s; the reference in "
        "double precision "
        "{:.2f} s\n",
        result.items, config.rows, config.cols / 2, host_s, reference_s);
    fmt::print("against it        relative error {:.2e}, tolerance {:.2e}: {}\n", error, tolerance,
               ok ? "right" : "WRONG");
  }
  if (!ok)
    throw Error("layer", fmt::format("relative error {:.3e}", error),
                fmt::format("at most {:.3e}", tolerance),
                "this is a fault of ramp; please report it with the command line");
}

}  // namespace

void add_layer(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(
      "layer", "One layer's forward on a pass of a trace, with the entry the plan picks, checked");
  verb->add_option("plan", options->plan, "Plan file")->required();
  verb->add_option("--trace", options->trace, "Routing trace of the plan's model")->required();
  verb->add_option("--tokens", options->tokens, "Requests that decode a token each")
      ->capture_default_str();
  verb->add_option("--layer", options->layer, "Row of the trace")->capture_default_str();
  verb->add_option("--gpu", options->gpu,
                   "GPU of the layout; without it the one with the most pairs");
  verb->add_option("--seed", options->seed, "Of the pass, the rows and the weights")
      ->capture_default_str();
  verb->add_flag("--json", options->as_json, "One JSON object");
  verb->footer(
      "Runs on the host with random weights: it shows what the layer computes, not how fast.\n"
      "Example: ramp layer plan.json --trace data/traces/dsv2lite_esft.rtrace --tokens 32");
  verb->callback([options] { run(*options); });
}

}  // namespace ramp::cli
