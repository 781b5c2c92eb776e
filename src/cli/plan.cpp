// SPDX-License-Identifier: Apache-2.0
// `ramp plan`: make a plan of measurements, show one, explain what it does with a load, verify it;
// plan_diff.cpp compares two, plan_export.cpp writes what other kernels read.
#include <fmt/core.h>

#include <cmath>
#include <memory>

#include "base/error.hpp"
#include "choice/explain.hpp"
#include "choice/sizes.hpp"
#include "choice/tune.hpp"
#include "cli/load_input.hpp"
#include "cli/measured_input.hpp"
#include "cli/plan_diff.hpp"
#include "cli/plan_export.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "gpu/cubin_cache.hpp"
#include "kernels/ffn/program.hpp"
#include "kernels/ffn/space.hpp"
#include "problem/calibration.hpp"
#include "problem/catalog.hpp"
#include "runtime/kernels.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string plan, measurements, out = "plan.json";
  std::string load, counts_file;
  int tokens = 0;
  MenuFlags menu;
  bool allow_edited = false, as_json = false;
  bool compile = false;
};

Plan open_plan(const Options& options) {
  Plan plan = read_plan(options.plan, {.allow_edited = options.allow_edited});
  for (const std::string& warning : plan.warnings)
    fmt::print(stderr, "warning: {}: {}\n", options.plan, warning);
  return plan;
}

std::string or_unknown(const std::string& text) { return text.empty() ? "unknown" : text; }

// ---- show

void print_menu(int up_to, const Plan& part) {
  fmt::print("menu of {}{}, occupancy class {}:\n\n", part.menu.size(),
             up_to ? fmt::format(" for passes of up to {} tokens", up_to) : "",
             or_unknown(part.occupancy));
  Table table({"entry", "<configuration", "<rows x columns / slots", "fixed us", "a wave", "a tile",
               "an expert", "error %", "registers", "smem KB"});
  for (size_t i = 0; i < part.menu.size(); ++i) {
    const PlanEntry& e = part.menu[i];
    table.add({std::to_string(i), e.label, grid_words(e.grid), fmt::format("{:.2f}", e.theta.fixed),
               fmt::format("{:.3f}", e.theta.wave), fmt::format("{:.4f}", e.theta.tile),
               fmt::format("{:.3f}", e.theta.expert), percent(e.median_error),
               e.registers ? std::to_string(e.registers) : "-",
               e.smem_bytes ? fmt::format("{:.0f}", e.smem_bytes / 1024.0) : "-"});
  }
  fmt::print("{}\n", table.text());
}

void print_plan(const Plan& plan) {
  const PlanProvenance& p = plan.provenance;
  fmt::print("{} on {}: {} experts a GPU, top {}, d {}, h {}; mode {}\n", or_unknown(plan.model),
             or_unknown(plan.layout), plan.shape.experts, plan.shape.top_k, plan.shape.hidden,
             plan.shape.intermediate, plan.mode);
  fmt::print("for {}{}{}\n", or_unknown(plan.gpu.name),
             plan.gpu.cc_major
                 ? fmt::format(", compute capability {}.{}", plan.gpu.cc_major, plan.gpu.cc_minor)
                 : "",
             plan.gpu.sms ? fmt::format(", {} SMs", plan.gpu.sms) : "");
  for_each_part(plan, print_menu);
  const PlanQuality& q = plan.quality;
  fmt::print("held-out passes   {}\n", q.test_passes);
  fmt::print(
      "gap to exhaustive {} %, over the best single configuration {}, over vLLM's tuning {}\n",
      percent(q.gap, 2), times(q.speedup_over_fixed), times(q.speedup_over_vllm));
  fmt::print(
      "predictions       {} % off in the median; rank correlation {:.3f} (two runs: {:.3f})\n",
      percent(q.median_error), q.rank_correlation, q.rank_of_two_runs);
  fmt::print("menu              {} % slower than the full space on the training passes\n",
             percent(q.menu_loss, 2));
  fmt::print("verdict           {}\n\n", verdict(plan).text);
  fmt::print("measured on       {}, driver {}, {}, sources {}, commit {}\n",
             or_unknown(p.measured_on), or_unknown(p.driver), or_unknown(p.toolkit),
             or_unknown(p.sources), or_unknown(p.commit));
  const HowMeasured how = parse_how(p.how);
  fmt::print("how               {}\n", or_unknown(how.how));
  fmt::print("timed             {}\n", or_unknown(how.timed));
  if (!how.thin.empty())
    fmt::print("WARNING           {}; measure more: `ramp tune` with more --minutes\n", how.thin);
  fmt::print("routing           {}\n", or_unknown(p.routing));
  if (const std::string note = calibration_note(p.routing); !note.empty())
    fmt::print("                  {}\n", note);
  fmt::print("measurements      {}\n", or_unknown(p.measurements));
  fmt::print("planned on        {} by {}\n", or_unknown(p.planned_on), or_unknown(p.planned_by));
  fmt::print("identity          {}{}\n", plan.identity,
             plan.edited ? "  EDITED: does not match the content" : "");
}

