// SPDX-License-Identifier: Apache-2.0
// `ramp bench`: layer, the whole layer in a captured graph beside its floor; ffn, the expert kernel
// on ready tile lists; select, the choice alone.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/build.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "base/whole_file.hpp"
#include "cli/gpu_options.hpp"
#include "cli/model_options.hpp"
#include "cli/progress.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "kernels/ffn/program.hpp"
#include "kernels/ffn/space.hpp"
#include "kernels/ffn/whole.h"
#include "lab/bench_records.hpp"
#include "runtime/default_menu.hpp"
#include "runtime/layer_bench.hpp"
#include "runtime/plan_options.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct Options {
  ModelOptions model;
  std::string layout = "ep8", rank = "heaviest", tokens = "1,8,16,32,64,128,256,512,1024";
  std::string loads = "uniform", trace, policy, plan, menu, json, configs, pairs;
  std::vector<std::string> theta;
  std::string forced;
  bool foreign_router = false, one_launch = false;
  int replays = 21, device = 0;
  std::uint64_t seed = 1;
};

// How a layer chooses, as the options say it.
struct Policy {
  std::string name;
  BenchChoice choice;
  bool best = false;                                 // of choice.menu, found by timing each
  std::vector<std::pair<int, BenchChoice>> smaller;  // a plan's, for passes of up to so many tokens

  const BenchChoice& of(int tokens) const {
    for (const auto& [up_to, small] : smaller)
      if (tokens <= up_to) return small;
    return choice;
  }
};

Theta theta_of(const std::string& text) {
  std::vector<float> values;
  for (const std::string& part : split_list(text)) {
    char* end = nullptr;
    values.push_back(std::strtof(part.c_str(), &end));
    if (part.empty() || *end || !std::isfinite(values.back()) || values.back() < 0)
      throw Error("--theta", "'" + text + "'", "four numbers from 0: fixed,wave,tile,expert", "");
  }
  if (values.size() != 4)
    throw Error("--theta", "'" + text + "'", "four numbers: fixed,wave,tile,expert (us)",
                "give --theta once for each label of --menu");
  return {values[0], values[1], values[2], values[3]};
}

Policy policy_of(const Options& o) {
  const std::vector<FfnConfig> menu =
      o.menu.empty() ? default_menu() : configs_of_labels("--menu", o.menu);
  const std::string name = !o.policy.empty()  ? o.policy
                           : !o.plan.empty()  ? "plan"
                           : !o.theta.empty() ? "theta"
                                              : "best";
  if (name == "plan" && o.plan.empty())
    throw Error("--policy plan", "no plan", "--plan FILE", "make one with `ramp tune`");
  if (name == "best") return {name, {menu, {}, 0}, true};
  if (name == "theta") {
    if (o.theta.size() != menu.size())
      throw Error("--theta", fmt::format("{} times", o.theta.size()),
                  fmt::format("{} times, one for each label of --menu", menu.size()), "");
    Policy policy{name, {menu, {}, -1}, false};
    for (const std::string& text : o.theta) policy.choice.theta.push_back(theta_of(text));
    return policy;
  }
  if (name.starts_with("forced:")) {
    const FfnConfig config = ffn_from_label(name.substr(7));
    if (o.menu.empty()) return {name, {{config}, {}, 0}, false};
    for (std::size_t i = 0; i < menu.size(); ++i)
      if (ffn_label(menu[i]) == ffn_label(config))
        return {name, {menu, {}, static_cast<int>(i)}, false};
    throw Error("--policy", name, "a label of --menu", "");
  }
  if (name != "plan")
    throw Error("--policy", name, "plan, theta, best or forced:LABEL", "see --help");
  return {name, {}, false};  // the menu comes from the plan
}

int rank_of(const std::string& text) {
  if (text == "heaviest") return kHeaviestRank;
  const std::vector<int> numbers = parse_numbers("--rank", text, 1 << 16);
  if (numbers.size() != 1) throw Error("--rank", text, "heaviest, or one GPU of the layout", "");
  return numbers[0];
}

std::vector<int> tokens_of(const Options& o) {
  std::vector<int> tokens = parse_numbers("--tokens", o.tokens, 1 << 17);
  for (const int t : tokens)
    if (t < 1) throw Error("--tokens", "0", "1 and more", "leave it out");
  return tokens;
}

std::string us_text(double us) { return std::isfinite(us) ? fmt::format("{:.2f}", us) : "-"; }

