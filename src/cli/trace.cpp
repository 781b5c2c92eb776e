// SPDX-License-Identifier: Apache-2.0
// `ramp trace import|info|generate|replay`: routing in, looked at, made, and turned into forward
// passes.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "base/whole_file.hpp"
#include "cli/model_options.hpp"
#include "cli/progress.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "problem/imbalance.hpp"
#include "problem/replay.hpp"
#include "problem/trace_file.hpp"
#include "problem/trace_format.hpp"
#include "problem/trace_generate.hpp"
#include "problem/trace_import.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

std::string dump(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace);
}

// "1..26" for a run, else the list.
std::string layers_text(const std::vector<int>& layers) {
  if (layers.size() > 1 && layers.back() - layers.front() + 1 == static_cast<int>(layers.size()))
    return fmt::format("{}..{}", layers.front(), layers.back());
  std::string text;
  for (std::size_t i = 0; i < layers.size() && i < 12; ++i)
    text += fmt::format("{}{}", i ? "," : "", layers[i]);
  return layers.size() > 12 ? text + ",..." : text;
}

struct DomainCount {
  int requests = 0;
  std::int64_t tokens = 0, prompt = 0;
};

std::vector<DomainCount> count_domains(const RoutingTrace& trace) {
  std::vector<DomainCount> counts(trace.domains.size());
  for (const TraceRequest& request : trace.requests) {
    DomainCount& count = counts[request.domain];
    ++count.requests;
    count.tokens += request.tokens;
    count.prompt += request.prompt;
  }
  return counts;
}

json describe(const RoutingTrace& trace) {
  json out = json::parse(trace_format::pack_info(trace.info));
  out["tokens"] = trace.tokens();
  out["requests"] = trace.requests.size();
  out["passes"] = trace.passes();
  out["domains"] = json::array();
  const auto counts = count_domains(trace);
  for (std::size_t d = 0; d < counts.size(); ++d)
    out["domains"].push_back({{"name", trace.domains[d]},
                              {"requests", counts[d].requests},
                              {"tokens", counts[d].tokens},
                              {"prompt_tokens", counts[d].prompt}});
  return out;
}

void print_description(const RoutingTrace& trace) {
  const TraceInfo& info = trace.info;
  fmt::print("  {}: E = {}, k = {}, {} layers ({}), {} routing, {} tokens ({})\n",
             info.model.empty() ? "unnamed model" : info.model, info.experts, info.top_k,
             info.layers.size(), layers_text(info.layers), text_of(info.kind), trace.tokens(),
             text_of(info.phase));
  fmt::print("  {} requests, {} recorded passes, {} expert ids\n", trace.requests.size(),
             trace.passes(), text_of(info.id_space));
  if (info.kind == TraceKind::kGenerated)
    fmt::print("  calibration {}, seed {}\n", info.calibration, info.seed);
  if (!info.source.empty()) fmt::print("  source: {}\n", info.source);
  if (!info.licence.empty()) fmt::print("  licence: {}\n", info.licence);
  if (!info.made.empty()) fmt::print("  made: {}\n", info.made);
  if (!trace.requests.empty()) {
    Table table({"<domain", "requests", "tokens", "of them prompt"});
    const auto counts = count_domains(trace);
    for (std::size_t d = 0; d < counts.size(); ++d)
      table.add({trace.domains[d].empty() ? "(none)" : trace.domains[d],
                 std::to_string(counts[d].requests), std::to_string(counts[d].tokens),
                 std::to_string(counts[d].prompt)});
    fmt::print("{}", table.text());
  }
}

// ----------------------------------------------------------------------------------------------------------------
// import

struct ImportFlags {
  std::string input, output, layers, order = "layer-token-k", phase, made;
  ModelOptions model;
  ImportOptions options;
  int level = 19;
  bool as_json = false;
};

