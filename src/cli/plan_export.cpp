// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_export.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <set>

#include "base/error.hpp"
#include "base/whole_file.hpp"
#include "choice/explain.hpp"
#include "choice/plan_export.hpp"
#include "cli/load_input.hpp"
#include "cli/measured_input.hpp"
#include "cli/table.hpp"

namespace ramp::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct Options {
  std::string plan, format, traffic, load, counts_file, out;
  std::string dtype = "fp8_w8a8", block_shape = "128,128";
  int tokens = 0;
  bool each_gpu = false, allow_edited = false;
};

// One line a load: who calls the kernel after routing needs no table.
void print_loads(const Options& options, const ExportFormat& format, const Plan& plan) {
  for (const std::vector<int>& load : read_loads(options.load, options.counts_file)) {
    const Explanation e = explain(plan, load, options.tokens);
    const PlanEntry& entry = plan_for(plan, e.tokens).menu[static_cast<size_t>(e.ranked[0].entry)];
    const ordered_json line = {{"load", load},
                               {"tokens", e.tokens},
                               {"configuration", entry.label},
                               {"predicted_us", e.ranked[0].predicted_us},
                               {format.name, exported_entry(format, entry)}};
    fmt::print("{}\n", line.dump());
  }
}

bool has_load(const MeasuredSpace& traffic, int gpu) {
  for (const MeasuredPass& pass : traffic.passes)
    if (pass.load_of_gpu[static_cast<size_t>(gpu)] >= 0 && pass.role != Role::kUniform) return true;
  return false;
}

void write_tables(const Options& options, const ExportFormat& format, const Plan& plan) {
  const MeasuredSpace traffic = read_measured(options.traffic);
  std::vector<std::pair<std::string, std::vector<SizePick>>> tables;  // folder and picks
  if (!options.each_gpu) tables.push_back({"", picks_by_size(plan, traffic, -1)});
  for (int gpu = 0; options.each_gpu && gpu < traffic.gpus; ++gpu) {
    if (has_load(traffic, gpu))
      tables.push_back({fmt::format("gpu{}", gpu), picks_by_size(plan, traffic, gpu)});
    else
      fmt::print(stderr, "warning: {} has no load of GPU {}: it gets no table\n", options.traffic,
                 gpu);
  }
  if (tables.empty())
    throw Error("--each-gpu", "no GPU with a load in " + options.traffic, "one or more",
                "leave it out: uniform draws are of no GPU");
  // The readers take the nearest size, however far it is.
  for (const auto& [name, picks] : tables)
    if (picks.front().tokens > 1)
      fmt::print(stderr, "note: {}passes of fewer than {} tokens will run its entry: {}\n",
                 name.empty() ? "" : name + ": ", picks.front().tokens,
                 "time smaller ones too where you serve them");
  // All of them before the first is written.
  std::vector<ordered_json> texts;
  for (const auto& [name, picks] : tables) texts.push_back(exported_table(format, picks));
  if (options.out.empty()) {
    ordered_json all = texts[0];
    if (options.each_gpu) {
      all = ordered_json::object();
      for (size_t i = 0; i < tables.size(); ++i) all[tables[i].first] = texts[i];
    }
    fmt::print("{}\n", all.dump(4));
    return;
  }
  const std::string file = format.file_name(plan, options.dtype, options.block_shape);
  for (size_t i = 0; i < tables.size(); ++i) {
    const fs::path folder = fs::path(options.out) / tables[i].first;
    std::error_code error;
    fs::create_directories(folder, error);
    if (error)
      throw Error("-o", folder.string() + ": " + error.message(), "a folder that can be written",
                  "give another one");
    write_whole_file((folder / file).string(), texts[i].dump(4) + "\n");
    std::set<std::string> labels;
    for (const SizePick& pick : tables[i].second) labels.insert(pick.entry->label);
    fmt::print("{}: {} sizes, {} configurations\n", (folder / file).string(),
               tables[i].second.size(), labels.size());
  }
}

void run(const Options& options) {
  const ExportFormat& format = export_format(options.format);
  const bool of_loads = !options.load.empty() || !options.counts_file.empty();
  if (of_loads == !options.traffic.empty())
    throw Error("--traffic, --load, --counts-file", of_loads ? "both" : "none",
                "a table for the passes of --traffic, or the choice for loads",
                "say --traffic FILE.rmeas, or --load 8,8,0,30,...");
  if (of_loads && (options.each_gpu || !options.out.empty()))
    throw Error(options.each_gpu ? "--each-gpu" : "-o", "with loads", "with --traffic",
                "loads are printed, a line each");
  const Plan plan = read_plan(options.plan, {.allow_edited = options.allow_edited});
  for (const std::string& warning : plan.warnings)
    fmt::print(stderr, "warning: {}: {}\n", options.plan, warning);
  of_loads ? print_loads(options, format, plan) : write_tables(options, format, plan);
}

std::string described_formats() {
  Table table({"<", "<", "<knobs"});
  for (const ExportFormat& format : export_formats())
    table.add({format.name, format.summary, fmt::format("{}", fmt::join(format.knobs, ", "))});
  return table.text();
}

}  // namespace

void add_plan_export(CLI::App& plan_verb) {
  CLI::App* part =
      plan_verb.add_subcommand("export", "The choices as what a kernel that is not ramp's reads");
  auto options = std::make_shared<Options>();
  part->add_option("plan", options->plan, "a plan file")->required();
  part->add_option("--for", options->format, "the kernel: one of the list below")->required();
  part->add_option("--traffic", options->traffic,
                   "a .rmeas of this layer and layout: its passes say which loads a size brings");
  part->add_flag("--each-gpu", options->each_gpu,
                 "a table a GPU, for its own loads, in folders gpu0, gpu1, ...");
  part->add_option("--load", options->load,
                   "the choice for this load: tokens of each local expert, as 8,8,0,30");
  part->add_option("--counts-file", options->counts_file, "the same, one load a line");
  part->add_option("--tokens", options->tokens, "tokens of the loads' pass: its menu")
      ->check(CLI::Range(1, 1 << 24));
  part->add_option("-o,--out", options->out,
                   "folder of the tables, whose names are those that the kernel looks for; "
                   "default: stdout");
  part->add_option("--dtype", options->dtype, "vllm: in the file's name")->capture_default_str();
  part->add_option("--block-shape", options->block_shape,
                   "vllm: of the scales, in the file's name; \"\" for none")
      ->capture_default_str();
  part->add_flag("--allow-edited", options->allow_edited,
                 "read it though its identity does not match its content");
  part->footer("Kernels:\n" + described_formats() +
               "\nA table is keyed by the tokens of a pass (vLLM's batch sizes): what runs fastest "
               "there by the plan's\npredictions, over the passes of --traffic.\n"
               "Examples:\n"
               "  ramp plan export vllm.plan.json --for vllm --traffic vllm.rmeas -o tuned\n"
               "  ramp plan export dg.plan.json --for deepgemm --load 30,30,1,0,12,8,8,40");
  part->callback([options] { run(*options); });
}

}  // namespace ramp::cli