// Everything that the three benches start with: options that are refused without a GPU first.
struct Session {
  Session(const Options& o, int most_layers)
      : model(o.model.model()), layout(parse_layout(o.layout)) {
    bench.model = model;
    bench.layout = layout;
    bench.rank = rank_of(o.rank);
    bench.router = o.foreign_router ? Router::kForeign : Router::kTriggers;
    bench.replays = o.replays;
    bench.most_layers = most_layers;
    for (const std::string& load : split_list(o.loads))
      sources.emplace_back(model, layout, load, o.trace, o.seed);
  }
  void open(int device) {
    gpu = std::make_unique<OpenGpu>(device);
    layers = std::make_unique<LayerBench>(gpu->context, gpu->clocks, *gpu->cache, bench);
  }
  Model model;
  Layout layout;
  LayerBenchOptions bench;
  std::vector<LoadSource> sources;
  std::unique_ptr<OpenGpu> gpu;
  std::unique_ptr<LayerBench> layers;
};

void take_plan(const Options& o, const Session& s, Policy& policy) {
  const Plan plan = read_plan(o.plan);
  PlanUse use;
  use.experts = s.model.shape.experts;
  use.shape = local_shape(s.model.shape, s.layout, 0);
  use.device = s.gpu ? std::optional(s.gpu->context.info()) : std::nullopt;
  policy.smaller.clear();
  for_each_part(plan, [&](int up_to, const Plan& part) {
    const LayerOptions options = options_from_plan(part, use);
    if (up_to)
      policy.smaller.push_back({up_to, {options.menu, options.theta, -1}});
    else
      policy.choice = {options.menu, options.theta, -1};
  });
  if (const std::string stale = plan_staleness(plan); !stale.empty())
    fmt::print(stderr, "note: {}\n", stale);
}

// Costs from a GPU's constants, where nobody has measured: what choosing takes does not depend on
// them.
BenchChoice with_planned(const Session& s, const std::vector<FfnConfig>& menu) {
  BenchChoice choice{menu, {}, -1};
  const LocalShape shape = local_shape(s.model.shape, s.layout, 0);
  for (const FfnConfig& c : menu) choice.theta.push_back(planned_theta(c, shape, find_gpu("h200")));
  return choice;
}

