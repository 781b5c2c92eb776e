// SPDX-License-Identifier: Apache-2.0
// `ramp trace import`: other people's routing records to a .rtrace.
#include "problem/trace_import.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "cli/model_options.hpp"
#include "cli/trace_verbs.hpp"
#include "problem/counts_import.hpp"
#include "problem/trace_file.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct ImportFlags {
  std::string input, output, layers, order = "layer-token-k", phase, made;
  ModelOptions model;
  ImportOptions options;
  int level = 19;
  bool is_counts = false;
  bool as_json = false;
};

void run_import(ImportFlags& flags) {
  ImportOptions& o = flags.options;
  o.info.top_k = flags.model.overrides.top_k;
  if (flags.model.given()) {
    // The routing needs E and k alone, so a model without d and h will do.
    o.info.model = flags.model.name;
    o.info.experts = flags.model.overrides.experts;
    if (!flags.model.config.empty()) {
      const Model model = flags.model.model();
      o.info.model = model.name;
      o.info.experts = model.shape.experts;
      o.info.top_k = model.shape.top_k;
    } else if (!flags.model.name.empty()) {
      const Model& model = find_model(flags.model.name);
      if (o.info.experts == 0) o.info.experts = model.shape.experts;
    }
  }
  if (!flags.layers.empty()) o.info.layers = parse_numbers("--layers", flags.layers, 65535);
  o.order = flags.order == "token-layer-k" ? AxisOrder::kTokenLayerK : AxisOrder::kLayerTokenK;
  o.is_phase_given = !flags.phase.empty();
  for (const TracePhase phase : {TracePhase::kPrefill, TracePhase::kDecode, TracePhase::kMixed})
    if (flags.phase == text_of(phase)) o.info.phase = phase;
  const ImportedTrace imported =
      flags.is_counts ? trace_of_counts(read_counts(flags.input), o) : import_trace(flags.input, o);
  write_trace(imported.trace, flags.output, flags.level);
  const ImportReport& r = imported.report;
  const auto bytes = std::filesystem::file_size(flags.output);
  if (flags.as_json) {
    json out = describe(imported.trace);
    out["file"] = flags.output;
    out["bytes"] = bytes;
    out["report"] = {{"format", r.format},
                     {"rows", r.rows},
                     {"out_of_range", r.out_of_range},
                     {"padding", r.padding},
                     {"duplicate_rows", r.duplicate_rows},
                     {"equal_rows", r.equal_rows},
                     {"constant_layers", r.constant_layers},
                     {"copied_layers", r.copied_layers},
                     {"highest_id", r.highest_id},
                     {"dropped_requests", r.dropped_requests},
                     {"dropped_tokens", r.dropped_tokens},
                     {"complaints", r.complaints}};
    fmt::print("{}\n", dump(out));
    return;
  }
  fmt::print("{} -> {} ({} bytes, {})\n", flags.input, flags.output, bytes, r.format);
  print_description(imported.trace);
  fmt::print(
      "  rows {} | ids out of range {} | padding {} | rows with an expert twice {} | equal to the "
      "row before {:.1f} %\n",
      r.rows, r.out_of_range, r.padding, r.duplicate_rows, 100 * r.equal_rows);
  if (r.dropped_requests > 0)
    fmt::print("  left out: {} requests, {} tokens\n", r.dropped_requests, r.dropped_tokens);
  for (const std::string& complaint : r.complaints) fmt::print("  FORCED past: {}\n", complaint);
}

}  // namespace

void add_trace_import(CLI::App& trace) {
  CLI::App* verb =
      trace.add_subcommand("import", "Turn .npy, .npy.gz, .npz or JSON lines into a .rtrace");
  auto flags = std::make_shared<ImportFlags>();
  verb->add_option("input", flags->input, "ids [layer, token, k]; see docs/traces.md")->required();
  verb->add_option("-o,--output", flags->output, "the .rtrace to write")->required();
  add_model_options(*verb, flags->model);
  verb->add_option("--layers", flags->layers,
                   "decoder layers of the rows, e.g. 1-26; default: the model's MoE layers");
  verb->add_option("--order", flags->order, "axes of the array")
      ->check(CLI::IsMember({"layer-token-k", "token-layer-k"}))
      ->capture_default_str();
  verb->add_option("--sidecar", flags->options.sidecar,
                   "JSON with requests and passes; default NAME.json");
  verb->add_option("--source", flags->options.info.source,
                   "where the record comes from: repository @ commit");
  verb->add_option("--licence", flags->options.info.licence, "its licence");
  verb->add_option("--made", flags->options.info.made, "what was done to it");
  verb->add_option("--phase", flags->phase, "what the tokens are")
      ->check(CLI::IsMember({"prefill", "decode", "mixed"}));
  verb->add_option("--pass-tokens", flags->options.pass_tokens,
                   "a record without requests and passes: cut it into passes of so many tokens");
  verb->add_option("--requests-per-domain", flags->options.requests_per_domain,
                   "keep so many, evenly spaced; 0: all");
  verb->add_option("--level", flags->level, "zstd level")
      ->check(CLI::Range(1, 22))
      ->capture_default_str();
  verb->add_flag("--counts", flags->is_counts,
                 "the input is counts, [passes, layers, E]: SGLang's recorder, EPLB's window");
  verb->add_flag("--force", flags->options.force,
                 "import what looks wrong; bad ids become padding");
  verb->add_flag("--json", flags->as_json, "for machines");
  verb->footer(
      "Examples:\n"
      "  ramp trace import ids.npy.gz -o olmoe.rtrace --model olmoe\n"
      "  ramp trace import captures.npz -o my.rtrace --E 128 --order token-layer-k --phase decode\n"
      "  ramp trace import counts.npz -o r1.rtrace --counts --model deepseek-r1");
  verb->callback([flags] { run_import(*flags); });
}

}  // namespace ramp::cli
