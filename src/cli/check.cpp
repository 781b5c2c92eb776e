// SPDX-License-Identifier: Apache-2.0
// `ramp check`: whether every configuration computes what the reference computes, on this GPU.  A
// configuration that is wrong is never timed, so this comes before `bench` and `profile`.
#include "runtime/check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/build.hpp"
#include "base/error.hpp"
#include "base/whole_file.hpp"
#include "choice/plan.hpp"
#include "cli/gpu_options.hpp"
#include "cli/progress.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "kernels/ffn/space.hpp"
#include "runtime/soak.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string configs, shape;
  std::string family;
  bool all = false, list = false, small = false, no_menus = false, as_json = false;
  std::string file;
  int seeds = 1, soak = 0;
  std::string plan;
  std::uint64_t seed = 1;
  int device = 0;
};

void print_list(const std::vector<FfnConfig>& configs, bool as_json) {
  json rows = json::array();
  Table table({"<configuration", "rows", "columns", "stages", "shared memory"});
  for (const FfnConfig& c : configs) {
    rows.push_back({{"config", ffn_label(c)},
                    {"knobs", json::parse(ffn_knobs(c))},
                    {"smem_bytes", ffn_shared_bytes(c)},
                    {"occupancy", ffn_occupancy(c)}});
    table.add({ffn_label(c), std::to_string(c.rows), std::to_string(c.cols),
               std::to_string(c.stages), std::to_string(ffn_shared_bytes(c))});
  }
  if (as_json)
    fmt::print("{}\n", json{{"configs", rows}}.dump());
  else
    fmt::print("{} configurations:\n{}", rows.size(), table.text());
}

std::vector<FfnConfig> configs_of(const Options& options) {
  if (options.all && !options.configs.empty())
    throw Error("--all and --configs", "both", "one of them", "");
  if (!options.family.empty() && !is_ffn_family(options.family))
    throw Error("--family", options.family, kFfnFamilies, "leave it out for every family");
  std::vector<FfnConfig> configs =
      options.configs.empty() ? ffn_space() : configs_of_labels("--configs", options.configs);
  if (!options.family.empty())
    std::erase_if(configs, [&](const FfnConfig& c) { return ffn_family(c) != options.family; });
  return configs;
}

// What is known of one configuration when its last record is in.
struct Verdict {
  int cases = 0, wrong = 0;
  double rel_err = 0, tolerance = 0;  // of the case nearest to its tolerance
  bool is_refused = false;
  std::string first_wrong;

  void add(const CheckRecord& r) {
    is_refused = is_refused || r.test == "compile";
    ++cases;
    wrong += !r.ok;
    if (!r.ok && first_wrong.empty()) first_wrong = r.test + ": " + r.detail;
    if (tolerance == 0 || r.rel_err * tolerance > rel_err * r.tolerance)
      rel_err = r.rel_err, tolerance = r.tolerance;
  }
  std::string text() const { return is_refused ? "refused" : wrong > 0 ? "WRONG" : "right"; }
};

void require_soak_alone(const Options& o) {
  const std::pair<const char*, bool> others[] = {
      {"--all", o.all},     {"--configs", !o.configs.empty()}, {"--family", !o.family.empty()},
      {"--small", o.small}, {"--seeds", o.seeds != 1},         {"--no-menus", o.no_menus}};
  for (const auto& [flag, given] : others)
    if (given)
      throw Error(fmt::format("--soak and {}", flag), "both", "one of them",
                  "a soak runs the default menu, or that of --plan");
  if (!o.plan.empty() && !o.shape.empty())
    throw Error("--plan and --shape", "both", "one of them", "the plan says the shape");
}

std::vector<SoakLayer> soak_layers(const Options& o, const gpu::DeviceInfo& device) {
  if (!o.plan.empty()) return {plan_soak(read_plan(o.plan), device)};
  return default_soak(
      device, o.shape.empty() ? soak_setting() : soak_setting(shape_of_text("--shape", o.shape)));
}

json number(double x) { return std::isfinite(x) ? json(x) : json(nullptr); }

