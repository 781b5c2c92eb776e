// SPDX-License-Identifier: Apache-2.0
// `ramp report`: one self-contained HTML page about a run (docs/report.md).
#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "base/build.hpp"
#include "base/error.hpp"
#include "base/whole_file.hpp"
#include "cli/measured_input.hpp"
#include "cli/paper_output.hpp"
#include "cli/verbs.hpp"
#include "kernels/device_code.hpp"
#include "lab/page/html.hpp"
#include "lab/page/run.hpp"
#include "problem/catalog.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

constexpr const char* kDefaultOut = "report.html";

struct Options {
  std::string measurements, plan, out;
  bool allow_edited = false, as_json = false;
  MenuFlags menu;
  RunRequest request;
};

// As the shell would have it.
std::string quoted(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+=,:@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Every flag that is not its default, so that the page can be made again.
std::string command_of(const Options& o) {
  const Options usual;
  std::string command = "ramp report " + quoted(o.measurements);
  const auto add = [&](const char* flag, const std::string& value, const std::string& unset) {
    if (value != unset) command += fmt::format(" {} {}", flag, quoted(value));
  };
  const auto number = [&](const char* flag, auto value, auto unset) {
    add(flag, std::to_string(value), std::to_string(unset));
  };
  const RunRequest &r = o.request, &u = usual.request;
  add("--plan", o.plan, "");
  if (o.allow_edited) command += " --allow-edited";
  add("--layer", r.layer, "");
  add("--peers", r.peers, "");
  add("--present", r.present, u.present);
  add("--choice", r.choice, u.choice);
  number("--layers", r.layers, 0);
  number("--menu", o.menu.options.entries, usual.menu.options.entries);
  number("--menus", o.menu.options.menus, usual.menu.options.menus);
  add("--occupancy", o.menu.options.occupancy, "");
  add("--objective", o.menu.objective, usual.menu.objective);
  number("--large", r.evaluate.large_batch, u.evaluate.large_batch);
  number("--resamples", r.evaluate.resamples, u.evaluate.resamples);
  number("--seed", r.evaluate.seed, u.evaluate.seed);
  return command + " -o " + quoted(o.out.empty() ? kDefaultOut : o.out);
}

json page_json(const Page& page) {
  json out = {{"title", page.title},
              {"subtitle", page.subtitle},
              {"warnings", page.warnings},
              {"headlines", json::array()},
              {"sections", json::array()}};
  for (const Headline& h : page.headlines)
    out["headlines"].push_back({{"name", h.name}, {"value", h.value}, {"more", h.more}});
  for (const PageSection& section : page.sections) {
    json facts = json::object(), tables = json::array();
    for (const Fact& fact : section.facts) facts[fact.name] = fact.value;
    for (const Report& part : section.parts) tables.push_back(table_json(part));
    out["sections"].push_back({{"id", section.id},
                               {"title", section.title},
                               {"says", section.says},
                               {"facts", facts},
                               {"tables", tables},
                               {"commands", section.commands}});
  }
  return out;
}

// The output replaces whatever is there, so it must not be what the page is made of.
void check_out(const Options& o) {
  std::error_code ignored;
  for (const std::string& input : {o.measurements, o.plan, o.request.layer, o.request.peers})
    if (!input.empty() && std::filesystem::equivalent(input, o.out, ignored))
      throw Error("--out", o.out, "a file that the page is not made of",
                  "name another, as -o report.html");
}

void run(Options options) {
  RunRequest& request = options.request;
  const std::string next = "`ramp eval --help` says what each does";
  policy_kind(request.present, "--present", next);
  policy_kind(request.choice, "--choice", next);
  request.command = command_of(options);
  if (options.out.empty() && !options.as_json) options.out = kDefaultOut;
  if (!options.out.empty()) check_out(options);

  const std::string& path = options.measurements;
  request.file = {path, read_measured(path)};
  request.configs = load_configs(path);
  request.campaign = load_campaign_record(path);
  request.plan_path = options.plan;
  if (!options.plan.empty())
    request.plan = read_plan(options.plan, {.allow_edited = options.allow_edited});
  request.evaluate.baseline = request.present;
  request.evaluate.policy.menu = options.menu.menu(request.file.space.provenance.kernel);
  if (const Model* model = find_model_or_null(request.file.space.provenance.model);
      model && request.layers == 0)
    request.layers = model->moe_layers;
  request.sources = device_sources_hash();
  request.program = fmt::format("ramp {} ({})", build_version(), build_commit());
  request.today = today();

  const Page page = run_page(request);
  if (!options.out.empty()) write_whole_file(options.out, html_of(page));
  if (options.as_json) {
    fmt::print("{}\n", page_json(page).dump(2, ' ', false, json::error_handler_t::replace));
    return;
  }
  fmt::print("{}\n{}\n\n", page.title, page.subtitle);
  for (const std::string& warning : page.warnings) fmt::print("note: {}\n", warning);
  for (const Headline& h : page.headlines) fmt::print("{}: {} ({})\n", h.name, h.value, h.more);
  fmt::print("\nwritten to {}\n", options.out);
}

}  // namespace

void add_report(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("report",
                                      "One HTML page about a run: is it worth it, tables, plots, "
                                      "provenance");
  auto options = std::make_shared<Options>();
  RunRequest& request = options->request;
  verb->add_option("measurements", options->measurements, "a .rmeas of `ramp profile`")->required();
  verb->add_option(
      "-o,--out", options->out,
      std::string("the page to write; default: ") + kDefaultOut + ", and none beside --json");
  verb->add_option("--plan", options->plan,
                   "the plan that is served; default: what `ramp plan make` makes of the file");
  verb->add_flag("--allow-edited", options->allow_edited,
                 "read the plan though its identity does not match its content");
  verb->add_option("--layer", request.layer,
                   "records of `ramp bench layer --json`: layers above their floor");
  verb->add_option("--peers", request.peers,
                   "records with other people's layers beside ours (docs/paper.md)");
  verb->add_option("--present", request.present, "the policy in use now; those of `ramp eval`")
      ->capture_default_str();
  verb->add_option("--choice", request.choice, "the policy to change to")->capture_default_str();
  verb->add_option("--layers", request.layers,
                   "the model's layers with experts; default: the catalog's")
      ->check(CLI::Range(1, 1000));
  add_menu_flags(*verb, options->menu);
  verb->add_option("--large", request.evaluate.large_batch,
                   "tokens from which a pass counts as large")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  verb->add_option("--resamples", request.evaluate.resamples, "of the bootstrap intervals")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  verb->add_option("--seed", request.evaluate.seed, "of the bootstrap intervals")
      ->capture_default_str();
  verb->add_flag("--json", options->as_json, "the page's content for machines");
  verb->footer(
      "The page needs nothing but itself: mail it, print it, keep it beside the measurements. It "
      "says what `eval`,\n`fit`, `advise` and `plan show` say of the file, with plots, and ends "
      "with the commands that make it again.\ndocs/report.md goes through it.\n\n"
      "Examples:\n"
      "  ramp report olmoe_ep8.rmeas -o olmoe.html\n"
      "  ramp report data/h200/olmoe-ep8.rmeas --layer data/h200/layer.json --peers "
      "data/h200/peers.json -o olmoe.html\n"
      "  ramp report mine.rmeas --plan mine.plan.json --present fixed --json");
  verb->callback([options] { run(*options); });
}

}  // namespace ramp::cli
