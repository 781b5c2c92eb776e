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
  // The paper's menus: six entries that minimise the training passes' time, whatever each brings.
  MenuFlags menu{{.entries = 6, .menus = 2}, 0, "time"};
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
  if (files.empty() && !of_foreign)
    throw Error("--data", "'" + data + "'", "a folder with h200/*.rmeas",
                "run in the repository, or name measurement files: ramp paper RESULT FILE ...");
  std::sort(files.begin(), files.end());
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

void run(Options& options) {
  const PaperResult& result = paper_result(options.result);
  PaperRequest& request = options.request;
  const bool is_shipped = options.files.empty();
  if (is_shipped) options.files = shipped_files(options.data, result.of_foreign);
  for (const std::string& path : options.files) {
    MeasuredFile file{path, read_measured(path)};
    // A row of another kernel is not ours to put beside the paper's; by name it is.
    if (!is_shipped || file.is_imported() == result.of_foreign)
      request.files.push_back(std::move(file));
  }
  policy_kind(request.choice), policy_kind(request.beside);
  request.menu = options.menu.menu();
  const fs::path data = options.data;
  request.records = if_there(data / "h200/layer.json");
  request.forced = if_there(data / "h200/polymorphic.json");
  if (request.peers.empty()) request.peers = if_there(data / "h200/peers.json");
  request.trace = if_there(data / "traces/dsv2lite_esft.rtrace");
  request.arrivals = if_there(data / "arrivals/sharegpt300_qwen3_10rps.csv.gz");
  request.compile_menu = compiled_resources;
  const Report report = result.make(request);
  if (!options.csv.empty())
    write_whole_file(options.csv, report.plots.empty() ? csv_of(report) : csv_of(report.plots));
  if (!options.markdown.empty()) write_whole_file(options.markdown, markdown_of(report));
  if (!options.plot.empty()) {
    if (report.plots.empty())
      throw Error("--plot", options.result, "figure3 to figure6, regions",
                  "tables have --csv, --markdown");
    write_whole_file(options.plot, svg_of(report.plots));
  }
  if (options.as_json)
    fmt::print(
        "{}\n",
        report_json(report, request).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    print_report(report, request);
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
  verb->add_option("result", options->result, "one of the list below")->required();
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
      "  ramp paper table9 my-model-ep16.rmeas --markdown table9.md\n"
      "  ramp paper table3 --choice cost-model-weighted --json");
  verb->callback([options] { run(*options); });
}

}  // namespace ramp::cli