void run_import(ImportFlags& flags) {
  ImportOptions& o = flags.options;
  if (flags.model.given()) {
    // The routing needs E and k alone, so a model without d and h will do.
    o.info.model = flags.model.name;
    o.info.experts = flags.model.overrides.experts;
    o.info.top_k = flags.model.overrides.top_k;
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
  const ImportedTrace imported = import_trace(flags.input, o);
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

void add_import(CLI::App& trace) {
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
  verb->add_flag("--force", flags->options.force,
                 "import what looks wrong; bad ids become padding");
  verb->add_flag("--json", flags->as_json, "for machines");
  verb->footer(
      "Examples:\n"
      "  ramp trace import ids.npy.gz -o olmoe.rtrace --model olmoe\n"
      "  ramp trace import captures.npz -o my.rtrace --E 128 --order token-layer-k --phase decode");
  verb->callback([flags] { run_import(*flags); });
}

// ------------------------------------------------------------------------------------------------------------------
// info

void run_info(const std::string& path, bool as_json) {
  const ReadTrace read = read_trace(path);
  if (as_json) {
    json out = describe(read.trace);
    const TraceHealth& h = read.health;
    out["health"] = {{"whole", h.whole()},
                     {"closed", h.closed},
                     {"file_bytes", h.file_bytes},
                     {"lost_bytes", h.lost_bytes},
                     {"lost_tokens", h.lost_tokens},
                     {"chunks", h.chunks},
                     {"damaged_chunks", h.damaged_chunks},
                     {"reason", h.reason}};
    fmt::print("{}\n", dump(out));
    return;
  }
  fmt::print("{}\n", path);
  print_description(read.trace);
  fmt::print("  file: {}\n", read.health.text());
}

void add_info(CLI::App& trace) {
  CLI::App* verb = trace.add_subcommand("info", "What a .rtrace holds, and whether it is whole");
  auto path = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  verb->add_option("trace", *path, "a .rtrace, or the .rtrace.part that a crash left")->required();
  verb->add_flag("--json", *as_json, "for machines");
  verb->footer("Example:\n  ramp trace info data/traces/dsv2lite_esft.rtrace");
  verb->callback([path, as_json] { run_info(*path, *as_json); });
}

// --------------------------------------------------------------------------------------------------------------
// generate

struct GenerateFlags {
  ModelOptions model;
  std::string output, calibration, concurrency, domains;
  GenerateOptions options;
  bool as_json = false;
};

void run_generate(GenerateFlags& flags) {
  GenerateOptions& o = flags.options;
  o.model = flags.model.model();
  if (!o.uniform)
    o.calibration = find_calibration(flags.calibration.empty() ? o.model.name : flags.calibration);
  if (!flags.concurrency.empty())
    o.concurrency = parse_numbers("--concurrency", flags.concurrency, 8192);
  if (!flags.domains.empty()) {
    o.domains.clear();
    for (std::size_t at = 0; at <= flags.domains.size();) {
      const std::size_t end = std::min(flags.domains.find(',', at), flags.domains.size());
      o.domains.push_back(flags.domains.substr(at, end - at));
      at = end + 1;
    }
  }
  Progress progress("generating");
  TraceWriter writer(flags.output, generated_info(o), 6);
  const std::size_t row =
      static_cast<std::size_t>(o.layers == 0 ? o.model.moe_layers : o.layers) * o.model.shape.top_k;
  int passes = 0;
  std::uint64_t requests = 0;
  generate_passes(o, [&](const GeneratedPass& pass) {
    std::size_t at = 0;
    for (const GeneratedRun& run : pass.runs) {
      writer.append({run.request, o.domains[run.domain], run.tokens, run.prompt},
                    pass.ids.subspan(at, run.tokens * row));
      at += run.tokens * row;
      requests = std::max(requests, run.request + 1);
    }
    writer.end_pass();
    ++passes;
    progress.update(pass.done, pass.total);
  });
  const std::int64_t tokens = writer.tokens();
  writer.close();
  const auto bytes = std::filesystem::file_size(flags.output);
  const TraceInfo info = generated_info(o);
  if (flags.as_json) {
    fmt::print("{}\n", dump({{"file", flags.output},
                             {"bytes", bytes},
                             {"model", info.model},
                             {"kind", text_of(info.kind)},
                             {"calibration", info.calibration},
                             {"seed", info.seed},
                             {"layers", info.layers},
                             {"tokens", tokens},
                             {"passes", passes}}));
    return;
  }
  fmt::print("{}: {} bytes, {} tokens in {} passes, {} layers\n  {}\n  {}\n", flags.output, bytes,
             tokens, passes, info.layers.size(), routing_label(info), info.made);
}

void add_generate(CLI::App& trace) {
  CLI::App* verb = trace.add_subcommand(
      "generate",
      "Make routing for a model without a public trace, calibrated to the paper's imbalance");
  auto flags = std::make_shared<GenerateFlags>();
  GenerateOptions& o = flags->options;
  add_model_options(*verb, flags->model, /*positional=*/true);
  verb->add_option("-o,--output", flags->output, "the .rtrace to write")->required();
  verb->add_option("--calibration", flags->calibration,
                   "the model whose numbers are used; default: its own");
  verb->add_option("--domains", flags->domains, "kinds of text; default chat,math,code,knowledge");
  verb->add_option("--concurrency", flags->concurrency,
                   "active requests of the sessions; default 1,4,16,64,160,256");
  verb->add_option("--repeats", o.repeats, "sessions of each domain and concurrency")
      ->capture_default_str();
  verb->add_option("--passes", o.passes, "recorded passes of a session")->capture_default_str();
  verb->add_option("--stride", o.stride, "passes of the server from one recorded pass to the next")
      ->capture_default_str();
  verb->add_option("--burst-share", o.burst_share,
                   "share of passes with prompts up to --max-tokens")
      ->capture_default_str();
  verb->add_option("--max-tokens", o.max_tokens, "tokens of the largest pass")
      ->capture_default_str();
  verb->add_option("--layers", o.layers, "the first so many MoE layers; 0: all")
      ->capture_default_str();
  verb->add_flag("--uniform", o.uniform, "every expert alike, for reference");
  verb->add_option("--seed", o.seed, "another seed, another trace")->capture_default_str();
  verb->add_flag("--json", flags->as_json, "for machines");
  verb->footer("Example:\n  ramp trace generate qwen3-30b -o qwen3.rtrace --layers 12");
  verb->callback([flags] { run_generate(*flags); });
}

// ----------------------------------------------------------------------------------------------------------------
// replay

struct ReplayFlags {
  std::string trace, domain, prompts = "auto", output;
  ReplayOptions options;
  int passes = 200, warm_up = 0, show = 12;
  bool as_json = false;
};

void run_replay(const ReplayFlags& flags) {
  const ReadTrace read = read_trace(flags.trace);
  if (!read.health.whole()) fmt::print(stderr, "note: {}\n", read.health.text());
  const RoutingTrace& trace = read.trace;
  if (flags.passes < 1 || flags.passes > 10'000'000)
    throw Error("--passes", fmt::format("{}", flags.passes), "1 .. 10,000,000", "for example 200");
  std::vector<int> requests;
  for (std::size_t r = 0; r < trace.requests.size(); ++r)
    if (flags.domain.empty() || trace.domains[trace.requests[r].domain] == flags.domain)
      requests.push_back(static_cast<int>(r));
  if (requests.empty() && !trace.requests.empty()) {
    std::string known;
    for (const std::string& d : trace.domains) known += (known.empty() ? "" : ", ") + d;
    throw Error("--domain", flags.domain, known, "pick one of these");
  }
  Replay replay(trace, requests, flags.options);
  replay.skip(flags.warm_up);
  Progress progress("replaying");
  std::vector<ForwardPass> passes;
  for (int p = 0; p < flags.passes; ++p) {
    passes.push_back(replay.next());
    progress.update(p + 1, flags.passes);
  }
  std::vector<double> sizes;
  std::int64_t prefill = 0, tokens = 0;
  int large = 0;
  for (const ForwardPass& pass : passes) {
    sizes.push_back(static_cast<double>(pass.tokens.size()));
    tokens += static_cast<std::int64_t>(pass.tokens.size());
    prefill += pass.prefill_tokens;
    large += pass.tokens.size() >= 128;
  }
  if (!flags.output.empty()) {
    std::string lines;
    for (const ForwardPass& pass : passes)
      lines +=
          json({{"tokens", pass.tokens}, {"prefill_tokens", pass.prefill_tokens}}).dump() + "\n";
    write_whole_file(flags.output, lines);
  }
  const double share = static_cast<double>(large) / static_cast<double>(passes.size());
  if (flags.as_json) {
    json out = {{"passes", passes.size()},
                {"tokens", tokens},
                {"prefill_tokens", prefill},
                {"median_tokens", median(sizes)},
                {"max_tokens", *std::max_element(sizes.begin(), sizes.end())},
                {"share_128", share},
                {"sizes", sizes}};
    fmt::print("{}\n", dump(out));
    return;
  }
  Table table({"pass", "tokens", "decoding", "prefill"});
  for (int p = 0; p < std::min<int>(flags.show, static_cast<int>(passes.size())); ++p)
    table.add({std::to_string(p), std::to_string(passes[p].tokens.size()),
               std::to_string(passes[p].tokens.size() - passes[p].prefill_tokens),
               std::to_string(passes[p].prefill_tokens)});
  fmt::print("{}", table.text());
  if (static_cast<int>(passes.size()) > flags.show)
    fmt::print("  ... {} more\n", passes.size() - flags.show);
  fmt::print(
      "{} passes, {} tokens, {} of them prefill; median {:.0f} tokens, {:.1f} % of passes with 128 "
      "or more\n",
      passes.size(), tokens, prefill, median(sizes), 100 * share);
  if (!flags.output.empty()) fmt::print("token indexes of every pass: {}\n", flags.output);
}

void add_replay(CLI::App& trace) {
  CLI::App* verb = trace.add_subcommand(
      "replay", "Requests to forward passes: continuous batching, closed or open loop");
  auto flags = std::make_shared<ReplayFlags>();
  ReplayOptions& o = flags->options;
  verb->add_option("trace", flags->trace, "a .rtrace with requests")->required();
  verb->add_option("--concurrency", o.concurrency, "closed loop: requests active at once")
      ->capture_default_str();
  verb->add_option("--rate", o.rate, "open loop instead: requests a second, at random");
  verb->add_option("--pass-ms", o.pass_ms, "open loop: time of a pass")->capture_default_str();
  verb->add_option("--budget", o.token_budget, "tokens a pass may hold")->capture_default_str();
  verb->add_option("--passes", flags->passes, "passes to replay")->capture_default_str();
  verb->add_option("--skip", flags->warm_up, "passes before the first one shown")
      ->capture_default_str();
  verb->add_option("--domain", flags->domain, "requests of this domain only");
  verb->add_option("--prompts", flags->prompts,
                   "prefill them in chunks, or stream every token as if decoded")
      ->check(CLI::IsMember({"auto", "prefill", "stream"}))
      ->capture_default_str();
  verb->add_option("--show", flags->show, "rows of the table")->capture_default_str();
  verb->add_option("--seed", o.seed, "another seed, another order")->capture_default_str();
  verb->add_option("-o,--output", flags->output, "JSON lines: the token indexes of each pass");
  verb->add_flag("--json", flags->as_json, "for machines");
  verb->footer(
      "Example:\n  ramp trace replay data/traces/dsv2lite_esft.rtrace --concurrency 160 --domain "
      "law");
  verb->callback([flags] {
    flags->options.prompts = flags->prompts == "prefill"  ? Prompts::kPrefill
                             : flags->prompts == "stream" ? Prompts::kStream
                                                          : Prompts::kAuto;
    run_replay(*flags);
  });
}

}  // namespace

void add_trace(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("trace", "Routing traces: import, look at, generate, replay");
  verb->require_subcommand(1);
  add_import(*verb);
  add_info(*verb);
  add_generate(*verb);
  add_replay(*verb);
}

}  // namespace ramp::cli
