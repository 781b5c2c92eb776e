// SPDX-License-Identifier: Apache-2.0
// `ramp bench`: layer (bench_layer.cpp), the whole layer in a captured graph beside its floor; ffn,
// the expert kernel on ready tile lists; select, the choice alone.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/build.hpp"
#include "base/error.hpp"
#include "base/whole_file.hpp"
#include "cli/bench_session.hpp"
#include "cli/progress.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "kernels/ffn/space.hpp"
#include "runtime/default_menu.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

// Costs from a GPU's constants, where nobody has measured: what choosing takes does not depend on
// them.
BenchChoice with_planned(const BenchSession& s, const std::vector<FfnConfig>& menu) {
  BenchChoice choice{menu, {}, -1};
  const LocalShape shape = local_shape(s.model.shape, s.layout, 0);
  for (const FfnConfig& c : menu) choice.theta.push_back(planned_theta(c, shape, find_gpu("h200")));
  return choice;
}

// What a hanging kernel leaves: a process that only ends.
template <class Run>
void guarded(const Run& run) {
  try {
    run();
  } catch (const Hung& e) {
    fmt::print(stderr, "ramp: {}\n", e.what());
    std::fflush(nullptr);
    std::_Exit(1);
  }
}

void bench_ffn(const BenchOptions& o) {
  const std::vector<FfnConfig> configs =
      o.configs.empty() ? ffn_space() : configs_of_labels("--configs", o.configs);
  const std::vector<int> tokens = tokens_of(o);
  BenchSession s(o, 32);
  s.open(o.device);
  json rows = json::array();
  for (const LoadSource& source : s.sources)
    for (const int t : tokens) {
      s.layers->set_load(source, t);
      std::vector<LayerTimes> all;
      {
        Progress bar("timing");
        for (const FfnConfig& c : configs) {
          all.push_back(s.layers->ffn(c));
          bar.update(static_cast<double>(all.size()), static_cast<double>(configs.size()));
        }
      }
      std::sort(all.begin(), all.end(),
                [](const auto& a, const auto& b) { return a.ffn_us < b.ffn_us; });
      Table table({"<configuration", "ffn", "over the best", "stream", "floor", "error"});
      for (const LayerTimes& row : all) {
        table.add({row.entry, us_text(row.ffn_us),
                   fmt::format("{:.3f}", row.ffn_us / all.front().ffn_us), us_text(row.stream_us),
                   us_text(row.floor_us), fmt::format("{:.4f}", row.rel_err)});
        rows.push_back({{"model", s.model.name},
                        {"layout", s.layout.name()},
                        {"tokens", t},
                        {"load", source.name()},
                        {"config", row.entry},
                        {"ffn_us", row.ffn_us},
                        {"stream_us", row.stream_us},
                        {"floor_us", row.floor_us},
                        {"rel_err", row.rel_err},
                        {"gpu", s.gpu->context.info().name},
                        {"commit", build_commit()},
                        {"date", today()}});
      }
      if (o.json != "-")
        fmt::print("{} {}, {} tokens, {}: us a layer on ready tile lists\n{}\n", s.model.name,
                   s.layout.name(), t, source.name(), table.text());
    }
  if (o.json == "-")
    fmt::print("{}\n", json{{"ffn", rows}}.dump());
  else if (!o.json.empty())
    write_whole_file(o.json, json{{"ffn", rows}}.dump(1) + "\n");
}