void show(const Options& options) {
  const Plan plan = open_plan(options);
  if (options.as_json) {
    fmt::print("{}", plan_text(plan));
    return;
  }
  print_plan(plan);
}

// ---- explain

json explanation_json(const Plan& whole, const Explanation& e) {
  const Plan& plan = plan_for(whole, e.tokens);
  json out = {{"load", e.load},         {"pairs", e.pairs},   {"entry", e.ranked[0].entry},
              {"because", e.because},   {"tokens", e.tokens}, {"tokens_assumed", e.tokens_assumed},
              {"ranked", json::array()}};
  out["up_to"] = nullptr;  // of the menu: null is that of the largest passes
  for (const SizedPlan& sized : whole.smaller)
    if (&sized.plan == &plan) out["up_to"] = sized.up_to;
  out["batch_table_entry"] = e.table_entry < 0 ? json(nullptr) : json(e.table_entry);
  for (const ExplainedEntry& x : e.ranked)
    out["ranked"].push_back({{"entry", x.entry},
                             {"label", plan.menu[x.entry].label},
                             {"predicted_us", x.predicted_us},
                             {"waves", x.features.waves},
                             {"tiles", x.features.tiles},
                             {"active", x.features.active},
                             {"fixed_us", x.fixed_us},
                             {"waves_us", x.waves_us},
                             {"tiles_us", x.tiles_us},
                             {"experts_us", x.experts_us}});
  return out;
}

void print_explanation(const Plan& whole, const Explanation& e) {
  const Plan& plan = plan_for(whole, e.tokens);
  fmt::print("load: {} pairs on {} of {} experts\n", e.pairs, e.ranked[0].features.active,
             e.load.size());
  if (!whole.smaller.empty())
    fmt::print("menu of passes like one of {} tokens{}: class {}\n", e.tokens,
               e.tokens_assumed ? " (if the load were even over the GPUs; --tokens says)" : "",
               or_unknown(plan.occupancy));
  fmt::print("\n");
  Table table({"entry", "<configuration", "predicted us", "= fixed", "+ waves", "+ tiles",
               "+ experts", "waves", "tiles", "<"});
  for (size_t i = 0; i < e.ranked.size(); ++i) {
    const ExplainedEntry& x = e.ranked[i];
    table.add(
        {std::to_string(x.entry), plan.menu[x.entry].label, fmt::format("{:.2f}", x.predicted_us),
         fmt::format("{:.2f}", x.fixed_us), fmt::format("{:.2f}", x.waves_us),
         fmt::format("{:.2f}", x.tiles_us), fmt::format("{:.2f}", x.experts_us),
         std::to_string(x.features.waves), std::to_string(x.features.tiles),
         i == 0 ? "runs"
                : fmt::format("+{:.1f} %", 100 * (x.predicted_us / e.ranked[0].predicted_us - 1))});
  }
  fmt::print("{}\n{}.\n", table.text(), e.because);
  if (e.table_entry < 0) return;
  float table_us = 0;
  for (const ExplainedEntry& x : e.ranked)
    if (x.entry == e.table_entry) table_us = x.predicted_us;
  const std::string batch =
      fmt::format("a pass of {} tokens{}", e.tokens,
                  e.tokens_assumed ? " (if the load were even over the GPUs)" : "");
  if (e.table_entry == e.ranked[0].entry)
    fmt::print("A batch-size table would run the same for {}.\n", batch);
  else
    fmt::print(
        "A batch-size table would run entry {} ({}) for {}: {:.2f} us predicted, {:.1f} % more.\n",
        e.table_entry, plan.menu[e.table_entry].label, batch, table_us,
        100 * (table_us / e.ranked[0].predicted_us - 1));
}

