// SPDX-License-Identifier: Apache-2.0
// `ramp trace generate`: routing for models without a public trace.
#include "problem/trace_generate.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/model_options.hpp"
#include "cli/progress.hpp"
#include "cli/trace_verbs.hpp"
#include "problem/trace_file.hpp"

namespace ramp::cli {
namespace {

using nlohmann::json;

struct GenerateFlags {
  ModelOptions model;
  std::string output, calibration, concurrency, rates, domains, arrivals;
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
  std::optional<ArrivalTrace> arrivals;
  if (!flags.arrivals.empty()) o.arrivals = &arrivals.emplace(read_arrivals(flags.arrivals));
  if (!flags.rates.empty()) o.rates = parse_rates("--rate", flags.rates);
  if (flags.concurrency.empty() && (o.arrivals || !o.rates.empty())) o.concurrency.clear();
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
                             {"scores", calibration_note(routing_label(info))},
                             {"layers", info.layers},
                             {"tokens", tokens},
                             {"passes", passes}}));
    return;
  }
  fmt::print("{}: {} bytes, {} tokens in {} passes, {} layers\n  {}\n  {}\n", flags.output, bytes,
             tokens, passes, info.layers.size(), routing_label(info), info.made);
  if (const std::string note = calibration_note(routing_label(info)); !note.empty())
    fmt::print("  {}\n", note);
}

}  // namespace

void add_trace_generate(CLI::App& trace) {
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
  verb->add_option("--rate", flags->rates,
                   "open-loop sessions instead: requests a second (Poisson), as 8,16,32");
  verb->add_option("--arrivals", flags->arrivals,
                   "an open-loop session by an arrival trace, with its lengths");
  verb->add_option("--speed", o.speed, "the arrival trace's clock runs so much faster")
      ->capture_default_str();
  verb->add_option("--pass-ms", o.pass_ms, "open loop: time of a pass")->capture_default_str();
  verb->add_option("--token-us", o.token_us, "open loop: time that each of its tokens adds")
      ->capture_default_str();
  verb->add_option("--max-active", o.max_active, "open loop: requests that run at once; 0: all")
      ->capture_default_str();
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
  verb->footer(
      "Examples:\n"
      "  ramp trace generate qwen3-30b -o qwen3.rtrace --layers 12\n"
      "  ramp trace generate qwen3-30b -o open.rtrace --layers 12 --rate 8,16,32 --burst-share 0\n"
      "The same seed and domains are the same network: fit on the first, score on the second.");
  verb->callback([flags] { run_generate(*flags); });
}

}  // namespace ramp::cli