void run(const Options& options) {
  if (options.list) return print_list(configs_of(options), options.as_json);
  if (options.soak > 0) require_soak_alone(options);
  if (options.soak == 0 && !options.plan.empty())
    throw Error("--plan", options.plan, "nothing without --soak",
                "`ramp check` runs configurations, not plans");
  CheckOptions check;
  check.configs = configs_of(options);
  if (!options.shape.empty()) {
    check.shapes = {shape_of_text("--shape", options.shape)};
    check.own_settings = false;
  }
  check.seeds = options.seeds;
  check.first_seed = options.seed;
  check.small = options.small;
  check.menus = !options.no_menus;

  const OpenGpu gpu(options.device);
  json records = json::array();
  std::map<std::string, Verdict> verdicts;
  std::vector<std::string> order;
  int wrong = 0, refused = 0;
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  const auto finish = [&] {
    json document = {{"gpu", gpu.context.info().name},
                     {"commit", build_commit()},
                     {"date", today()},
                     {"seeds", options.seeds},
                     {"records", records}};
    if (options.soak > 0)
      document["soak"] = {{"replays", options.soak}, {"seed", options.seed}, {"seconds", spent()}};
    if (!options.file.empty()) write_whole_file(options.file, document.dump(1) + "\n");
    if (options.as_json) fmt::print("{}\n", document.dump());
  };
  CheckEvents events;
  std::unique_ptr<Progress> bar;
  events.compiling = [&](std::size_t done, std::size_t total) {
    if (!bar) bar = std::make_unique<Progress>("compiling");
    bar->update(static_cast<double>(done), static_cast<double>(total));
    if (done == total) bar.reset();
  };
  std::string current;
  events.progress = [&](double done, double total, const std::string& config) {
    if (!bar || done == 0) bar = std::make_unique<Progress>("checking");
    bar->update(done, total);
    current = config;
  };
  events.record = [&](const CheckRecord& r) {
    if (!verdicts.count(r.config)) order.push_back(r.config);
    verdicts[r.config].add(r);
    if (!r.ok) ++(r.test == "compile" ? refused : wrong);
    json row = {{"config", r.config},       {"case", r.test}, {"rel_err", number(r.rel_err)},
                {"tolerance", r.tolerance}, {"ok", r.ok},     {"gpu", gpu.context.info().name},
                {"commit", build_commit()}, {"date", today()}};
    if (!r.detail.empty()) row["detail"] = r.detail;
    records.push_back(std::move(row));
  };
  const auto stop_at = [&](const Error& e) {
    bar.reset();
    events.record({.config = current, .test = "the end", .ok = false, .detail = e.what()});
    finish();
  };
  events.hung = [&](const Hung& e) {
    stop_at(e);
    fmt::print(stderr, "ramp: {}: {}\n", current, e.what());
    std::fflush(nullptr);
    std::_Exit(1);  // destructors would wait for the GPU
  };
  try {
    if (options.soak > 0)
      run_soak(gpu.context, *gpu.cache, soak_layers(options, gpu.context.info()),
               {options.soak, options.seed}, events);
    else
      run_check(gpu.context, *gpu.cache, check, events);
  } catch (const Hung& e) {
    events.hung(e);
  } catch (const gpu::CudaError& e) {
    stop_at(e);
    fmt::print(stderr, "ramp: {}: {}; next: check the others with --configs\n", current, e.what());
    std::fflush(nullptr);
    std::_Exit(1);
  }
  bar.reset();
  finish();
  if (options.soak > 0 && !options.as_json)
    fmt::print("{} replays of each captured layer, seed {}, {:.1f} s\n", options.soak, options.seed,
               spent());
  if (!options.as_json) {
    Table table(
        {"<configuration", "cases", "worst error", "allowed", "<verdict", "<first thing wrong"});
    for (const std::string& config : order) {
      const Verdict& v = verdicts[config];
      table.add({config, std::to_string(v.cases), fmt::format("{:.5f}", v.rel_err),
                 fmt::format("{:.5f}", v.tolerance), v.text(), v.first_wrong});
    }
    fmt::print(
        "{}\n{}, commit {}, {}: {} configurations and menus, {} cases, {} wrong, {} refused\n",
        table.text(), gpu.context.info().name, build_commit(), today(), order.size(),
        records.size(), wrong, refused);
  }
  if (wrong > 0 || (refused > 0 && !options.configs.empty()))
    throw Error("check", fmt::format("{} cases wrong, {} configurations refused", wrong, refused),
                "none", "see the table; don't time or serve these");
}

}  // namespace

void add_check(CLI::App& app) {
  CLI::App* verb =
      app.add_subcommand("check", "Check the numbers of every configuration on the GPU");
  auto options = std::make_shared<Options>();
  verb->add_option("--configs", options->configs, "labels, comma-separated; default: all");
  verb->add_flag("--all", options->all, "every configuration (the default)");
  verb->add_option("--family", options->family, "every configuration of a family: f1 or f3");
  verb->add_option("--shape", options->shape,
                   "E,d,h,k: experts of this GPU, hidden, intermediate, experts a token; default: "
                   "shapes that are awkward in every way");
  verb->add_option("--seeds", options->seeds, "times with fresh inputs")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->add_option("--seed", options->seed, "the first seed")->capture_default_str();
  verb->add_option("--device", options->device, "the GPU's number")->capture_default_str();
  verb->add_flag("--small", options->small,
                 "one little case a configuration, for compute-sanitizer");
  verb->add_flag("--no-menus", options->no_menus, "leave out the polymorphic menus");
  verb->add_option("--soak", options->soak,
                   "instead: so many replays (10,000) of captured layers over random loads")
      ->check(CLI::Range(1, 100'000'000))
      ->expected(0, 1)
      ->default_str(std::to_string(kSoakReplays));
  verb->add_option("--plan", options->plan, "soak the menus of a plan, in its mode");
  verb->add_flag("--list", options->list, "print the labels and stop");
  verb->add_flag("--json", options->as_json, "every case, for machines");
  verb->add_option("-o,--output", options->file, "write the same to a file");
  verb->footer(
      "Each case poisons the output, runs the layer and compares with the reference in double\n"
      "precision; what the choice left behind is compared bit for bit.  Exit code 1 when anything "
      "is wrong.\n"
      "Examples:\n"
      "  ramp check                                   all configurations, under a minute\n"
      "  ramp check --configs f1-r8-c256-s6-w2-static --shape 8,2048,1024,8\n"
      "  compute-sanitizer ramp check --small         memory errors\n"
      "  ramp check --soak                            rare faults: a wrong replay is named by seed "
      "and number");
  verb->callback([options] { run(*options); });
}

}  // namespace ramp::cli