void explain_loads(const Options& options) {
  const std::vector<std::vector<int>> loads = read_loads(options.load, options.counts_file);
  const Plan plan = open_plan(options);
  json out = json::array();
  for (size_t i = 0; i < loads.size(); ++i) {
    const Explanation e = explain(plan, loads[i], options.tokens);
    if (options.as_json)
      out.push_back(explanation_json(plan, e));
    else
      fmt::print("{}", i ? "\n" : ""), print_explanation(plan, e);
  }
  if (options.as_json) fmt::print("{}\n", out.dump(2));
}

// ---- verify

// The knobs of every entry, legal for this program; with --compile the menu's kernels go into the
// cache, so that serving finds them.  A plan for kernels that are not ours has other knobs, which
// only they can judge.
std::string verify_entries(const Plan& plan, bool compile) {
  std::vector<FfnConfig> menu;
  for (const PlanEntry& entry : plan.menu)
    if (compile || is_ffn_family(json::parse(entry.knobs).value("family", "")))
      menu.push_back(ffn_from_knobs(entry.knobs));
  if (menu.size() < plan.menu.size()) return "of another kernel than ramp's: not judged";
  require_legal_menu(menu);
  if (!compile) return "legal for this program";
  gpu::CubinCache cache;
  const CompiledMenu compiled = compile_menu(menu, cache);
  return fmt::format("legal; compiled into {}: {} registers, {} bytes of shared memory",
                     cache.enabled() ? cache.directory() : "nothing (" + cache.why_disabled() + ")",
                     compiled.registers, compiled.shared_bytes);
}

void verify(const Options& options) {
  const Plan plan = read_plan(options.plan, {.allow_edited = options.allow_edited});
  std::string knobs;
  size_t entries = 0;
  for_each_part(plan, [&](int, const Plan& part) {
    knobs = verify_entries(part, options.compile);
    entries += part.menu.size();
  });
  if (options.as_json) {
    fmt::print("{}\n", json{{"plan", options.plan},
                            {"ok", true},
                            {"identity", plan.identity},
                            {"edited", plan.edited},
                            {"entries", entries},
                            {"warnings", plan.warnings}}
                           .dump(2));
    return;
  }
  fmt::print("structure  whole, version and fields known\n");
  fmt::print("identity   {}\n",
             plan.edited ? "does not match: the plan was edited" : plan.identity + ", matches");
  fmt::print(
      "menus      {}, {} entries, coefficients finite and not negative, one occupancy class each\n",
      plan.smaller.size() + 1, entries);
  fmt::print("knobs      {}\n", knobs);
  for (const std::string& warning : plan.warnings) fmt::print("warning    {}\n", warning);
  fmt::print("The plan is legal{}.\n", plan.edited ? ", and unverified" : "");
}

// ---- make

