// SPDX-License-Identifier: Apache-2.0
// `ramp paper`: the paper's tables, figures and claims with our numbers beside its own
// (docs/paper.md).
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "base/whole_file.hpp"
#include "cli/measured_input.hpp"
#include "cli/paper_layouts.hpp"
#include "cli/paper_measure.hpp"
#include "cli/paper_output.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "gpu/cubin_cache.hpp"
#include "kernels/ffn/program.hpp"
#include "kernels/ffn/space.hpp"
#include "lab/paper/results.hpp"
#include "lab/paper/svg.hpp"
#include "runtime/kernels.hpp"

namespace ramp::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string result, data = "data";
  std::vector<std::string> files;
  std::string csv, markdown, plot;
  PaperRequest request;
  PaperMeasureFlags measure;
  // The paper's menus: six entries that minimise the training passes' time, whatever each brings.
  MenuFlags menu{PaperRequest{}.menu, 0, "time"};
  bool as_json = false;
};

std::string if_there(const fs::path& path) { return fs::exists(path) ? path.string() : ""; }

// What the repository ships, sorted by name.
std::vector<std::string> shipped_files(const std::string& data, bool of_foreign) {
  const fs::path folder = fs::path(data) / (of_foreign ? "h200/foreign" : "h200");
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".rmeas") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<MeasuredFile> read_files(const std::vector<std::string>& paths) {
  std::vector<MeasuredFile> files;
  for (const std::string& path : paths) files.push_back({path, read_measured(path)});
  return files;
}

// Those named; else the shipped ones, where a row of another kernel is not ours to put beside the
// paper's.
std::vector<MeasuredFile> input_files(const Options& options, bool of_foreign) {
  if (!options.files.empty()) return read_files(options.files);
  std::vector<MeasuredFile> files = read_files(shipped_files(options.data, of_foreign));
  if (files.empty() && !of_foreign && options.measure.layouts.empty())
    throw Error("--data", "'" + options.data + "'", "a folder with h200/*.rmeas",
                "run in the repository, or name measurement files: ramp paper RESULT FILE ...");
  std::erase_if(files, [&](const MeasuredFile& file) { return file.is_imported() != of_foreign; });
  return files;
}

MenuResources compiled_resources(const std::vector<Candidate>& menu) {
  std::vector<FfnConfig> configs;
  for (const Candidate& entry : menu) configs.push_back(ffn_from_knobs(entry.knobs));
  require_legal_menu(configs);
  gpu::CubinCache cache;
  const CompiledMenu compiled = compile_menu(configs, cache);
  return {compiled.registers, compiled.shared_bytes};
}

using Asked = std::vector<const PaperResult*>;

Asked asked_results(const Options& options) {
  if (options.result != kAllResults) return {&paper_result(options.result)};
  if (!options.csv.empty() || !options.plot.empty())
    throw Error(options.csv.empty() ? "--plot" : "--csv", "a file for " + options.result,
                "one result a file", "ask for one result, or for --markdown or --json");
  Asked all;
  for (const PaperResult& result : paper_results()) all.push_back(&result);
  return all;
}

std::vector<PaperLayout> layouts_of(const Asked& asked, const std::vector<MeasuredFile>& files,
                                    const Options& options) {
  TraceFolder traces((fs::path(options.data) / "traces").string());
  if (!options.measure.layouts.empty())
    return layouts_of_list(options.measure.layouts, files, traces);
  std::vector<PaperLayout> layouts;
  for (const MeasuredFile& file : files) {
    const auto rests_on = [&](const PaperResult* r) { return r->rests_on && r->rests_on(file); };
    if (!file.is_imported() && std::any_of(asked.begin(), asked.end(), rests_on))
      layouts.push_back(layout_like(file, traces));
  }
  return layouts;
}

// Puts what was measured in the place of `files`.  False: only printed.
bool measure(const Asked& asked, const Options& options, std::vector<MeasuredFile>& files,
             std::vector<std::string>& failures) {
  if (std::none_of(asked.begin(), asked.end(), [](const PaperResult* r) { return r->rests_on; })) {
    if (asked[0]->of_foreign)
      throw Error("--measure", asked[0]->name, "results of ramp's own kernel",
                  "docs/foreign-kernels.md says how another one is timed");
    fmt::print(stderr, "{} rests on no times: nothing to measure\n", asked[0]->name);
    return !options.measure.print;
  }
  std::vector<PaperLayout> layouts = layouts_of(asked, files, options);
  if (layouts.empty())
    throw Error("--measure", options.result, "a result that one of the files is for",
                "say which layouts, as --layouts olmoe:ep8,olmoe:tp2; docs/paper.md says what each "
                "result rests on");
  finish_layouts(layouts, options.measure, options.data);
  if (options.measure.print) {
    print_layouts(layouts);
    return false;
  }
  PaperMeasured measured = measure_layouts(layouts);
  failures = std::move(measured.failures);
  files = read_files(measured.files);
  return true;
}