void bench_select(const BenchOptions& o) {
  const std::vector<int> pairs = parse_numbers("--pairs", o.pairs, 1 << 20);
  BenchPolicy policy = policy_of(o);
  BenchSession s(o, 1);
  if (!o.plan.empty()) take_plan(o, s, policy);
  if (policy.best) policy = {"planned", with_planned(s, policy.choice.menu), false};
  require_legal_menu(policy.choice.menu);
  s.open(o.device);
  json rows = json::array();
  Table table({"pairs", "tokens", "us"});
  for (const int p : pairs) {
    const int tokens = std::max(1, p / s.model.shape.top_k);
    s.layers->set_load(s.sources.front(), tokens);
    const double us = s.layers->prepare(policy.of(tokens));
    table.add({std::to_string(p), std::to_string(tokens), us_text(us)});
    rows.push_back({{"model", s.model.name},
                    {"layout", s.layout.name()},
                    {"pairs", p},
                    {"tokens", tokens},
                    {"entries", policy.of(tokens).menu.size()},
                    {"us", us},
                    {"gpu", s.gpu->context.info().name},
                    {"commit", build_commit()},
                    {"date", today()}});
  }
  if (o.json == "-") {
    fmt::print("{}\n", json{{"select", rows}}.dump());
    return;
  }
  if (!o.json.empty()) write_whole_file(o.json, json{{"select", rows}}.dump(1) + "\n");
  fmt::print(
      "{} {}, {} entries: us that choosing, grouping, quantising and clearing the output add "
      "behind the kernel that writes the ids\n{}",
      s.model.name, s.layout.name(), policy.choice.menu.size(), table.text());
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("bench", "Time the layer and its parts on the GPU");
  verb->require_subcommand(1);
  auto options = std::make_shared<BenchOptions>();
  const auto common = [options](CLI::App& sub) {
    add_model_options(sub, options->model, true);
    sub.add_option("--layout", options->layout, "tpN or epN")->capture_default_str();
    sub.add_option("--rank", options->rank, "the GPU: heaviest (most pairs), or its number")
        ->capture_default_str();
    sub.add_option("--load", options->loads, "uniform, generated, recorded; comma-separated")
        ->capture_default_str();
    sub.add_option("--trace", options->trace, "a .rtrace, for recorded loads");
    sub.add_option("--seed", options->seed, "of the routing")->capture_default_str();
    sub.add_option("--replays", options->replays, "of each graph")
        ->check(CLI::Range(3, 1000))
        ->capture_default_str();
    sub.add_flag("--foreign-router", options->foreign_router,
                 "the kernel that writes the ids knows nothing of programmatic launch");
    sub.add_option("--device", options->device, "the GPU's number")->capture_default_str();
    sub.add_option("--json", options->json, "a file for the rows; - prints them");
  };
  const auto choosing = [options](CLI::App& sub) {
    sub.add_option("--policy", options->policy,
                   "plan (choose by --plan), theta (by --menu and --theta), best (time each entry "
                   "of --menu alone, take the fastest), forced:LABEL");
    sub.add_option("--plan", options->plan, "a plan of `ramp tune`");
    sub.add_option("--menu", options->menu, "labels, comma-separated; default: six of 256 columns");
    sub.add_option("--theta", options->theta,
                   "fixed,wave,tile,expert in us, once for each label of --menu");
  };
  const std::string tokens_help = "tokens of a pass, over all GPUs";

  CLI::App* layer = verb->add_subcommand(
      "layer", "The whole layer in a captured graph over cold weights, beside its floor");
  common(*layer);
  choosing(*layer);
  layer->add_option("--tokens", options->tokens, tokens_help)->capture_default_str();
  layer->add_option("--forced", options->forced,
                    "all: each entry of --menu forced in one kernel, against the same alone");
  layer
      ->add_option(
          "--mode", options->mode,
          "how a token's results are added: fast (the default, in any order) or ordered (the "
          "same bits always; entries of family f3)")
      ->check(CLI::IsMember({"fast", "ordered"}));
  layer
      ->add_option("--rows", options->rows,
                   "what `prepare` quantises for family f3: a row for each token, or for each pair "
                   "(the experts' rows then stand together); auto: what pays")
      ->check(CLI::IsMember({"auto", "token", "pair"}))
      ->capture_default_str();
  layer
      ->add_option(
          "--prefill", options->prefill,
          "weight units that a block requests before it knows the routing, cut to what the "
          "menu can; default: by the share of experts expected to be active")
      ->check(CLI::Range(0, kFfnMaxStages + kFfnMaxEarly));
  layer->footer(
      "Examples:\n"
      "  ramp bench layer olmoe --layout ep8 --plan olmoe-ep8.plan.json --json layer.json\n"
      "  ramp bench layer qwen3-30b --tokens 16,64 --load uniform,generated --policy best\n"
      "  ramp bench layer olmoe --forced all\n"
      "choice_us is the layer less the same graph without `prepare`, on ready tile lists: it holds "
      "the choice,\nthe quantiser and the clearing of the output.");
  layer->callback([options] { guarded([&] { bench_layer(*options); }); });

  CLI::App* ffn = verb->add_subcommand("ffn", "Configurations of the expert kernel on one load");
  common(*ffn);
  ffn->add_option("--tokens", options->tokens, tokens_help);
  ffn->add_option("--configs", options->configs, "labels, comma-separated; default: all");
  ffn->footer("Example:\n  ramp bench ffn olmoe --tokens 64 --configs f1-r8-c256-s6-w2-static");
  ffn->callback([options, ffn] {
    if (ffn->count("--tokens") == 0) options->tokens = "64";
    guarded([&] { bench_ffn(*options); });
  });

  CLI::App* select = verb->add_subcommand("select", "The choice alone, by the number of pairs");
  common(*select);
  choosing(*select);
  options->pairs = "8,64,512,1024,2048,4096,8192,16384,65536,262144";
  select->add_option("--pairs", options->pairs, "token-expert pairs of the pass")
      ->capture_default_str();
  select->footer("Example:\n  ramp bench select olmoe --layout ep8 --pairs 64,1024,4096");
  select->callback([options] { guarded([&] { bench_select(*options); }); });
}

}  // namespace ramp::cli