// What the catalog knows of a GPU by its product name; a plan made on the machine itself knows
// more.
void add_gpu_facts(Plan& plan) {
  PlanGpu gpu = plan.gpu;
  for (const GpuSpec& spec : catalog_gpus())
    if (gpu.name == spec.product) gpu.sms = spec.sms;
  set_gpu(plan, gpu);
}

void make(const Options& options) {
  const MeasuredSpace space = read_measured(options.measurements);
  Plan plan = plan_of_mode(space, options.menu);
  add_gpu_facts(plan);
  write_plan(options.out, plan);
  if (options.as_json) {
    const Verdict said = verdict(plan);
    fmt::print("{}\n", json{{"plan", options.out},
                            {"identity", plan.identity},
                            {"entries", plan.menu.size()},
                            {"worth_it", said.known ? json(said.worth_it) : json(nullptr)},
                            {"verdict", said.text}}
                           .dump(2));
    return;
  }
  print_plan(plan);
  fmt::print("\nwritten to {}\n", options.out);
}

CLI::App* add_part(CLI::App* verb, const char* name, const char* what,
                   std::shared_ptr<Options> options, void (*run)(const Options&)) {
  CLI::App* part = verb->add_subcommand(name, what);
  part->add_flag("--json", options->as_json, "for machines");
  part->callback([options, run] { run(*options); });
  return part;
}

void add_plan_file(CLI::App* part, Options& options) {
  part->add_option("plan", options.plan, "a plan file")->required();
  part->add_flag("--allow-edited", options.allow_edited,
                 "read it though its identity does not match its content");
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* verb =
      app.add_subcommand("plan", "Make, show, explain, verify, compare and export plans");
  verb->require_subcommand(1);
  auto options = std::make_shared<Options>();

  CLI::App* make_part =
      add_part(verb, "make", "Fit, choose the menu and write the plan", options, make);
  make_part->add_option("measurements", options->measurements, "a .rmeas of `ramp profile`")
      ->required();
  make_part->add_option("-o,--out", options->out, "the plan to write")->capture_default_str();
  add_menu_flags(*make_part, options->menu);
  make_part->footer("Example:\n  ramp plan make olmoe_ep8.rmeas --menu 6 -o olmoe_ep8.plan.json");

  CLI::App* show_part =
      add_part(verb, "show", "The menu, what it promises and where it comes from", options, show);
  add_plan_file(show_part, *options);
  show_part->footer("Example:\n  ramp plan show olmoe_ep8.plan.json");

  CLI::App* explain_part =
      add_part(verb, "explain", "Which entry runs for a load, and why", options, explain_loads);
  add_plan_file(explain_part, *options);
  explain_part->add_option("--load", options->load, "tokens of each local expert, as 8,8,0,30");
  explain_part->add_option("--counts-file", options->counts_file, "the same, one load a line");
  explain_part
      ->add_option("--tokens", options->tokens,
                   "tokens of the pass: its menu, and the batch-size table's entry")
      ->check(CLI::Range(1, 1 << 24));
  explain_part->footer(
      "Predicted us = fixed + waves + tiles + active experts, each count times its coefficient "
      "(Eq. 3).\n"
      "Example:\n  ramp plan explain olmoe_ep8.plan.json --load 30,30,30,30,1,1,1,0");

  CLI::App* verify_part = add_part(
      verb, "verify", "Check structure, identity and legality, without a GPU", options, verify);
  add_plan_file(verify_part, *options);
  verify_part->add_flag("--compile", options->compile,
                        "compile the menu's kernels into the cache now, so that serving need not");
  verify_part->footer(
      "Example:\n  ramp plan verify olmoe_ep8.plan.json\n  ramp plan verify --compile "
      "olmoe_ep8.plan.json");

  add_plan_diff(*verb);
  add_plan_export(*verb);

  verb->footer(
      "Example:\n  ramp plan make olmoe_ep8.rmeas -o olmoe_ep8.plan.json && ramp plan show "
      "olmoe_ep8.plan.json");
}

}  // namespace ramp::cli