Launches launches_of(const Options& o) {
  return o.one_launch ? Launches::kOneOrTwo : Launches::kTwo;
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

void bench_forced(const Options& o, Session& s, const std::vector<int>& tokens) {
  const std::vector<FfnConfig> menu =
      o.menu.empty() ? default_menu() : configs_of_labels("--menu", o.menu);
  require_legal_menu(menu);
  s.open(o.device);
  json rows = json::array();
  std::vector<double> ratios;
  Table table({"tokens", "<load", "<entry", "forced in the menu", "alone", "ratio"});
  for (const LoadSource& source : s.sources)
    for (const int t : tokens) {
      s.layers->set_load(source, t);
      for (const ForcedTimes& row : s.layers->forced(menu)) {
        ratios.push_back(row.forced_us / row.alone_us);
        table.add({std::to_string(t), source.name(), row.entry, us_text(row.forced_us),
                   us_text(row.alone_us), fmt::format("{:.3f}", ratios.back())});
        rows.push_back({{"model", s.model.name},
                        {"layout", s.layout.name()},
                        {"tokens", t},
                        {"load", source.name()},
                        {"entry", row.entry},
                        {"forced_us", row.forced_us},
                        {"alone_us", row.alone_us},
                        {"gpu", s.gpu->context.info().name},
                        {"commit", build_commit()},
                        {"date", today()}});
      }
    }
  fmt::print(
      "{}\nEach of {} entries forced in one polymorphic kernel over the same compiled alone: "
      "median {:.3f}, worst {:.3f}\n",
      table.text(), menu.size(), median(ratios), *std::max_element(ratios.begin(), ratios.end()));
  if (!o.json.empty()) write_whole_file(o.json, json{{"forced", rows}}.dump(1) + "\n");
}

BenchRecord record_of(const Session& s, const Options& o, const Policy& policy,
                      const LoadSource& source, int tokens, const LayerTimes& t) {
  BenchRecord r;
  r.model = s.model.name;
  r.layout = s.layout.name();
  r.rank = o.rank;
  r.tokens = tokens;
  r.load = source.name();
  r.policy = policy.name + (o.one_launch ? ", one launch" : "");
  r.entry = t.entry;
  r.active_mb = t.active_mb;
  r.us = t.us;
  r.choice_us = t.us - t.ready_us;
  r.ffn_us = t.ffn_us;
  r.stream_us = t.stream_us;
  r.floor_us = t.floor_us;
  r.rel_err = t.rel_err;
  r.gpu = s.gpu->context.info().name;
  r.commit = build_commit();
  r.date = today();
  r.layers = t.layers;
  r.samples = t.timing.samples;
  r.dropped = t.timing.dropped;
  r.sm_mhz = t.timing.sm_mhz;
  r.spread = t.timing.spread.empty() ? 0 : t.timing.spread.front();
  r.throttle = t.timing.throttle;
  r.router = o.foreign_router ? "foreign" : "triggers early";
  r.routing = source.label();
  return r;
}

// Rows labelled so must be so.
void require_one_launch(Policy& policy, const Model& model, const std::vector<int>& tokens) {
  if (policy.best)
    std::erase_if(policy.choice.menu, ffn_whole_refusal);
  else
    for (const int t : tokens) require_legal_menu(policy.of(t).menu, FfnForm::kWhole);
  if (policy.choice.menu.empty())
    throw Error("--one-launch", "no entry of --menu", "entries of up to 32 rows", "");
  for (const int t : tokens)
    if (t > kWholePairs / model.shape.top_k)
      throw Error("--tokens", fmt::format("{}", t),
                  fmt::format("up to {} with --one-launch ({} pairs of top-{})",
                              kWholePairs / model.shape.top_k, kWholePairs, model.shape.top_k),
                  "leave it out, or take two launches");
}

void bench_layer(const Options& o) {
  Policy policy = policy_of(o);
  const std::vector<int> tokens = tokens_of(o);
  if (!o.forced.empty() && o.forced != "all")
    throw Error("--forced", o.forced, "all", "one entry alone is --policy forced:LABEL");
  Session s(o, 32);
  if (!o.plan.empty()) take_plan(o, s, policy);
  if (!o.forced.empty()) return bench_forced(o, s, tokens);
  if (!policy.best) require_legal_menu(policy.choice.menu);
  if (o.one_launch) require_one_launch(policy, s.model, tokens);
  s.open(o.device);
  if (!o.plan.empty()) take_plan(o, s, policy);  // now that the GPU is known

  Table table({"tokens", "<load", "<entry", "active MB", "us", "choice", "ffn", "stream", "floor",
               "us/stream", "error", "MHz", "<clock"});
  std::vector<BenchRecord> records;
  {
    Progress bar("timing");
    const double total = static_cast<double>(s.sources.size() * tokens.size());
    for (const LoadSource& source : s.sources)
      for (const int t : tokens) {
        s.layers->set_load(source, t);
        BenchChoice choice = policy.of(t);
        if (policy.best) {
          const std::size_t fastest =
              s.layers->fastest(choice.menu, launches_of(o), [](const WrongNumbers& wrong) {
                fmt::print(stderr, "left out: {}\n", wrong.what());
              });
          choice = {{choice.menu[fastest]}, {}, 0};
        }
        choice.launches = launches_of(o);
        const LayerTimes times = s.layers->layer(choice);
        records.push_back(record_of(s, o, policy, source, t, times));
        const BenchRecord& r = records.back();
        std::string clock = r.throttle;
        if (r.dropped > 0)
          clock += fmt::format(", {} of {} dropped", r.dropped, r.dropped + r.samples);
        table.add({std::to_string(t), r.load, r.entry, fmt::format("{:.1f}", r.active_mb),
                   us_text(r.us), us_text(r.choice_us), us_text(r.ffn_us), us_text(r.stream_us),
                   us_text(r.floor_us), fmt::format("{:.2f}", r.us / r.stream_us),
                   fmt::format("{:.4f}", r.rel_err), std::to_string(r.sm_mhz), clock});
        // Kept at once: whatever happens next costs no row.
        if (!o.json.empty() && o.json != "-") merge_into_file(o.json, {r});
        bar.update(static_cast<double>(records.size()), total);
      }
  }
  if (o.json == "-") {
    fmt::print("{}\n", merged("", "-", records).dump());
    return;
  }
  fmt::print("{} {}, {} GPU, policy {}, {}: us a layer, median of {} replays\n{}", s.model.name,
             s.layout.name(), o.rank, policy.name, s.gpu->context.info().name, o.replays,
             table.text());
}

void bench_ffn(const Options& o) {
  const std::vector<FfnConfig> configs =
      o.configs.empty() ? ffn_space() : configs_of_labels("--configs", o.configs);
  const std::vector<int> tokens = tokens_of(o);
  Session s(o, 32);
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

void bench_select(const Options& o) {
  const std::vector<int> pairs = parse_numbers("--pairs", o.pairs, 1 << 20);
  Policy policy = policy_of(o);
  Session s(o, 1);
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
  auto options = std::make_shared<Options>();
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
  layer->add_flag("--one-launch", options->one_launch,
                  "the whole layer in one launch: up to 1,024 pairs, entries of up to 32 rows");
  layer->add_option("--forced", options->forced,
                    "all: each entry of --menu forced in one kernel, against the same alone");
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