void say(const std::vector<Report>& reports, const PaperRequest& request, const Options& options) {
  const bool is_one = options.result != kAllResults;
  if (options.as_json) {
    nlohmann::json all = nlohmann::json::array();
    for (const Report& report : reports) all.push_back(report_json(report, request));
    fmt::print(
        "{}\n",
        (is_one ? all.at(0) : all).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  for (const Report& report : reports) {
    if (&report != &reports.front()) fmt::print("\n\n");
    print_report(report, request);
  }
}

void write_files(const std::vector<Report>& reports, const Options& options) {
  if (!options.markdown.empty()) {
    std::string text;
    for (const Report& report : reports) text += (text.empty() ? "" : "\n") + markdown_of(report);
    write_whole_file(options.markdown, text);
  }
  if (options.csv.empty() && options.plot.empty()) return;
  const Report& report = reports.front();
  if (!options.csv.empty())
    write_whole_file(options.csv, report.plots.empty() ? csv_of(report) : csv_of(report.plots));
  if (options.plot.empty()) return;
  if (report.plots.empty())
    throw Error("--plot", options.result, "figure3 to figure6, regions",
                "tables have --csv, --markdown");
  write_whole_file(options.plot, svg_of(report.plots));
}

void complete(PaperRequest& request, const Options& options) {
  policy_kind(request.choice), policy_kind(request.beside);
  request.menu = options.menu.menu();
  const fs::path data = options.data;
  request.records = if_there(data / "h200/layer.json");
  request.forced = if_there(data / "h200/polymorphic.json");
  if (request.peers.empty()) request.peers = if_there(data / "h200/peers.json");
  request.trace = if_there(data / "traces/dsv2lite_esft.rtrace");
  request.arrivals = if_there(data / "arrivals/sharegpt300_qwen3_10rps.csv.gz");
  request.compile_menu = compiled_resources;
}

void run(Options& options) {
  const Asked asked = asked_results(options);
  PaperRequest& request = options.request;
  complete(request, options);
  const bool is_all = asked.size() > 1;
  const bool is_named = !options.files.empty();
  request.files = input_files(options, !is_all && asked[0]->of_foreign);
  std::vector<std::string> failures;
  if (options.measure.asked() && !measure(asked, options, request.files, failures)) return;
  const bool is_nothing = request.files.empty() && !failures.empty();
  std::vector<Report> reports;
  for (const PaperResult* result : asked) {
    if (is_nothing) break;
    try {
      if (is_all && result->of_foreign && !is_named) {
        PaperRequest foreign = request;
        foreign.files = input_files(options, true);
        reports.push_back(result->make(foreign));
      } else {
        reports.push_back(result->make(request));
      }
    } catch (const Error& error) {
      if (!is_all) throw;
      failures.push_back(fmt::format("{}: {}", result->name, error.what()));
    }
  }
  if (!reports.empty()) {
    write_files(reports, options);
    say(reports, request, options);
  }
  if (failures.empty()) return;
  std::string text = "not everything could be made:";
  for (const std::string& failure : failures) text += "\n  " + failure;
  throw Error(text);
}

std::string described_results() {
  Table table({"<", "<"});
  for (const PaperResult& result : paper_results()) table.add({result.name, result.summary});
  return table.text();
}

}  // namespace

void add_paper(CLI::App& app) {
  CLI::App* verb = app.add_subcommand(
      "paper", "The paper's tables, figures and claims, our numbers beside its own");
  auto options = std::make_shared<Options>();
  verb->add_option("result", options->result, "one of the list below, or all")->required();
  verb->add_option("files", options->files,
                   "measurements (.rmeas); default: those that the repository ships");
  verb->add_option("--data", options->data,
                   "folder of what the repository ships: measurements, layer records, traces")
      ->capture_default_str();
  verb->add_option(
      "--peers", options->request.peers,
      "figure5, table11: a side-by-side record of whole layers with vLLM's Triton MoE; "
      "default DATA/h200/peers.json if there");
  verb->add_option("--choice", options->request.choice,
                   "the policy that stands for the paper's choice over the full space")
      ->capture_default_str();
  verb->add_option("--beside", options->request.beside, "another policy, shown beside it")
      ->capture_default_str();
  add_menu_flags(*verb, options->menu);
  verb->add_option("--large", options->request.large_batch,
                   "tokens from which a pass counts as large")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  verb->add_option("--resamples", options->request.resamples, "of the bootstrap intervals")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  verb->add_option("--seed", options->request.seed, "of the bootstrap intervals")
      ->capture_default_str();
  verb->add_option("--csv", options->csv, "also write a CSV: the table, or a figure's series");
  verb->add_option("--markdown", options->markdown, "also write the table as Markdown");
  verb->add_option("--plot", options->plot, "also draw the figure, as SVG");
  verb->add_flag(
      "--regenerate", options->request.regenerate,
      "tables 6 and 7: generate and count again instead of the shipped scores, a minute");
  add_paper_measure_flags(*verb, options->measure);
  verb->add_flag("--json", options->as_json, "for machines");
  verb->footer(
      "Results:\n" + described_results() +
      "\nModel and layout are read from the measurements: any file adds its row.  Rows without one "
      "say so, with\nthe command that would measure them.  Policies are those of `ramp eval`; your "
      "own takes the paper's place\nwith --choice.  docs/paper.md says how our definitions map to "
      "the paper's.\n\n"
      "Examples:\n"
      "  ramp paper table3\n"
      "  ramp paper figure6 --plot figure6.svg\n"
      "  ramp paper table3 --measure --print\n"
      "  ramp paper all --measure --into build/paper --minutes 1\n"
      "  ramp paper table11 --measure --layouts olmoe:tp2,olmoe:tp4\n"
      "  ramp paper table9 my-model-ep16.rmeas --markdown table9.md\n"
      "  ramp paper table3 --choice cost-model-weighted --json");
  verb->callback([options] { run(*options); });
}

}  // namespace ramp::cli
